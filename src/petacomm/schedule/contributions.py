"""What ranks have contributed to a sum, as a number: that of two other sums, and so on down to own values.

Sets of ranks for every rank and element would fill memory with copies of a few. A number for each distinct
sum, with the two that it was made of, says the same, and is followed to its ranks once, at the end.
"""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import BoolArray, Int64Array

# Ranks of sums that are looked at in one go.
_SEEN = 1 << 24


class Sums:
    """Sums of the values of ranks: the first `n_ranks` numbers are the ranks' own.

    Parameters
    ----------
    n_ranks : int
    """

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.number = n_ranks
        # Of each sum: its two parts, 0 of a rank's own, and how many values it has.
        self._parts = np.zeros((2, 2 * n_ranks), np.int32)
        self._n_terms = np.ones(2 * n_ranks, np.int32)

    def add(self, a: Int64Array, b: Int64Array) -> Int64Array:
        """Return the numbers of the sums of `a` and `b`, int64 (n,) each: equal pairs get one number."""
        if not len(a):
            return a
        low, high = np.minimum(a, b), np.maximum(a, b)
        # What lies side by side was mostly made of the same.
        first = np.flatnonzero(_changes(low) | _changes(high))
        low, high = low[first], high[first]
        order = np.lexsort((high, low))
        low, high = low[order], high[order]
        new = _changes(low) | _changes(high)
        number = np.empty(len(order), np.int64)
        number[order] = self.number + np.cumsum(new) - 1
        self._append(low[new], high[new])
        return np.repeat(number, np.diff(np.append(first, len(a))))

    def _append(self, low: Int64Array, high: Int64Array) -> None:
        end = self.number + len(low)
        if end > len(self._n_terms):
            more = max(end, 2 * len(self._n_terms)) - len(self._n_terms)
            self._parts = np.pad(self._parts, ((0, 0), (0, more)))
            self._n_terms = np.pad(self._n_terms, (0, more))
        self._parts[:, self.number : end] = low, high
        # More than all ranks is wrong already, however many they are.
        n_terms = self._n_terms[low] + self._n_terms[high]
        self._n_terms[self.number : end] = np.minimum(n_terms, self.n_ranks + 1)
        self.number = end

    def add_all(self, place: Int64Array, sums: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Add up all `sums` of each place, int64 (n,) both; return the places, and the sum of each."""
        if (place[1:] > place[:-1]).all():
            return place, sums
        order = np.lexsort((sums, place))
        place, sums = place[order], sums[order]
        while True:
            same = np.append(place[1:] == place[:-1], False)
            if not same.any():
                return place, sums
            begins = np.flatnonzero(np.append(True, ~same[:-1]))
            within = np.arange(len(place)) - np.repeat(begins, np.diff(np.append(begins, len(place))))
            kept = np.flatnonzero(within % 2 == 0)
            pairs = kept[same[kept]]
            sums[pairs] = self.add(sums[pairs], sums[pairs + 1])
            place, sums = place[kept], sums[kept]

    def complete(self, sums: Int64Array) -> bool:
        """Return whether each sum has the value of every rank, once."""
        if np.any(self._n_terms[sums] != self.n_ranks):
            return False
        sums = np.unique(sums[_changes(sums)])
        step = max(1, _SEEN // self.n_ranks)
        return all(bool(self._ranks_of(sums[low : low + step]).all()) for low in range(0, len(sums), step))

    def _ranks_of(self, sums: Int64Array) -> BoolArray:
        """Return which ranks each sum has, bool (n, n_ranks)."""
        seen = np.zeros((len(sums), self.n_ranks), np.bool_)
        which = np.arange(len(sums))
        while len(sums):
            own = sums < self.n_ranks
            seen[which[own], sums[own]] = True
            which, sums = np.tile(which[~own], 2), self._parts[:, sums[~own]].reshape(-1).astype(np.int64)
        return seen


def _changes(values: Int64Array) -> BoolArray:
    """Return where a value is another than the one before it."""
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes
