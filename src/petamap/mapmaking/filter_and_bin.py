"""Filter-and-bin maps: templates are fitted to the data alone, subtracted, and what is left is binned.

With the white weights W of the samples, templates T and P the pointing,

    m = (P^T W P)^-1 P^T W F d,    F = 1 - T (T^T W T + C^-1)^-1 T^T W,

where C is the prior covariance of the amplitudes, if they have one. What looks like a template in the sky is
filtered away with it: the map of a sky s is O s without noise, O = (P^T W P)^-1 P^T W F P the observation
matrix (BICEP2/Keck Array VII, 2016, ApJ 825, 66, section 3). All of it follows from the operator of the
map-making equation for white noise, A = [P T]^T W [P T], and its rows and columns of pixels and amplitudes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import ConfigError, ConvergenceError, ResourceError
from petacomm.base.host import available_bytes
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import agree
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.linear_operators import Operator
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.system_options import SystemOptions
from petamap.mapmaking.vectors import MAX_WIDTH, Unknowns, stack

# Of the amplitudes: relative residual, and iterations; one or two are enough where templates do not overlap.
_TOLERANCE, _ITERATIONS = 1e-10, 500
_ZERO = 1e-9  # entries of the observation matrix below this part of the largest of their column are left out
MOST_UNKNOWNS = 18432


def white_options(options: SystemOptions) -> SystemOptions:
    """Return the options of a system of white noise, whose flagged samples are left out."""
    return replace(
        options, n_lag=0, stream_lags=None, mode_lags=None, free_ends=False, flags="cut",
        preconditioner="block-diagonal", uniform_binning=False, rcond_solved=options.rcond_min,
    )  # fmt: skip


class _AmplitudeOperator(Operator):
    """T^T W T, on vectors whose pixels are zero."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.comm, self.n_threads = operator.comm, operator.n_threads

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return T^T W T times vectors side by side. Collective."""
        return amplitudes_of(self._operator.apply(vectors))


class FilterAndBin:
    """Filter and binning of a run's templates. Collective.

    Parameters
    ----------
    system : MapmakingSystem
        With `white_options`.
    """

    def __init__(self, system: MapmakingSystem) -> None:
        self.system = system
        self._operator = system.operator()
        self._solver = ConjugateGradients(_AmplitudeOperator(self._operator), system.preconditioner)

    def map_of_data(self, advance: Callable[[float], None] = lambda amount: None) -> FloatArray:
        """Return the map of the data, (n_owned, n_stokes); nan where a pixel is not solved for. Collective.

        Raises
        ------
        ConvergenceError
            On all ranks, if the templates cannot be told apart.
        """
        found = self.solution(advance).pixels
        found[self.system.statistics.dead] = np.nan
        return found

    def solution(self, advance: Callable[[float], None] = lambda amount: None) -> Unknowns:
        """Return map and amplitudes of the data, at the owners. Collective."""
        return self.solutions([right_hand_side(self.system, advance).unknowns])[0]

    def filtered(self, maps: Sequence[FloatArray]) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return P^T W P m and P^T W F P m of maps m, (n_owned, n_stokes) each, zero in dead pixels."""
        shared = self.system.shared
        nothing = shared.zeros(self.system.projection.stokes.n).gaps
        given = [shared.with_ghosts(Unknowns(one, nothing)) for one in maps]
        product = self._operator.apply(stack(given))
        seen = [product.column(number) for number in range(len(maps))]
        return [one.pixels for one in seen], [left for left, _ in self._left(seen)]

    def solutions(self, projected: Sequence[Unknowns]) -> list[Unknowns]:
        """Return maps and amplitudes of samples x from P^T W x and T^T W x of each. Collective.

        Raises
        ------
        ConvergenceError
            On all ranks, if the templates cannot be told apart.
        """
        found = []
        for left, fit in self._left(projected):
            values = np.empty_like(left)
            _mapmaking.precondition(
                self.system.statistics.covariance, left[..., None], values[..., None],
                self.system.projection.n_threads,
            )  # fmt: skip
            found.append(self.system.shared.with_ghosts(Unknowns(values, fit.gaps.copy())))
        return found

    def _left(self, projected: Sequence[Unknowns]) -> list[tuple[FloatArray, Unknowns]]:
        """Return P^T W F x, (n_owned, n_stokes), and the amplitudes of samples x, as `solutions`."""
        fits = self._solver.solve_many([amplitudes_of(one) for one in projected], _TOLERANCE, _ITERATIONS)
        for fit in fits:
            if not fit.converged:
                raise fit.error or ConvergenceError(
                    f"templates are not told apart: {fit.reason}",
                    mend="leave away one of those that are alike, or give them an rms",
                )
        filtered = self._operator.apply(stack([amplitudes_of(fit.map) for fit in fits]))
        found = []
        for number, (one, fit) in enumerate(zip(projected, fits, strict=True)):
            found.append((np.ascontiguousarray(one.pixels - filtered.pixels[:, :, number]), fit.map))
        return found

    def columns(self) -> ObservationColumns:
        """Return an observation matrix without entries. Collective."""
        return ObservationColumns(self.system)

    def fill(self, columns: ObservationColumns, advance: Callable[[int], None] = lambda n: None) -> None:
        """Fill in all columns of O. Collective."""
        for first in range(0, columns.n, MAX_WIDTH):
            numbers = range(first, min(first + MAX_WIDTH, columns.n))
            seen = self._operator.apply(stack([columns.unit(number) for number in numbers]))
            for found in self.solutions([seen.column(k) for k in range(len(numbers))]):
                columns.append(found.pixels)
            advance(len(numbers))


class ObservationColumns:
    """Columns of an observation matrix, gathered on rank 0.

    Attributes
    ----------
    n : int
        Unknowns of the pixels that are solved for: all pixels of the first Stokes parameter first.
    n_unknowns : int
        Of all pixels of the map.
    """

    def __init__(self, system: MapmakingSystem) -> None:
        self._system = system
        self._alive = np.flatnonzero(~system.statistics.dead)
        held, _ = system.comm.allgather_rows(system.keys[self._alive])
        self._order = np.argsort(held)
        self._pixels: Int64Array = held[self._order]
        self._n_stokes = system.projection.stokes.n
        self.n = self._n_stokes * len(self._pixels)
        self.n_unknowns = self._n_stokes * system.projection.pixelization.n_pix
        # none of a map without pixels
        self._rows: list[Int64Array] = [np.zeros(0, np.int64)]
        self._values: list[FloatArray] = [np.zeros(0)]

    def refusal(self) -> ConfigError | ResourceError | None:
        """Return why there is no matrix, if there is none."""
        if self.n > MOST_UNKNOWNS:
            return ConfigError(
                f"{len(self._pixels)} pixels are too many for products.observation_matrix",
                mend=f"choose a map of at most {MOST_UNKNOWNS // self._n_stokes}",
            )
        if 12 * self.n**2 > available_bytes():
            return ResourceError(
                f"the observation matrix of {self.n} unknowns needs up to {12 * self.n**2 / 1e9:.1f} GB",
                mend="use larger pixels",
            )
        return None

    def unit(self, number: int) -> Unknowns:
        """Return the unit vector of an unknown, at its owner."""
        vector = self._system.shared.zeros(self._n_stokes)
        stokes, place = divmod(number, len(self._pixels))
        own = self._system.keys[self._alive] == self._pixels[place]
        vector.pixels[self._alive[own], stokes] = 1
        return self._system.shared.with_ghosts(vector)

    def append(self, values: FloatArray) -> None:
        """Append a column: a map at the owners, (n_owned, n_stokes). Collective."""
        rows = self._system.comm.gather_rows(np.ascontiguousarray(values[self._alive]))
        if rows is None:
            return
        column = rows[self._order].T.ravel()
        kept = np.flatnonzero(np.abs(column) > _ZERO * np.abs(column).max())
        self._rows.append(kept)
        self._values.append(column[kept])

    def triplets(self) -> tuple[Int64Array, Int64Array, FloatArray]:
        """Return rows, columns and values of all entries, on rank 0.

        Unknown (s, p), of Stokes parameter s and pixel p, is s n_pix + p; HEALPix pixels are nested.
        """
        n_pix = self._system.projection.pixelization.n_pix
        numbers = (np.arange(self._n_stokes)[:, None] * n_pix + self._pixels).ravel()
        columns = np.repeat(numbers, [len(rows) for rows in self._rows[1:]])
        return numbers[np.concatenate(self._rows)], columns, np.concatenate(self._values)


def require_few_pixels(system: MapmakingSystem) -> None:
    """Raise an error on all ranks if a system has too many pixels for an observation matrix. Collective.

    Raises
    ------
    ConfigError, ResourceError
    """
    columns = ObservationColumns(system)
    agree(system.comm, columns.refusal() if system.comm.rank == 0 else None)


def amplitudes_of(vector: Unknowns) -> Unknowns:
    """Return a vector with zeros on pixels."""
    return Unknowns(
        np.zeros_like(vector.pixels), vector.gaps, np.zeros_like(vector.pixel_ghosts), vector.gap_ghosts
    )
