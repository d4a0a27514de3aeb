"""Extension of all-reduces for a power of two of ranks to any number of ranks.

Excess ranks first send their vector to a neighbour, which adds it, and receive the result at the end (Thakur,
Rabenseifner and Gropp 2005, 3.5).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.schedule import Round


def floor_power_of_two(n_ranks: int) -> int:
    """Return the largest power of two that is at most `n_ranks`."""
    return 1 << (n_ranks.bit_length() - 1)


def fold_to_power_of_two(n_ranks: int, n_elements: int, inner: Iterator[Round]) -> Iterator[Round]:
    """Iterate over the rounds of an all-reduce of all ranks, made from one of a power of two of ranks.

    Parameters
    ----------
    n_ranks, n_elements : int
    inner : iterator of Round
        Rounds of an all-reduce of `floor_power_of_two(n_ranks)` ranks. Each of its first ranks stands for a
        pair of ranks, as many as there are excess ranks.
    """
    extra = n_ranks - floor_power_of_two(n_ranks)
    pairs = 2 * np.arange(extra, dtype=np.int64)
    active = np.concatenate([pairs + 1, np.arange(2 * extra, n_ranks)])
    if extra:
        yield Round.from_columns(pairs, pairs + 1, 0, n_elements, reduce=True)
    for part in inner:
        source, destination = active[part.source], active[part.destination]
        yield Round.from_columns(source, destination, part.begin, part.length, reduce=part.reduce)
    if extra:
        yield Round.from_columns(pairs + 1, pairs, 0, n_elements)


def n_fold_rounds(n_ranks: int) -> int:
    """Return the number of rounds that `fold_to_power_of_two` adds: 2, or 0 for a power of two."""
    return 2 if n_ranks > floor_power_of_two(n_ranks) else 0
