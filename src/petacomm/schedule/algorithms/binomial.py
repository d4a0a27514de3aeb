"""Broadcast and reduce along a binomial tree, for any number of ranks: what MPICH does with short vectors
(Thakur, Rabenseifner and Gropp 2005, 3.2 and 3.5)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import Round, Schedule, check_ranks


def doublings(n_ranks: int) -> int:
    """Return how often one rank must double to be `n_ranks` or more."""
    return (n_ranks - 1).bit_length()


def senders(n_ranks: int, step: int) -> Int64Array:
    """Return the ranks, counted from the root, that pass on to the rank `step` above, a power of two."""
    ranks = np.arange(0, n_ranks, 2 * step, dtype=np.int64)
    return ranks[ranks + step < n_ranks]


def broadcast(n_ranks: int, n_elements: int, root: int = 0) -> Schedule:
    """Broadcast to ever more ranks: in each round, all that hold the vector send it."""
    check_ranks(n_ranks)
    n_rounds = doublings(n_ranks)

    def rounds() -> Iterator[Round]:
        for k in reversed(range(n_rounds)):
            ranks = senders(n_ranks, 1 << k)
            yield Round.of((ranks + root) % n_ranks, (ranks + (1 << k) + root) % n_ranks, 0, n_elements)

    return Schedule("broadcast", "binomial", n_ranks, n_elements, n_rounds, rounds, root=root, pipelined=True)


def reduce(n_ranks: int, n_elements: int, root: int = 0) -> Schedule:
    """Reduce along the same tree to the root."""
    check_ranks(n_ranks)
    n_rounds = doublings(n_ranks)

    def rounds() -> Iterator[Round]:
        for k in range(n_rounds):
            ranks = senders(n_ranks, 1 << k)
            sources = (ranks + (1 << k) + root) % n_ranks
            yield Round.of(sources, (ranks + root) % n_ranks, 0, n_elements, reduce=True)

    return Schedule("reduce", "binomial", n_ranks, n_elements, n_rounds, rounds, root=root, pipelined=True)
