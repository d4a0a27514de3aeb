"""Broadcast by a binomial scatter and a ring all-gather: what MPICH does with long vectors (Thakur,
Rabenseifner and Gropp 2005, 3.2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petamap.comm.schedule.algorithms.binomial import doublings, senders
from petamap.comm.schedule.schedule import Round, Schedule, check_ranks, parts


def broadcast(n_ranks: int, n_elements: int, root: int = 0) -> Schedule:
    """Scatter a part of the vector to each rank, then send all parts round a ring."""
    check_ranks(n_ranks)
    edges = np.append(parts(n_elements, n_ranks)[0], n_elements)
    ranks = np.arange(n_ranks, dtype=np.int64)

    def rounds() -> Iterator[Round]:
        for k in reversed(range(doublings(n_ranks))):
            here = senders(n_ranks, 1 << k)
            there = here + (1 << k)
            end = edges[np.minimum(there + (1 << k), n_ranks)]
            yield Round.of(
                (here + root) % n_ranks, (there + root) % n_ranks, edges[there], end - edges[there]
            )
        for k in range(n_ranks - 1):
            part = (ranks - k) % n_ranks
            length = edges[part + 1] - edges[part]
            yield Round.of((ranks + root) % n_ranks, (ranks + 1 + root) % n_ranks, edges[part], length)

    n_rounds = doublings(n_ranks) + n_ranks - 1
    return Schedule("broadcast", "scatter-allgather", n_ranks, n_elements, n_rounds, rounds, root=root)
