"""All-reduce and barrier by recursive doubling, with the fewest rounds.

See Thakur, Rabenseifner and Gropp 2005, 3.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from petacomm.schedule.algorithms.power_of_two import floor_power_of_two, fold_to_power_of_two, n_fold_rounds
from petacomm.schedule.schedule import Round, Schedule, check_n_ranks


def recursive_doubling_allreduce(n_ranks: int, n_elements: int) -> Schedule:
    """Return an all-reduce in which ranks exchange their vectors with the ranks 1, 2, 4, ... away."""
    check_n_ranks(n_ranks)
    n_doublings = floor_power_of_two(n_ranks).bit_length() - 1

    def exchanges() -> Iterator[Round]:
        ranks = np.arange(1 << n_doublings, dtype=np.int64)
        for k in range(n_doublings):
            yield Round.from_columns(ranks, ranks ^ (1 << k), 0, n_elements, reduce=True)

    return Schedule(
        "allreduce",
        "recursive-doubling",
        n_ranks,
        n_elements,
        n_doublings + n_fold_rounds(n_ranks),
        lambda: fold_to_power_of_two(n_ranks, n_elements, exchanges()),
        pipelined=True,
    )


def recursive_doubling_barrier(n_ranks: int) -> Schedule:
    """Return a barrier: an all-reduce of one element."""
    return replace(recursive_doubling_allreduce(n_ranks, 1), collective="barrier", pipelined=False)
