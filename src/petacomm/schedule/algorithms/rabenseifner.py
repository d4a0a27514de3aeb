"""All-reduce of long vectors: reduce-scatter by recursive halving, all-gather by recursive doubling
(Rabenseifner 1997; Thakur, Rabenseifner and Gropp 2005, 3.5)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.algorithms.power_of_two import folded, n_folds, power_of_two
from petacomm.schedule.schedule import Round, Schedule, check_ranks, parts


def allreduce(n_ranks: int, n_elements: int) -> Schedule:
    """Give each rank the sum of one part, halving what is exchanged in each round; then gather all parts.

    The largest halves go to the nearest ranks, as in MPICH.
    """
    check_ranks(n_ranks)
    size = power_of_two(n_ranks)
    edges = np.append(parts(n_elements, size)[0], n_elements)
    n_halvings = size.bit_length() - 1

    def exchanges() -> Iterator[Round]:
        ranks = np.arange(size, dtype=np.int64)
        first = np.zeros(size, np.int64)
        for bit in range(n_halvings):
            half = size >> (bit + 1)
            upper = half * (ranks >> bit & 1)
            sent = first + half - upper
            yield Round.of(
                ranks, ranks ^ 1 << bit, edges[sent], edges[sent + half] - edges[sent], reduce=True
            )
            first = first + upper
        for bit in reversed(range(n_halvings)):
            half = size >> (bit + 1)
            yield Round.of(ranks, ranks ^ 1 << bit, edges[first], edges[first + half] - edges[first])
            first = first - half * (ranks >> bit & 1)

    return Schedule(
        "allreduce",
        "rabenseifner",
        n_ranks,
        n_elements,
        2 * n_halvings + n_folds(n_ranks),
        lambda: folded(n_ranks, n_elements, exchanges()),
    )
