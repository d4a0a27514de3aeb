"""Fast templates, fitted to a piece of a stream and taken out before it is searched."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import BoolArray, FloatArray
from petamap.data.observation import Observation
from petamap.data.template import DetectorTemplate

# Functions that a short filter sees; slow ones cancel in it.
_FAST = ("fourier", "columns")
_RIDGE = 1e-10  # relative to the squares of functions: some may not be told apart


class FastTemplates:
    """Fit of harmonics of a half-wave plate and of columns, which would hide glitches.

    The amplitudes are those of least squares over the good samples of a piece, and used for nothing else:
    a piece has thousands of samples, of which glitches are few.
    """

    def __init__(self) -> None:
        # one piece after the other is searched for all detectors, which have the same functions
        self._of = lru_cache(1)(_functions)

    def subtract(
        self,
        observation: Observation,
        interval: tuple[int, int],
        first: int,
        data: FloatArray,
        good: BoolArray,
    ) -> None:
        """Subtract what fits the good samples of a stream from all of them.

        Parameters
        ----------
        observation : Observation
        interval : (int, int)
            Stationary interval [start, stop) of the samples.
        first : int
            First of the samples.
        data : float64 (n,)
            Changed in place.
        good : bool (n,)
        """
        functions = self._of(_Key(observation), *interval, first, first + len(data))
        if functions is None:
            return
        kept = functions[good]
        normal = (kept.T @ kept).toarray()
        normal[np.diag_indices_from(normal)] *= 1 + _RIDGE
        with single_blas_thread():
            data -= functions @ np.linalg.solve(normal, kept.T @ data[good])


class _Key:
    """An observation, told from others by what it is and not by its values."""

    def __init__(self, observation: Observation) -> None:
        self.observation = observation

    def __hash__(self) -> int:
        return id(self.observation)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.observation is self.observation


def _functions(key: _Key, start: int, stop: int, first: int, last: int) -> Any:
    """Return fast functions of samples [first, last), sparse (last - first, n), or None if there are none."""
    from scipy import sparse

    own = [one for one in key.observation.templates if not isinstance(one, DetectorTemplate)]
    terms = [one.term(key.observation, start, stop) for one in own]
    parts = [term.matrix(first - start, last - start) for term in terms if term.functions in _FAST]
    if not parts:
        return None
    together = sparse.hstack(parts, "csc")
    seen = np.diff(together.indptr) > 0
    return together[:, seen].tocsr() if seen.any() else None
