"""Destriping: baselines under white noise, whose amplitudes are the baselines of the preconditioner's model.

Where all that a stream has beside the map are constants of cells of equal length, the model of the
preconditioner (`BaselineModel`) is exact: its F are the cells, its prior C that of the amplitudes, and a
pixel's block and the map's matrix S follow without approximation. In gaps the amplitudes' functions are zero
and F is not, so that an unknown g there holds F a too: with r_a + F^T r_g in the place of r_a it is g + F a.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator
from petamap.data.template import TemplateTerm
from petamap.mapmaking.band_factor import factorize_baselines
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.stream_terms import StreamTerms
from petamap.mapmaking.visits import StreamNoises
from petamap.noise.baselines import BaselineNoise

# Inverse prior where amplitudes may be of any size, relative to the weight of a whole cell.
_FREE = 1e-6


def destriping_noises(
    projection: Projection, noise: InverseNoise, terms: StreamTerms, comm: Communicator
) -> list[BaselineNoise] | None:
    """Return white noise and baselines of each segment where the model is exact, else None. Collective."""
    exact = projection.layout.n_lag == 0 and all(
        _is_regular(terms.of(segment.stream)) and len(terms.group(segment.stream, 0)) == 1
        for segment in projection.local.segments
    )
    if comm.max(float(not exact)) > 0:
        return None
    return [
        _noise(terms, segment.stream, float(weight), float(unit))
        for segment, weight, unit in zip(
            projection.local.segments, noise.weights, projection.units, strict=True
        )
    ]


def _is_regular(terms: tuple[TemplateTerm, ...]) -> bool:
    """Return whether there is but one term, of constants of cells of one length, the last may be shorter."""
    if len(terms) != 1 or terms[0].functions != "constant" or terms[0].linear or terms[0].edges[0] != 0:
        return False
    lengths = np.diff(terms[0].edges)
    return bool((lengths[:-1] == lengths[0]).all() and lengths[-1] <= lengths[0])


def _noise(terms: StreamTerms, stream: int, weight: float, unit: float) -> BaselineNoise:
    (term,), (process,) = terms.of(stream), terms.priors(stream, _mapmaking.BASELINE_BAND)
    step = int(term.edges[1])
    inverse_prior = np.zeros(_mapmaking.BASELINE_BAND + 1)
    if process is None:
        inverse_prior[0] = _FREE * weight * step
    else:
        inverse_prior[: process.order + 1] = process.band * unit**2
    return BaselineNoise(step, weight, inverse_prior, constant=True)


class BaselineAmplitudes:
    """Amplitudes that are the model's baselines, in the place of a `TemplateModel`.

    Parameters
    ----------
    terms : StreamTerms
    noises : StreamNoises
        Of the streams that this rank models, with a knot at the beginning of each cell and one more.
    gap_keys : int64
        Positions among all samples of those that have no weight, increasing.

    Attributes
    ----------
    keys : int64 (n,)
        Of the amplitudes, increasing.
    shares : float64 (n,)
        1: no streams share them.
    """

    def __init__(self, terms: StreamTerms, noises: StreamNoises, gap_keys: Int64Array) -> None:
        from scipy import sparse

        every, n_knots = terms.layout.streams, int(noises.knots[-1])
        streams = every.holding(gap_keys)
        own = streams - int(noises.streams[:1].sum())
        knots = noises.knots[own] + (gap_keys - every.keys(streams)) // noises.steps[own]
        shape = len(gap_keys), n_knots
        in_gaps: Any = sparse.csr_matrix((np.ones(len(knots)), (np.arange(len(knots)), knots)), shape)
        n_cells = (every.lengths(noises.streams) - 1) // noises.steps + 1
        keys = [terms.keys(stream, int(n)) for stream, n in zip(noises.streams, n_cells, strict=True)]
        firsts = zip(noises.knots[:-1], n_cells, strict=True)
        self.keys = np.concatenate([np.zeros(0, np.int64), *keys])
        self.shares = np.ones(len(self.keys))
        self._n_knots, self._noises = n_knots, noises
        self._cells = np.concatenate([np.zeros(0, np.int64), *(np.arange(k, k + n) for k, n in firsts)])
        self._in_gaps = in_gaps[:, self._cells]

    def blocks(self) -> Callable[[FloatArray], FloatArray]:
        """Return (F^T W F + S^-1)^-1 of amplitudes, (n, width), as if there were no gaps."""
        noises = self._noises
        diagonal = np.repeat(noises.weights * noises.steps, np.diff(noises.knots))
        factor = factorize_baselines(noises.knots, noises.inverse_priors, diagonal, 0 * diagonal)

        def solve(residuals: FloatArray) -> FloatArray:
            knots, largest = self.to_knots(residuals), np.zeros(residuals.shape[1])
            _mapmaking.solve_baselines(noises.knots, factor, knots, largest, 1)
            return np.asarray(knots[self._cells], np.float64)

        return solve

    def couple(self, solve: Callable[[FloatArray], FloatArray]) -> None:
        """Take what the baselines' inverse is applied by: it has the amplitudes in it."""

    def correct(self, knots: FloatArray, solve: Callable[[FloatArray], FloatArray]) -> None:
        """Eliminate the amplitudes of baselines: that is done."""

    def residuals(self, amplitudes: FloatArray, gaps: FloatArray) -> FloatArray:
        """Return r_a + F^T r_g of residuals of amplitudes, (n, width), and gaps, (n_gaps, width)."""
        return amplitudes + np.asarray(self._in_gaps.T @ gaps, np.float64)

    def in_gaps(self, amplitudes: FloatArray) -> FloatArray:
        """Return -F a in gaps, (n_gaps, width), of amplitudes, (n, width)."""
        return -np.asarray(self._in_gaps @ amplitudes, np.float64)

    def to_knots(self, residuals: FloatArray) -> FloatArray:
        """Return residuals of amplitudes, (n, width), at the knots."""
        knots = np.zeros((self._n_knots, residuals.shape[1]))
        knots[self._cells] = residuals
        return knots

    def amplitudes(self, residuals: FloatArray, knots: FloatArray) -> FloatArray:
        """Return the amplitudes, (n, width), that baselines x = -a are."""
        return np.asarray(-knots[self._cells])
