"""Barrier on global interrupt wires, which signal when all nodes have arrived (Almasi et al. 2005, 4).

The wires compute an OR over all nodes. The schedule represents them by messages to and from rank 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.schedule import Round, Schedule, check_n_ranks


def interrupt_barrier(n_ranks: int) -> Schedule:
    """Return a barrier on the global interrupt wires."""
    check_n_ranks(n_ranks)

    def rounds() -> Iterator[Round]:
        others = np.arange(1, n_ranks, dtype=np.int64)
        yield Round.from_columns(others, 0, 0, 1, reduce=True)
        yield Round.from_columns(0, others, 0, 1)

    return Schedule("barrier", "interrupt", n_ranks, 1, 2, rounds, network="interrupt")
