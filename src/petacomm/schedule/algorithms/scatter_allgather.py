"""Broadcast by a binomial scatter and an all-gather: what MPICH does with long vectors, round a ring, and
with those of medium length, by doubling (Thakur, Rabenseifner and Gropp 2005, 3.2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.algorithms.binomial import doublings, senders
from petacomm.schedule.schedule import Round, Schedule, ScheduleError, check_ranks, parts


def broadcast(n_ranks: int, n_elements: int, root: int = 0) -> Schedule:
    """Scatter a part of the vector to each rank, then send all parts round a ring."""
    check_ranks(n_ranks)
    edges = np.append(parts(n_elements, n_ranks)[0], n_elements)
    ranks = np.arange(n_ranks, dtype=np.int64)

    def rounds() -> Iterator[Round]:
        yield from _scatter(n_ranks, edges, root)
        for k in range(n_ranks - 1):
            part = (ranks - k) % n_ranks
            length = edges[part + 1] - edges[part]
            yield Round.of((ranks + root) % n_ranks, (ranks + 1 + root) % n_ranks, edges[part], length)

    n_rounds = doublings(n_ranks) + n_ranks - 1
    return Schedule("broadcast", "scatter-allgather", n_ranks, n_elements, n_rounds, rounds, root=root)


def broadcast_by_doubling(n_ranks: int, n_elements: int, root: int = 0) -> Schedule:
    """Scatter a part of the vector to each rank, then exchange all that it has with ranks 1, 2, 4, ... away.

    Of a power of two of ranks alone.
    """
    check_ranks(n_ranks)
    if n_ranks & (n_ranks - 1):
        raise ScheduleError(f"{n_ranks} ranks are no power of two", mend="use 'scatter-allgather'")
    edges = np.append(parts(n_elements, n_ranks)[0], n_elements)
    ranks = np.arange(n_ranks, dtype=np.int64)

    def rounds() -> Iterator[Round]:
        yield from _scatter(n_ranks, edges, root)
        for k in range(doublings(n_ranks)):
            first = ranks >> k << k
            length = edges[first + (1 << k)] - edges[first]
            yield Round.of(
                (ranks + root) % n_ranks, ((ranks ^ 1 << k) + root) % n_ranks, edges[first], length
            )

    n_rounds = 2 * doublings(n_ranks)
    return Schedule("broadcast", "scatter-doubling", n_ranks, n_elements, n_rounds, rounds, root=root)


def _scatter(n_ranks: int, edges: Int64Array, root: int) -> Iterator[Round]:
    """Iterate over the rounds in which each rank gets its part, and for a while those of others."""
    for k in reversed(range(doublings(n_ranks))):
        here = senders(n_ranks, 1 << k)
        there = here + (1 << k)
        end = edges[np.minimum(there + (1 << k), n_ranks)]
        yield Round.of((here + root) % n_ranks, (there + root) % n_ranks, edges[there], end - edges[there])
