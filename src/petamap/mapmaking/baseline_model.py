"""The normal operator of a model: noise of baselines, pixels alone, gaps marginalized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
from petamap.mapmaking.vectors import MAX_WIDTH, largest_sizes
from petamap.mapmaking.visits import RankVisits, VisitRows

# No sum, and so no term of it, is larger than 2^50: terms are rounded by way of a double's 52 bits.
_SUM_BITS = 50


@dataclass(frozen=True)
class Eliminated:
    """Baselines x = -b' and amplitudes a that are left out of the equations of the map.

    Attributes
    ----------
    knots : float64 (n_knots, width)
        x.
    residuals : float64 (n_amplitudes, width), optional
        r with which a = G^-1 (r - E^T x); without it, 0.
    """

    knots: FloatArray
    residuals: FloatArray | None

    def __add__(self, other: Eliminated) -> Eliminated:
        """Return what is eliminated at the sum of both right-hand sides."""
        parts = [one for one in (self.residuals, other.residuals) if one is not None]
        return Eliminated(self.knots + other.knots, sum(parts[1:], parts[0]) if parts else None)


class BaselineModel:
    """Noise N = W^-1 + F C F^T of whole streams, and the normal equations of maps under it. Collective.

    With B = F^T W P and T = (C^-1 + F^T W F)^-1, a band solved directly for each stream, the map's matrix is
    S = D - B^T T B, D = P^T W P; with templates, see `petamap.mapmaking.template_model`. The unknowns of gaps
    are marginalized: their samples have no weight in T. Sums over ranks are integers, whose bits do not
    depend on who adds them.

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
        # on all ranks or on none: what follows is collective where amplitudes are in common
        is_shared = modes is not None and comm.max(float(bool(modes))) > 0
        self.beside_modes = templates if is_shared and isinstance(templates, TemplateModel) else None
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
        _mapmaking.add_to_gaps(visits.gaps.lists, np.ones((self.n_knots, 1)), sums, n_threads)
        self._inverse_gap_weights = 1 / sums
        self._factor = _factorize(visits)
        self._largest = largest
        if visits.amplitudes is not None and isinstance(templates, TemplateModel):
            self._amplitude_visits = visits.amplitudes.renumbered(held)
            # but the last of each stream
            knots = self._amplitude_visits.knots
            self._amplitude_knots = np.delete(np.arange(knots[-1]), knots[1:] - 1)
            self._functions_sum = comm.max(templates.functions_sum)
        if templates:
            templates.couple(self._solve_band)
        self._answer_modes: Callable[[FloatArray], FloatArray] | None = None
        if modes is not None and is_shared:
            self._answer_modes, solve = modes.answer, self._solve_band
            if self.beside_modes:
                self._answer_modes = self.beside_modes.eliminate_from_modes(
                    modes.streams, modes.answer, solve
                )

    # --- between rows of vectors and baselines

    def _from_rows(self, visits: VisitRows, held: FloatArray) -> FloatArray:
        """Return B of held rows, (n_held, n_stokes, width)."""
        knots = np.zeros((int(visits.knots[-1]), held.shape[2]))
        _mapmaking.add_to_baselines(visits.lists, held, knots, self.n_threads)
        return knots

    def _eliminate(self, knots: FloatArray, residuals: FloatArray | None) -> Eliminated:
        """Return X (y - E G^-1 r) of knots y, whose memory is used, and residuals r of amplitudes.

        X is T with amplitudes and common modes marginalized.
        """
        if self.templates and residuals is not None:
            knots -= self.templates.to_knots(residuals)
        knots = self._solve_streams(knots)
        if self._answer_modes:
            templates = self.beside_modes
            shared = self._answer_modes(templates.alone(knots, residuals) if templates else knots)
            knots += self._solve_streams(templates.beside(shared) if templates else shared)
            if templates:
                more = templates.from_knots(shared)
                residuals = more if residuals is None else residuals + more
        return Eliminated(knots, residuals)

    def _solve_band(self, knots: FloatArray) -> FloatArray:
        """Return (C^-1 + F^T W F)^-1 of knots, (n_knots, width)."""
        return self._solve_in_place(np.array(knots, order="C"))

    def _solve_in_place(self, knots: FloatArray) -> FloatArray:
        """Return the same in the memory of knots, (n_knots, width)."""
        _mapmaking.solve_baselines(self._knots, self._factor, knots, np.zeros(knots.shape[1]), self.n_threads)
        return knots

    def _solve_streams(self, knots: FloatArray) -> FloatArray:
        """Return T of knots in their memory, (n_knots, width): the amplitudes of each stream marginalized."""
        self._solve_in_place(knots)
        if self.templates:
            self.templates.correct(knots, self._solve_band)
        return knots

    def _integers(
        self, visits: VisitRows, knots: FloatArray, largest: float, n_rows: int
    ) -> tuple[Int64Array, FloatArray]:
        """Return B^T of baselines on this rank as integers, (n_rows, n, width), and their units. Collective.

        `largest`: what a sum is at most for knots of 1.
        """
        shape = (self.n_threads, n_rows, visits.n_stokes, knots.shape[1])
        sizes = self.comm.allreduce(largest_sizes(knots, self.n_threads), "max")
        sums, scales = np.zeros(shape, np.int64), _scales(largest * sizes)
        _mapmaking.add_from_baselines(visits.lists, knots, scales, sums)
        return sums.sum(axis=0) if len(sums) > 1 else sums[0], scales

    def _to_owners(self, visits: VisitRows, knots: FloatArray, largest: float) -> FloatArray:
        """Return B^T of baselines at the owners of pixels, (n_owned, n_stokes, width). Collective."""
        sums, scales = self._integers(visits, knots, largest, self.pixels.n_held)
        return self.pixels.scatter_rev(sums) / scales

    def to_pixels(self, eliminated: Eliminated) -> FloatArray:
        """Return B^T (x + c a) - U^T a of what was eliminated, (n_owned, n_stokes, width). Collective."""
        if not isinstance(self.templates, TemplateModel):
            return self._to_owners(self._visits, eliminated.knots, self._largest)
        amplitudes = self.amplitudes(eliminated)
        knots = eliminated.knots + self.templates.to_baselines(amplitudes)
        out = self._to_owners(self._visits, knots, self._largest)
        padded = np.zeros((int(self._amplitude_visits.knots[-1]), amplitudes.shape[1]))
        padded[self._amplitude_knots] = amplitudes
        out -= self._to_owners(self._amplitude_visits, padded, self._largest * self._functions_sum)
        return out

    def from_pixels(self, pixels: FloatArray) -> Eliminated:
        """Return what is eliminated at a map m: X B m, of residuals (c^T B - U) m. Collective."""
        held = self.pixels.scatter_fwd(pixels)
        knots = self._from_rows(self._visits, held)
        if not isinstance(self.templates, TemplateModel):
            return self._eliminate(knots, None)
        seen = self._from_rows(self._amplitude_visits, held)[self._amplitude_knots]
        return self._eliminate(knots, self.templates.from_knots(knots) - seen)

    def apply_coupling(self, pixels: FloatArray) -> FloatArray:
        """Return D - S of pixels at their owners, (n_owned, n_stokes, width). Collective."""
        return self.to_pixels(self.from_pixels(pixels))

    def from_gaps(self, residuals: FloatArray, amplitudes: FloatArray | None = None) -> Eliminated:
        """Return X (B W^-1 r_g - E G^-1 r_a) of residuals of gaps, (n_gaps, 1, width), and of amplitudes."""
        knots = self._from_rows(self._gap_visits, residuals * self._inverse_gap_weights)
        return self._eliminate(knots, amplitudes if self.templates else None)

    def amplitudes(self, eliminated: Eliminated) -> FloatArray:
        """Return the amplitudes, (n, width): G^-1 (r - E^T x)."""
        assert self.templates is not None
        residuals = eliminated.residuals
        if residuals is None:
            residuals = np.zeros((len(self.templates.keys), eliminated.knots.shape[1]))
        return self.templates.amplitudes(residuals, eliminated.knots)

    def solve_gaps(self, residuals: FloatArray, knots: FloatArray) -> FloatArray:
        """Return W^-1 (r + B^T x) of residuals r of gaps, (n_gaps, 1, width), and baselines x."""
        values = residuals.copy()
        _mapmaking.add_to_gaps(self._gap_visits.lists, knots, values, self.n_threads)
        values *= self._inverse_gap_weights
        return values

    def group_coupling(self, groups: Int64Array, n_groups: int, largest: float) -> FloatArray:
        """Return Z^T B^T X B Z where Z are groups of pixels: a matrix of n_groups x n_stokes. Collective.

        Without templates.

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
            knots = self._from_rows(visits, units.reshape(n_groups, self.n_stokes, MAX_WIDTH))
            sums, scales = self._integers(visits, self._eliminate(knots, None).knots, largest, n_groups)
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
