"""The normal operator of a model: noise of baselines, pixels alone, gaps marginalized."""

from __future__ import annotations

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.distinct import distinct
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator
from petacomm.reduction import OwnedRows, ReductionPlan
from petacomm.sharing import IndexMap
from petacomm.sharing.index_map import rows_of_keys
from petamap.mapmaking.band_factor import factorize_baselines
from petamap.mapmaking.baseline_amplitudes import BaselineAmplitudes
from petamap.mapmaking.mode_model import ModeModel
from petamap.mapmaking.template_model import TemplateModel
from petamap.mapmaking.vectors import MAX_WIDTH
from petamap.mapmaking.visits import RankVisits, VisitRows

# No sum, and so no term of it, is larger than 2^50: terms are rounded by way of a double's 52 bits.
_SUM_BITS = 50


class BaselineModel:
    """Noise N = W^-1 + F C F^T of whole streams, and the normal equations of maps under it. Collective.

    With B = F^T W P and T = (C^-1 + F^T W F)^-1, a band solved directly for each stream, the map's matrix is
    S = D - B^T T B, D = P^T W P. The unknowns of gaps are marginalized: their samples have no weight in T.
    Sums over ranks are integers, whose bits do not depend on who adds them.

    Parameters
    ----------
    comm : Communicator
    visits : RankVisits
        Of the streams that this rank models.
    pixel_keys : int64 (n,)
        Further pixels whose values this rank wants to know.
    largest : float
        Largest weight of a sample times the most samples of a pixel or a gap.
    templates : TemplateModel or BaselineAmplitudes, optional
        Of the same streams; their amplitudes are marginalized too.
    modes : ModeModel, optional
        What the streams share.
    n_threads : int

    Attributes
    ----------
    pixels : OwnedRows
        Pixels of the model, of which each has an owner.
    rows : int64 (n,)
        Row of each of `pixel_keys` among the pixels that this rank holds.
    gap_keys : int64 (n_gaps,)
        Unknowns of the gaps in the streams that this rank models, increasing.
    beside_modes : TemplateModel or None
        Templates where streams share noise; with baselines as the only noise (`BaselineAmplitudes`), none do.
    """

    def __init__(
        self,
        comm: Communicator,
        visits: RankVisits,
        pixel_keys: Int64Array,
        largest: float,
        *,
        templates: TemplateModel | BaselineAmplitudes | None = None,
        modes: ModeModel | None = None,
        n_threads: int = 1,
    ) -> None:
        self.comm, self.n_threads, self.templates, self.modes = comm, n_threads, templates, modes
        self.beside_modes = templates if modes and isinstance(templates, TemplateModel) else None
        self.n_stokes = visits.pixels.n_stokes
        self.n_knots, self._knots = visits.n_knots, visits.knots
        held = distinct(np.concatenate([visits.pixels.keys, pixel_keys]))
        index_map = IndexMap(comm, held)
        self.pixels = OwnedRows(
            ReductionPlan(index_map, algorithm="owner", n_threads=n_threads, checks="first"), n_threads
        )
        self.rows = rows_of_keys(held, pixel_keys, n_threads).astype(np.int64)
        self._visits, self._gap_visits = visits.pixels.renumbered(held), visits.gaps
        self.gap_keys = visits.gaps.keys
        sums = np.zeros((len(self.gap_keys), 1, 1))
        _mapmaking.add_to_gaps(*visits.gaps.arguments(), np.ones((self.n_knots, 1)), sums, n_threads)
        self._inverse_gap_weights = 1 / sums
        self._factor = _factorize(visits)
        self._largest = largest
        if templates:
            templates.couple(self._solve_band)

    # --- between rows of vectors and baselines

    def baselines(
        self,
        visits: VisitRows,
        held: FloatArray,
        less: FloatArray | None = None,
        amplitudes: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray, FloatArray | float]:
        """Return X (B x - y) of held rows x and knots y.

        X is T with amplitudes and common modes marginalized; y are those of residuals of `amplitudes`.

        Returns
        -------
        knots : float64 (n_knots, width)
        largest : float64 (width,)
            Their largest size on this rank.
        shared : float64 (n_knots, width) or 0.0
            What streams have to do with common modes (`ModeModel.answer`).
        """
        knots = np.zeros((self.n_knots, held.shape[2]))
        _mapmaking.add_to_baselines(*visits.arguments(), held, knots, self.n_threads)
        if less is not None:
            knots -= less
        knots = self._solve_streams(knots)
        shared: FloatArray | float = 0.0
        if self.modes:
            templates = self.beside_modes
            shared = self.modes.answer(templates.alone(knots, amplitudes) if templates else knots)
            knots += self._solve_streams(templates.beside(shared) if templates else shared)
        return knots, np.abs(knots).max(axis=0, initial=0.0), shared

    def _solve_band(self, knots: FloatArray) -> FloatArray:
        """Return (C^-1 + F^T W F)^-1 of knots, (n_knots, width)."""
        out = np.array(knots, order="C")
        _mapmaking.solve_baselines(self._knots, self._factor, out, np.zeros(out.shape[1]), self.n_threads)
        return out

    def _solve_streams(self, knots: FloatArray) -> FloatArray:
        """Return T of knots, (n_knots, width): with the amplitudes of each stream marginalized."""
        out = self._solve_band(knots)
        if self.templates:
            self.templates.correct(out, self._solve_band)
        return out

    def _integers(
        self, visits: VisitRows, knots: FloatArray, largest: FloatArray, n_rows: int
    ) -> tuple[Int64Array, FloatArray]:
        """Return B^T of baselines on this rank as integers, (n_rows, n, width), and their units."""
        shape = (self.n_threads, n_rows, visits.n_stokes, knots.shape[1])
        sums, scales = np.zeros(shape, np.int64), _scales(largest)
        _mapmaking.add_from_baselines(*visits.arguments(), knots, scales, sums)
        return sums.sum(axis=0) if len(sums) > 1 else sums[0], scales

    def to_pixels(self, knots: FloatArray, largest: FloatArray) -> FloatArray:
        """Return B^T of baselines at the owners of pixels, (n_owned, n_stokes, width). Collective."""
        sums, scales = self._integers(
            self._visits, knots, self._largest * self.comm.allreduce(largest, "max"), self.pixels.n_held
        )
        return self.pixels.scatter_rev(sums) / scales

    def from_pixels(self, pixels: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray | float]:
        """Return X B of pixels at their owners, as `baselines`. Collective."""
        return self.baselines(self._visits, self.pixels.scatter_fwd(pixels))

    def apply_coupling(self, pixels: FloatArray) -> FloatArray:
        """Return B^T X B of pixels at their owners, (n_owned, n_stokes, width). Collective."""
        return self.to_pixels(*self.from_pixels(pixels)[:2])

    def from_gaps(
        self, residuals: FloatArray, amplitudes: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray | float]:
        """Return X (B W^-1 r_g - E G^-1 r_a) of residuals of gaps, (n_gaps, 1, width), and of amplitudes."""
        less = self.templates.to_knots(amplitudes) if self.templates and amplitudes is not None else None
        return self.baselines(self._gap_visits, residuals * self._inverse_gap_weights, less, amplitudes)

    def solve_gaps(self, residuals: FloatArray, knots: FloatArray) -> FloatArray:
        """Return W^-1 (r + B^T x) of residuals r of gaps, (n_gaps, 1, width), and baselines x."""
        values = residuals.copy()
        _mapmaking.add_to_gaps(*self._gap_visits.arguments(), knots, values, self.n_threads)
        values *= self._inverse_gap_weights
        return values

    def group_coupling(self, groups: Int64Array, n_groups: int, largest: float) -> FloatArray:
        """Return Z^T B^T T B Z where Z are groups of pixels: a matrix of n_groups x n_stokes. Collective.

        Parameters
        ----------
        groups : int64 (n_owned,)
            Group of each pixel that this rank owns.
        n_groups : int
            Groups of the run.
        largest : float
            Largest weight of a sample times the most samples of a group.
        """
        n = n_groups * self.n_stokes
        visits = self._visits.grouped(self.pixels.scatter_fwd(groups).astype(np.int32), n_groups)
        matrix = np.empty((n, n))
        for first in range(0, n, MAX_WIDTH):
            units = np.zeros((n, MAX_WIDTH))
            chosen = np.arange(first, min(first + MAX_WIDTH, n))
            units[chosen, chosen - first] = 1.0
            knots, sizes, _ = self.baselines(visits, units.reshape(n_groups, self.n_stokes, MAX_WIDTH))
            sums, scales = self._integers(
                visits, knots, largest * self.comm.allreduce(sizes, "max"), n_groups
            )
            products = (self.comm.allreduce(sums) / scales).reshape(n, MAX_WIDTH)
            matrix[:, chosen] = products[:, : len(chosen)]
        return matrix


def _scales(bounds: FloatArray) -> FloatArray:
    """Return powers of two that make integers of values, of which no sum exceeds the bounds."""
    exponents = np.frexp(np.where(bounds > 0, bounds, 1.0))[1]
    return np.where(bounds > 0, np.ldexp(1.0, _SUM_BITS - exponents), 0.0) + (bounds <= 0)


def _factorize(visits: RankVisits) -> FloatArray:
    """Return the Cholesky factor of T^-1 of each stream."""
    return factorize_baselines(visits.knots, visits.noises.inverse_priors, *visits.band_products())
