"""Maps of which few pixels are not zero, as weighted maps of a patch are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array


@dataclass(frozen=True, eq=False)
class SparseMap:
    """Map of which the pixels are held that may not be zero.

    Attributes
    ----------
    places : int64 (n,)
        Those of the pixels among all, increasing.
    values : float64 (k, n)
    """

    places: Int64Array
    values: FloatArray

    def __len__(self) -> int:
        """Return the number of its columns."""
        return len(self.values)

    def between(self, first: int, last: int) -> FloatArray:
        """Return the values at places [first, last), float64 (k, last - first)."""
        begin, end = np.searchsorted(self.places, (first, last))
        found = np.zeros((len(self.values), last - first))
        found[:, self.places[begin:end] - first] = self.values[:, begin:end]
        return found
