"""Rabenseifner's all-reduce of long vectors.

A reduce-scatter by recursive halving and an all-gather by recursive doubling (Rabenseifner 1997; Thakur,
Rabenseifner and Gropp 2005, 3.5).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.algorithms.power_of_two import floor_power_of_two, fold_to_power_of_two, n_fold_rounds
from petacomm.schedule.schedule import Round, Schedule, check_n_ranks, split_evenly


def rabenseifner_allreduce(n_ranks: int, n_elements: int) -> Schedule:
    """Return an all-reduce by reduce-scatter and all-gather; the largest halves go to the nearest ranks."""
    check_n_ranks(n_ranks)
    size = floor_power_of_two(n_ranks)
    edges = np.append(split_evenly(n_elements, size)[0], n_elements)
    n_halvings = size.bit_length() - 1

    def exchanges() -> Iterator[Round]:
        ranks = np.arange(size, dtype=np.int64)
        first = np.zeros(size, np.int64)
        for bit in range(n_halvings):
            half = size >> (bit + 1)
            upper = half * (ranks >> bit & 1)
            sent = first + half - upper
            yield Round.from_columns(
                ranks, ranks ^ 1 << bit, edges[sent], edges[sent + half] - edges[sent], reduce=True
            )
            first = first + upper
        for bit in reversed(range(n_halvings)):
            half = size >> (bit + 1)
            yield Round.from_columns(
                ranks, ranks ^ 1 << bit, edges[first], edges[first + half] - edges[first]
            )
            first = first - half * (ranks >> bit & 1)

    return Schedule(
        "allreduce",
        "rabenseifner",
        n_ranks,
        n_elements,
        2 * n_halvings + n_fold_rounds(n_ranks),
        lambda: fold_to_power_of_two(n_ranks, n_elements, exchanges()),
    )
