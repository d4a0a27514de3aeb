"""All-reduce round a ring, for any number of ranks: the least bytes, and a message to one neighbour a
round."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.schedule import Round, Schedule, check_ranks, parts


def allreduce(n_ranks: int, n_elements: int) -> Schedule:
    """Send each part round once to be summed, and once more to be known."""
    check_ranks(n_ranks)
    begins, lengths = parts(n_elements, n_ranks)
    ranks = np.arange(n_ranks, dtype=np.int64)

    def rounds() -> Iterator[Round]:
        for k in range(2 * (n_ranks - 1)):
            part = (ranks - k + (k >= n_ranks - 1) * n_ranks) % n_ranks
            yield Round.of(ranks, (ranks + 1) % n_ranks, begins[part], lengths[part], reduce=k < n_ranks - 1)

    return Schedule("allreduce", "ring", n_ranks, n_elements, 2 * (n_ranks - 1), rounds)
