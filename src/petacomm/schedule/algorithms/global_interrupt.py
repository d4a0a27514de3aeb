"""Barrier on global interrupt wires: all raise a signal, and see when everybody has (Almasi et al. 2005, 4).

The wires are an OR of all nodes. Where there are none, rank 0 takes their place.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.schedule import Round, Schedule, check_ranks


def barrier(n_ranks: int) -> Schedule:
    """Raise the wire, and wait until it is up."""
    check_ranks(n_ranks)

    def rounds() -> Iterator[Round]:
        others = np.arange(1, n_ranks, dtype=np.int64)
        yield Round.of(others, 0, 0, 1, reduce=True)
        yield Round.of(0, others, 0, 1)

    return Schedule("barrier", "interrupt", n_ranks, 1, 2, rounds, network="interrupt")
