"""Barrier by dissemination, for any number of ranks (Hensgen, Finkel and Manber 1988): MPICH's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.algorithms.binomial import doublings
from petacomm.schedule.schedule import Round, Schedule, check_ranks


def barrier(n_ranks: int) -> Schedule:
    """Tell the ranks 1, 2, 4, ... above that all known so far are here."""
    check_ranks(n_ranks)
    n_rounds = doublings(n_ranks)

    def rounds() -> Iterator[Round]:
        ranks = np.arange(n_ranks, dtype=np.int64)
        for k in range(n_rounds):
            yield Round.of(ranks, (ranks + (1 << k)) % n_ranks, 0, 1, reduce=True)

    return Schedule("barrier", "dissemination", n_ranks, 1, n_rounds, rounds)
