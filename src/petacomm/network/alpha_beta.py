"""The alpha-beta model: a message of n bytes takes alpha + n beta (Sudarsan et al. 2011, section 3.2).

It knows nothing of routes and congestion. Beyond the published model, ranks of a node share what leaves it,
its memory and its cores: where there are more ranks than cores, the cores do the work of all of them.
"""

from __future__ import annotations

import math

from petacomm.network.communication_load import Load, Phase
from petacomm.topology import Machine


def message(n_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of one message of `n_bytes`: alpha + n beta."""
    return alpha + n_bytes * beta


def allreduce(size: int, n_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of Rabenseifner's all-reduce: 2 log2(p) alpha + 2 n (p - 1) / p beta (3.2)."""
    return 2 * math.log2(size) * alpha + 2 * n_bytes * (size - 1) / size * beta


def buffered_allreduce(size: int, n_bytes: float, buffer_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of that all-reduce over a vector of `n_bytes`, one buffer after the other.

    2 ceil(N / n_b) log2(p) alpha + 2 N (p - 1) / p beta (section 3.2).
    """
    n_buffers = math.ceil(n_bytes / buffer_bytes)
    return n_buffers * 2 * math.log2(size) * alpha + 2 * n_bytes * (size - 1) / size * beta


def ring_allgather(size: int, n_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of a ring, each rank giving `n_bytes`: (p - 1) (alpha + n beta)."""
    return (size - 1) * message(n_bytes, alpha, beta)


def tree_allgather(size: int, n_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of a tree, each rank giving `n_bytes`: log2(p) alpha + (p - 1) n beta."""
    return math.log2(size) * alpha + (size - 1) * n_bytes * beta


def pairwise_alltoallv(messages: float, n_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of messages that hold `n_bytes` together: p alpha + k n_lmax beta (3.3)."""
    return messages * alpha + n_bytes * beta


def gather_set_up(size: int, largest_bytes: float, buffer_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of the published set-up's communication (section 3.3).

    log2(p) n_lmax / n_b alpha + p n_lmax (p - 1) / p beta: all ranks gather the keys of all, a buffer of
    `buffer_bytes` of each at once. `largest_bytes` are the keys of the rank that has most.
    """
    n_buffers = math.ceil(largest_bytes / buffer_bytes)
    return n_buffers * math.log2(size) * alpha + (size - 1) * largest_bytes * beta


def predict(load: Load, machine: Machine, ranks_per_node: int, k: int, itemsize: int) -> float:
    """Return the seconds that a load takes.

    Parameters
    ----------
    load : sequence of Phase
    machine : Machine
    ranks_per_node : int
        Ranks on a node; more than its cores if they take turns.
    k, itemsize : int
        Values of a row, and bytes of a value.

    Returns
    -------
    float
        The sum over phases of messages, bytes, rows moved in memory, and waits.
    """
    return sum(phase_time(phase, machine, ranks_per_node, k * itemsize) for phase in load)


def phase_time(phase: Phase, machine: Machine, ranks_per_node: int, row_bytes: int) -> float:
    """Return the seconds of one phase, of rows of `row_bytes`."""
    return (
        _sending_time(phase, machine, row_bytes)
        + _memory_time(phase, machine, row_bytes)
        + waits(phase, ranks_per_node, machine.cores) * machine.synchronisation
    )


def turns(busiest: float, node: float, cores: int) -> float:
    """Return what a core has to do: the busiest rank's share, or its part of the node's if that is more."""
    return max(busiest, node / cores)


def waits(phase: Phase, ranks_per_node: int, cores: int) -> float:
    """Return the steps that ranks of a node wait for each other: those of barriers, and of the last message.

    A barrier takes a step for each doubling of the ranks; ranks that share a core take turns.
    """
    steps = math.ceil(math.log2(max(2, ranks_per_node))) * max(1.0, ranks_per_node / cores)
    return steps * (phase.barriers + (phase.node_messages > 0))


def _sending_time(phase: Phase, machine: Machine, row_bytes: int) -> float:
    messages = turns(phase.messages, phase.node_messages, machine.cores)
    if not phase.off_node_rows:
        rows = turns(phase.rows, phase.node_rows, machine.cores)
        return messages * machine.local_latency + rows * row_bytes / machine.local_bandwidth
    return messages * machine.latency + row_bytes * max(
        phase.rows / machine.bandwidth, phase.off_node_rows / machine.node_bandwidth
    )


def _memory_time(phase: Phase, machine: Machine, row_bytes: int) -> float:
    """A row moved is read and written; a run of them is found first."""
    moved = turns(phase.moved, phase.node_moved, machine.cores)
    by_core = moved * (machine.row_time + 2 * row_bytes / machine.core_memory_bandwidth)
    by_core += turns(phase.runs, phase.node_runs, machine.cores) * machine.run_time
    return max(by_core, phase.node_moved * 2 * row_bytes / machine.memory_bandwidth)
