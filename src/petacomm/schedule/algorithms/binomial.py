"""Broadcast and reduce along a binomial tree, for any number of ranks.

MPICH's algorithms for short vectors (Thakur, Rabenseifner and Gropp 2005, 3.2 and 3.5).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import Round, Schedule, check_n_ranks


def ceil_log2(n_ranks: int) -> int:
    """Return the smallest k with 2^k >= n_ranks."""
    return (n_ranks - 1).bit_length()


def binomial_senders(n_ranks: int, step: int) -> Int64Array:
    """Return the ranks, relative to the root, that send to rank + `step`, a power of two: int64."""
    ranks = np.arange(0, n_ranks, 2 * step, dtype=np.int64)
    return ranks[ranks + step < n_ranks]


def binomial_broadcast(n_ranks: int, n_elements: int, root: int = 0) -> Schedule:
    """Return a broadcast in which, in each round, all ranks that hold the vector send it."""
    check_n_ranks(n_ranks)
    n_rounds = ceil_log2(n_ranks)

    def rounds() -> Iterator[Round]:
        for k in reversed(range(n_rounds)):
            ranks = binomial_senders(n_ranks, 1 << k)
            yield Round.from_columns(
                (ranks + root) % n_ranks, (ranks + (1 << k) + root) % n_ranks, 0, n_elements
            )

    return Schedule("broadcast", "binomial", n_ranks, n_elements, n_rounds, rounds, root=root, pipelined=True)


def binomial_reduce(n_ranks: int, n_elements: int, root: int = 0) -> Schedule:
    """Return a reduce along the tree of `binomial_broadcast`, towards the root."""
    check_n_ranks(n_ranks)
    n_rounds = ceil_log2(n_ranks)

    def rounds() -> Iterator[Round]:
        for k in range(n_rounds):
            ranks = binomial_senders(n_ranks, 1 << k)
            sources = (ranks + (1 << k) + root) % n_ranks
            yield Round.from_columns(sources, (ranks + root) % n_ranks, 0, n_elements, reduce=True)

    return Schedule("reduce", "binomial", n_ranks, n_elements, n_rounds, rounds, root=root, pipelined=True)
