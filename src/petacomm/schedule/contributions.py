"""Partial sums of the ranks' values, represented by numbers instead of sets of contributing ranks.

Sets of ranks for each rank and element would need much memory for copies of a few sets. Instead, each
distinct sum gets a number and stores the two sums that it was made of; the contributing ranks are found once,
at the end.
"""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import BoolArray, Int64Array

# Maximum number of flags (sums times ranks) in memory at a time.
_MAX_FLAGS = 1 << 24


class PartialSums:
    """Distinct partial sums of the ranks' values; the first `n_ranks` are the single values.

    Parameters
    ----------
    n_ranks : int

    Attributes
    ----------
    n_sums : int
        Number of distinct sums so far.
    """

    def __init__(self, n_ranks: int) -> None:
        self.n_ranks = n_ranks
        self.n_sums = n_ranks
        # The two operands of each sum (0 for single values), and its number of terms.
        self._operands = np.zeros((2, 2 * n_ranks), np.int32)
        self._n_terms = np.ones(2 * n_ranks, np.int32)

    def add(self, a: Int64Array, b: Int64Array) -> Int64Array:
        """Return the numbers of the sums `a` + `b`, all int64 (n,); equal pairs get the same number."""
        if not len(a):
            return a
        low, high = np.minimum(a, b), np.maximum(a, b)
        # Neighbouring entries are mostly equal: keep the first of each run.
        first = np.flatnonzero(_changes(low) | _changes(high))
        low, high = low[first], high[first]
        order = np.lexsort((high, low))
        low, high = low[order], high[order]
        new = _changes(low) | _changes(high)
        number = np.empty(len(order), np.int64)
        number[order] = self.n_sums + np.cumsum(new) - 1
        self._append(low[new], high[new])
        return np.repeat(number, np.diff(np.append(first, len(a))))

    def _append(self, low: Int64Array, high: Int64Array) -> None:
        end = self.n_sums + len(low)
        if end > len(self._n_terms):
            more = max(end, 2 * len(self._n_terms)) - len(self._n_terms)
            self._operands = np.pad(self._operands, ((0, 0), (0, more)))
            self._n_terms = np.pad(self._n_terms, (0, more))
        self._operands[:, self.n_sums : end] = low, high
        # A sum of more than n_ranks terms is wrong, whatever their number: n_ranks + 1 stands for all of
        # them.
        n_terms = self._n_terms[low] + self._n_terms[high]
        self._n_terms[self.n_sums : end] = np.minimum(n_terms, self.n_ranks + 1)
        self.n_sums = end

    def add_by_position(self, position: Int64Array, sums: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return the distinct positions, and the total of the `sums` at each; all int64."""
        if (position[1:] > position[:-1]).all():
            return position, sums
        order = np.lexsort((sums, position))
        position, sums = position[order], sums[order]
        while True:
            same = np.append(position[1:] == position[:-1], False)
            if not same.any():
                return position, sums
            begins = np.flatnonzero(np.append(True, ~same[:-1]))
            within = np.arange(len(position)) - np.repeat(begins, np.diff(np.append(begins, len(position))))
            kept = np.flatnonzero(within % 2 == 0)
            pairs = kept[same[kept]]
            sums[pairs] = self.add(sums[pairs], sums[pairs + 1])
            position, sums = position[kept], sums[kept]

    def are_complete(self, sums: Int64Array) -> bool:
        """Return whether each of the sums contains the value of each rank exactly once."""
        if np.any(self._n_terms[sums] != self.n_ranks):
            return False
        sums = np.unique(sums[_changes(sums)])
        step = max(1, _MAX_FLAGS // self.n_ranks)
        return all(bool(self._contains(sums[low : low + step]).all()) for low in range(0, len(sums), step))

    def _contains(self, sums: Int64Array) -> BoolArray:
        """Return whether each sum contains the value of each rank: bool (n, n_ranks)."""
        contains = np.zeros((len(sums), self.n_ranks), np.bool_)
        which = np.arange(len(sums))
        while len(sums):
            single = sums < self.n_ranks
            contains[which[single], sums[single]] = True
            operands = self._operands[:, sums[~single]].reshape(-1).astype(np.int64)
            which, sums = np.tile(which[~single], 2), operands
        return contains


def _changes(values: Int64Array) -> BoolArray:
    """Return where a value differs from the one before it; the first always does."""
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes
