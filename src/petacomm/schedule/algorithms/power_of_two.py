"""How algorithms for a power of two serve any number of ranks: some ranks first add to a neighbour's vector,
and get the result from it at the end (Thakur, Rabenseifner and Gropp 2005, 3.5)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.schedule import Round


def power_of_two(n_ranks: int) -> int:
    """Return the largest power of two that is not above `n_ranks`."""
    return 1 << (n_ranks.bit_length() - 1)


def folded(n_ranks: int, n_elements: int, inner: Iterator[Round]) -> Iterator[Round]:
    """Iterate over the rounds of an all-reduce among the first power of two of ranks, made into all ranks'.

    Of the first ranks, as many pairs as there are ranks too many are each one rank of the `inner` rounds.
    """
    extra = n_ranks - power_of_two(n_ranks)
    pairs = 2 * np.arange(extra, dtype=np.int64)
    active = np.concatenate([pairs + 1, np.arange(2 * extra, n_ranks)])
    if extra:
        yield Round.of(pairs, pairs + 1, 0, n_elements, reduce=True)
    for part in inner:
        source, destination = active[part.source], active[part.destination]
        yield Round.of(source, destination, part.begin, part.length, reduce=part.reduce)
    if extra:
        yield Round.of(pairs + 1, pairs, 0, n_elements)


def n_folds(n_ranks: int) -> int:
    """Return the rounds that folding adds."""
    return 2 if n_ranks > power_of_two(n_ranks) else 0
