"""Closed forms of collectives: alpha-beta costs by algorithm, and limits by lines, trees and bisections.

The parameters of a machine are arguments; the tests compare the results for BlueGene/L with published ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from petacomm.base.errors import ConfigError, require_known
from petacomm.topology import Torus


@dataclass(frozen=True)
class AlphaBetaCost:
    """Number of consecutive messages of the busiest rank, and their bytes.

    Attributes
    ----------
    messages : int
    bytes : float
    """

    messages: int
    bytes: float

    def time(self, alpha: float, beta: float) -> float:
        """Return the seconds in the alpha-beta model: messages x alpha + bytes x beta."""
        return self.messages * alpha + self.bytes * beta


def _doublings(n_ranks: int) -> int:
    return (n_ranks - 1).bit_length()


def _folded(inner: Callable[[int, float], AlphaBetaCost]) -> Callable[[int, float], AlphaBetaCost]:
    """Return the cost for any number of ranks, given that for a power of two: two more full messages."""

    def alpha_beta_cost(n_ranks: int, n_bytes: float) -> AlphaBetaCost:
        power = 1 << (n_ranks.bit_length() - 1)
        core = inner(power, n_bytes)
        extra = 2 * (n_ranks > power)
        return AlphaBetaCost(core.messages + extra, core.bytes + extra * n_bytes)

    return alpha_beta_cost


def _whole_vectors(n_ranks: int, n_bytes: float) -> AlphaBetaCost:
    return AlphaBetaCost(_doublings(n_ranks), _doublings(n_ranks) * n_bytes)


def _halving(n_ranks: int, n_bytes: float) -> AlphaBetaCost:
    return AlphaBetaCost(2 * _doublings(n_ranks), 2 * n_bytes * (n_ranks - 1) / n_ranks)


def _ring(n_ranks: int, n_bytes: float) -> AlphaBetaCost:
    return AlphaBetaCost(2 * (n_ranks - 1), 2 * n_bytes * (n_ranks - 1) / n_ranks)


def _scatter_allgather(n_ranks: int, n_bytes: float) -> AlphaBetaCost:
    # The largest messages of the rounds of the scatter, then those of the ring.
    parts = sum(min(1 << k, n_ranks - (1 << k)) for k in range(_doublings(n_ranks)))
    return AlphaBetaCost(_doublings(n_ranks) + n_ranks - 1, n_bytes * (parts + n_ranks - 1) / n_ranks)


def _pairs(n_ranks: int, n_bytes: float) -> AlphaBetaCost:
    return AlphaBetaCost(n_ranks - 1, (n_ranks - 1) * n_bytes)


def _store_and_forward(n_ranks: int, n_bytes: float) -> AlphaBetaCost:
    # In round k go the blocks whose distance, below the number of ranks, has bit k.
    halves = [1 << k for k in range(_doublings(n_ranks))]
    blocks = sum(n_ranks // (2 * half) * half + max(0, n_ranks % (2 * half) - half) for half in halves)
    return AlphaBetaCost(len(halves), blocks * n_bytes)


# By collective and algorithm as in petacomm.schedule; bytes are those of the vector, or of a block.
_COSTS: dict[tuple[str, str], Callable[[int, float], AlphaBetaCost]] = {
    ("broadcast", "binomial"): _whole_vectors,
    ("broadcast", "scatter-allgather"): _scatter_allgather,
    ("broadcast", "scatter-doubling"): _halving,
    ("reduce", "binomial"): _whole_vectors,
    ("allreduce", "recursive-doubling"): _folded(_whole_vectors),
    ("allreduce", "rabenseifner"): _folded(_halving),
    ("allreduce", "ring"): _ring,
    ("alltoall", "pairwise"): _pairs,
    ("alltoall", "all-post"): _pairs,
    ("alltoall", "bruck"): _store_and_forward,
    ("barrier", "dissemination"): _whole_vectors,
    ("barrier", "recursive-doubling"): _folded(_whole_vectors),
}


def has_alpha_beta_cost(collective: str, algorithm: str) -> bool:
    """Return whether there is an `alpha_beta_cost` of an algorithm."""
    return (collective, algorithm) in _COSTS


def alpha_beta_cost(collective: str, algorithm: str, n_ranks: int, n_bytes: float) -> AlphaBetaCost:
    """Return the alpha-beta cost of a topology-independent algorithm (Thakur, Rabenseifner and Gropp 2005).

    Parameters
    ----------
    collective, algorithm : str
    n_ranks : int
    n_bytes : float
        Bytes of the vector; of each block of an all-to-all; of the message of a barrier.

    Raises
    ------
    ConfigError
        If there is no closed form of that name, or there are no ranks.
    """
    known = [name for other, name in _COSTS if other == collective]
    require_known(f"no alpha-beta form of {collective}", algorithm, known)
    if n_ranks < 1:
        raise ConfigError(f"a {collective} of {n_ranks} ranks", mend="give 1 or more")
    return _COSTS[collective, algorithm](n_ranks, n_bytes)


def pipeline_seconds(
    n_rounds: int, n_bytes: float, n_segments: int, alpha: float, beta: float, n_streams: int = 1
) -> float:
    """Return the seconds of a pipelined schedule: (R + S - 1) (alpha + n / (k S) beta).

    Parameters
    ----------
    n_rounds : int
        R, rounds of one segment: the depth of the tree or path.
    n_bytes : float
        n, bytes of the vector.
    n_segments : int
        S, segments of each stream.
    alpha, beta : float
        Seconds per message and per byte.
    n_streams : int
        k, concurrent streams, each with a part of the vector.
    """
    return (n_rounds + n_segments - 1) * (alpha + n_bytes / (n_streams * n_segments) * beta)


def optimal_segments(n_rounds: int, n_bytes: float, alpha: float, beta: float, n_streams: int = 1) -> int:
    """Return the number of segments that minimizes `pipeline_seconds`: sqrt((R - 1) n beta / (k alpha))."""
    root = math.sqrt((n_rounds - 1) * n_bytes * beta / (n_streams * alpha))
    near = (max(1, math.floor(root)), max(1, math.ceil(root)))
    return min(near, key=lambda s: pipeline_seconds(n_rounds, n_bytes, s, alpha, beta, n_streams))


def line_latency(
    size: int, overhead: float, packet_bytes: float, bandwidth: float, packet_time: float
) -> float:
    """Return the seconds of a broadcast of all nodes of a line to all others: S + (n - 1) max(P / BW, T).

    Almasi et al. 2005, section 3.2. Nodes at the ends receive n - 1 packets over one link.

    Parameters
    ----------
    size : int
        n, nodes of the line.
    overhead : float
        S, seconds of software and of transit.
    packet_bytes, bandwidth : float
        P, bytes of a packet, and BW, bandwidth of a link in bytes per second.
    packet_time : float
        T, seconds of the processor per received packet.
    """
    return overhead + (size - 1) * max(packet_bytes / bandwidth, packet_time)


def rectangle_latency(
    shape: Sequence[int],
    overhead: float,
    packet_bytes: float,
    bandwidth: float,
    packet_time: float,
    group: int | None = None,
) -> float:
    """Return the seconds of a short all-reduce or barrier by "lines", one dimension after the other.

    In groups of m nodes, g groups on a line: 2 S + (m - 1 + g - 1) max(P / BW, T) for each dimension
    (Almasi et al. 2005, section 3.2); without groups, `line_latency`.
    """
    total = 0.0
    for size in shape:
        members = size if group is None else min(group, size)
        for among in (members, -(-size // members)):
            if among > 1:
                total += line_latency(among, overhead, packet_bytes, bandwidth, packet_time)
    return total


def tree_efficiency(payload: float, header: float) -> float:
    """Return the fraction of a packet that is payload: 256 of 266 bytes on BlueGene/L's tree."""
    return payload / (payload + header)


def tree_time(n_bytes: float, latency: float, raw_bandwidth: float, payload: float, header: float) -> float:
    """Return the seconds of a vector on the tree, packet after packet; the last packet has full size."""
    n_packets = max(1, math.ceil(n_bytes / payload))
    return latency + n_packets * (payload + header) / raw_bandwidth


def processor_bandwidth(payload: float, cycles: float, clock: float) -> float:
    """Return the bytes per second of a node that needs `cycles` of its clock for each packet."""
    return payload * clock / cycles


def alltoall_peak_bandwidth(grid: Torus, link_bandwidth: float) -> float:
    """Return the bytes per second that each node can send in an all-to-all, limited by the busiest links.

    4 L / n on a mesh and 8 L / n on a torus of longest dimension n, where it is even (Almasi et al. 2005,
    section 5.3). As in the source, messages of nodes to themselves count: without them the result would be
    multiplied by (N - 1) / N.

    Parameters
    ----------
    grid : Torus
    link_bandwidth : float
        L, bandwidth of a link in one direction, in bytes per second.
    """
    loads = [
        size * size // 4 / size if not ring else (size * size // 4) / 2 / size
        for size, ring in zip(grid.shape, grid.wrap, strict=True)
        if size > 1
    ]
    return link_bandwidth / max(loads) if loads else math.inf


def streams_peak_bandwidth(n_streams: int, link_bandwidth: float, cpu_bandwidth: float = math.inf) -> float:
    """Return the bytes per second of link-disjoint streams, limited by links and processors."""
    return min(n_streams * link_bandwidth, cpu_bandwidth)
