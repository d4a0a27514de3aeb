"""All-reduce and barrier in which ranks exchange all that they have with ever farther partners: the fewest
rounds (Thakur, Rabenseifner and Gropp 2005, 3.5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from petacomm.schedule.algorithms.power_of_two import folded, n_folds, power_of_two
from petacomm.schedule.schedule import Round, Schedule, check_ranks


def allreduce(n_ranks: int, n_elements: int) -> Schedule:
    """Exchange whole vectors with the ranks 1, 2, 4, ... away."""
    check_ranks(n_ranks)
    n_doublings = power_of_two(n_ranks).bit_length() - 1

    def exchanges() -> Iterator[Round]:
        ranks = np.arange(1 << n_doublings, dtype=np.int64)
        for k in range(n_doublings):
            yield Round.of(ranks, ranks ^ (1 << k), 0, n_elements, reduce=True)

    return Schedule(
        "allreduce",
        "recursive-doubling",
        n_ranks,
        n_elements,
        n_doublings + n_folds(n_ranks),
        lambda: folded(n_ranks, n_elements, exchanges()),
        pipelined=True,
    )


def barrier(n_ranks: int) -> Schedule:
    """Wait for all by an all-reduce of one token."""
    return replace(allreduce(n_ranks, 1), collective="barrier", pipelined=False)
