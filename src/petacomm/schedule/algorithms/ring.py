"""Ring all-reduce, for any number of ranks: the fewest bytes, and one message per rank and round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.schedule import Round, Schedule, check_n_ranks, split_evenly


def ring_allreduce(n_ranks: int, n_elements: int) -> Schedule:
    """Return an all-reduce by a reduce-scatter and an all-gather around a ring."""
    check_n_ranks(n_ranks)
    begins, lengths = split_evenly(n_elements, n_ranks)
    ranks = np.arange(n_ranks, dtype=np.int64)

    def rounds() -> Iterator[Round]:
        for k in range(2 * (n_ranks - 1)):
            part = (ranks - k + (k >= n_ranks - 1) * n_ranks) % n_ranks
            yield Round.from_columns(
                ranks, (ranks + 1) % n_ranks, begins[part], lengths[part], reduce=k < n_ranks - 1
            )

    return Schedule("allreduce", "ring", n_ranks, n_elements, 2 * (n_ranks - 1), rounds)
