"""Fast templates, fitted to a piece of a stream and taken out before it is searched."""

from __future__ import annotations

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
        self._observation: Observation | None = None
        self._piece: tuple[int, ...] = ()
        self._functions: Any = None

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
        functions = self._of(observation, *interval, first, first + len(data))
        if functions is None:
            return
        kept = functions[good]
        normal = (kept.T @ kept).toarray()
        squares = normal.diagonal()
        # no good sample may have a function: its amplitude is zero
        normal[np.diag_indices_from(normal)] = np.where(squares > 0, squares * (1 + _RIDGE), 1.0)
        with single_blas_thread():
            data -= functions @ np.linalg.solve(normal, kept.T @ data[good])

    def _of(self, observation: Observation, *piece: int) -> Any:
        if observation is not self._observation or piece != self._piece:
            self._observation, self._piece = observation, piece
            self._functions = _functions(observation, *piece)
        return self._functions


def _functions(observation: Observation, start: int, stop: int, first: int, last: int) -> Any:
    """Return fast functions of samples [first, last), sparse (last - first, n), or None if there are none."""
    from scipy import sparse

    own = [one for one in observation.templates if not isinstance(one, DetectorTemplate)]
    terms = [one.term(observation, start, stop) for one in own]
    parts = [term.matrix(first - start, last - start) for term in terms if term.functions in _FAST]
    if not parts:
        return None
    together = sparse.hstack(parts, "csc")
    seen = np.diff(together.indptr) > 0
    return together[:, seen].tocsr() if seen.any() else None
