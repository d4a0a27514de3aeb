"""The alpha-beta model: a message of n bytes takes alpha + n beta (Sudarsan et al. 2011, section 3.2).

It neglects routes and congestion. Beyond the published model, the ranks of a node share its injection
bandwidth, its memory and its cores: if there are more ranks than cores, the cores do the work of all of them.
"""

from __future__ import annotations

import math

from petacomm.network.communication_load import Load, LoadPhase
from petacomm.topology import Machine


def message_seconds(n_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of one message of `n_bytes`: alpha + n beta."""
    return alpha + n_bytes * beta


def allreduce_seconds(size: int, n_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of Rabenseifner's all-reduce: 2 log2(p) alpha + 2 n (p - 1) / p beta (3.2)."""
    return 2 * math.log2(size) * alpha + 2 * n_bytes * (size - 1) / size * beta


def buffered_allreduce_seconds(
    size: int, n_bytes: float, buffer_bytes: float, alpha: float, beta: float
) -> float:
    """Return the seconds of Rabenseifner's all-reduce of a vector, one buffer after the other.

    2 ceil(N / n_b) log2(p) alpha + 2 N (p - 1) / p beta (section 3.2).
    """
    n_buffers = math.ceil(n_bytes / buffer_bytes)
    return n_buffers * 2 * math.log2(size) * alpha + 2 * n_bytes * (size - 1) / size * beta


def ring_allgather_seconds(size: int, n_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of a ring all-gather of `n_bytes` per rank: (p - 1) (alpha + n beta)."""
    return (size - 1) * message_seconds(n_bytes, alpha, beta)


def tree_allgather_seconds(size: int, n_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of a tree all-gather of `n_bytes` per rank: log2(p) alpha + (p - 1) n beta."""
    return math.log2(size) * alpha + (size - 1) * n_bytes * beta


def pairwise_alltoallv_seconds(messages: float, n_bytes: float, alpha: float, beta: float) -> float:
    """Return the seconds of messages of `n_bytes` in total: p alpha + k n_lmax beta (section 3.3)."""
    return messages * alpha + n_bytes * beta


def gather_setup_seconds(
    size: int, largest_bytes: float, buffer_bytes: float, alpha: float, beta: float
) -> float:
    """Return the seconds of the communication of the published set-up (section 3.3).

    log2(p) n_lmax / n_b alpha + p n_lmax (p - 1) / p beta: all ranks gather the keys of all, `buffer_bytes`
    of each rank at a time. `largest_bytes` is the size of the keys of the rank with the most.
    """
    n_buffers = math.ceil(largest_bytes / buffer_bytes)
    return n_buffers * math.log2(size) * alpha + (size - 1) * largest_bytes * beta


def predict_seconds(load: Load, machine: Machine, ranks_per_node: int, k: int, itemsize: int) -> float:
    """Return the predicted seconds of a communication load on a machine.

    Parameters
    ----------
    load : sequence of LoadPhase
    machine : Machine
    ranks_per_node : int
        Ranks on a node; if they are more than its cores, they take turns.
    k, itemsize : int
        Values of a row, and bytes of a value.

    Returns
    -------
    float
        Sum over the phases of the times of messages, bytes, rows moved in memory, and synchronisation.
    """
    return sum(phase_seconds(phase, machine, ranks_per_node, k * itemsize) for phase in load)


def phase_seconds(phase: LoadPhase, machine: Machine, ranks_per_node: int, row_bytes: int) -> float:
    """Return the predicted seconds of one phase, with rows of `row_bytes`."""
    return (
        _sending_time(phase, machine, row_bytes)
        + _memory_time(phase, machine, row_bytes)
        + synchronisation_steps(phase, ranks_per_node, machine.cores) * machine.synchronisation
    )


def core_work(busiest: float, node: float, cores: int) -> float:
    """Return the work of the busiest core: that of the busiest rank, or `node` / `cores` if larger."""
    return max(busiest, node / cores)


def synchronisation_steps(phase: LoadPhase, ranks_per_node: int, cores: int) -> float:
    """Return the number of synchronisation steps of a phase: those of its barriers and of the last message.

    A barrier takes one step per doubling of the ranks; ranks that share a core take turns.
    """
    steps = math.ceil(math.log2(max(2, ranks_per_node))) * max(1.0, ranks_per_node / cores)
    return steps * (phase.barriers + (phase.node_messages > 0))


def _sending_time(phase: LoadPhase, machine: Machine, row_bytes: int) -> float:
    messages = core_work(phase.messages, phase.node_messages, machine.cores)
    if not phase.off_node_rows:
        rows = core_work(phase.rows, phase.node_rows, machine.cores)
        return messages * machine.local_latency + rows * row_bytes / machine.local_bandwidth
    return messages * machine.latency + row_bytes * max(
        phase.rows / machine.bandwidth, phase.off_node_rows / machine.node_bandwidth
    )


def _memory_time(phase: LoadPhase, machine: Machine, row_bytes: int) -> float:
    """Return the seconds of moving rows in memory: each is read and written, each run is located first."""
    moved = core_work(phase.moved, phase.node_moved, machine.cores)
    by_core = moved * (machine.row_time + 2 * row_bytes / machine.core_memory_bandwidth)
    by_core += core_work(phase.runs, phase.node_runs, machine.cores) * machine.run_time
    return max(by_core, phase.node_moved * 2 * row_bytes / machine.memory_bandwidth)
