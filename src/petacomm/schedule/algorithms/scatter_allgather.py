"""Broadcast by a binomial scatter and an all-gather.

MPICH's algorithms for long vectors, with a ring, and for those of medium length, with recursive doubling
(Thakur, Rabenseifner and Gropp 2005, 3.2).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.algorithms.binomial import binomial_senders, ceil_log2
from petacomm.schedule.schedule import Round, Schedule, ScheduleError, check_n_ranks, split_evenly


def scatter_allgather_broadcast(n_ranks: int, n_elements: int, root: int = 0) -> Schedule:
    """Return a broadcast by a scatter of the vector and a ring all-gather."""
    check_n_ranks(n_ranks)
    edges = np.append(split_evenly(n_elements, n_ranks)[0], n_elements)
    ranks = np.arange(n_ranks, dtype=np.int64)

    def rounds() -> Iterator[Round]:
        yield from _scatter(n_ranks, edges, root)
        for k in range(n_ranks - 1):
            part = (ranks - k) % n_ranks
            length = edges[part + 1] - edges[part]
            yield Round.from_columns(
                (ranks + root) % n_ranks, (ranks + 1 + root) % n_ranks, edges[part], length
            )

    n_rounds = ceil_log2(n_ranks) + n_ranks - 1
    return Schedule("broadcast", "scatter-allgather", n_ranks, n_elements, n_rounds, rounds, root=root)


def scatter_doubling_broadcast(n_ranks: int, n_elements: int, root: int = 0) -> Schedule:
    """Return a broadcast by a scatter of the vector and an all-gather by recursive doubling.

    Raises
    ------
    ScheduleError
        If the number of ranks is not a power of two.
    """
    check_n_ranks(n_ranks)
    if n_ranks & (n_ranks - 1):
        raise ScheduleError(f"{n_ranks} ranks are no power of two", mend="use 'scatter-allgather'")
    edges = np.append(split_evenly(n_elements, n_ranks)[0], n_elements)
    ranks = np.arange(n_ranks, dtype=np.int64)

    def rounds() -> Iterator[Round]:
        yield from _scatter(n_ranks, edges, root)
        for k in range(ceil_log2(n_ranks)):
            first = ranks >> k << k
            length = edges[first + (1 << k)] - edges[first]
            yield Round.from_columns(
                (ranks + root) % n_ranks, ((ranks ^ 1 << k) + root) % n_ranks, edges[first], length
            )

    n_rounds = 2 * ceil_log2(n_ranks)
    return Schedule("broadcast", "scatter-doubling", n_ranks, n_elements, n_rounds, rounds, root=root)


def _scatter(n_ranks: int, edges: Int64Array, root: int) -> Iterator[Round]:
    """Iterate over the rounds of a binomial scatter, in which ranks also forward the parts of others."""
    for k in reversed(range(ceil_log2(n_ranks))):
        source = binomial_senders(n_ranks, 1 << k)
        target = source + (1 << k)
        end = edges[np.minimum(target + (1 << k), n_ranks)]
        yield Round.from_columns(
            (source + root) % n_ranks, (target + root) % n_ranks, edges[target], end - edges[target]
        )
