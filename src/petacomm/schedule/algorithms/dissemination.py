"""Dissemination barrier, for any number of ranks (Hensgen, Finkel and Manber 1988), as in MPICH."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.algorithms.binomial import ceil_log2
from petacomm.schedule.schedule import Round, Schedule, check_n_ranks


def dissemination_barrier(n_ranks: int) -> Schedule:
    """Return a barrier in which each rank signals the ranks 1, 2, 4, ... above it."""
    check_n_ranks(n_ranks)
    n_rounds = ceil_log2(n_ranks)

    def rounds() -> Iterator[Round]:
        ranks = np.arange(n_ranks, dtype=np.int64)
        for k in range(n_rounds):
            yield Round.from_columns(ranks, (ranks + (1 << k)) % n_ranks, 0, 1, reduce=True)

    return Schedule("barrier", "dissemination", n_ranks, 1, n_rounds, rounds)
