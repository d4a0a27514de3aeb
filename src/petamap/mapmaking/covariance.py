"""Covariance of all pixels of a low-resolution map: (P^T N^-1 P)^-1, with gaps marginalised."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from petacomm.base.errors import ConfigError, ConvergenceError, ResourceError
from petacomm.base.host import available_bytes
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import agree
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.vectors import Unknowns
from petamap.sky.healpix import Healpix

# I, Q, U of the whole sky at n_side 16, and twice that
MOST_UNKNOWNS = 18432
_BATCH = 8  # columns that are solved for in one call


class CovarianceColumns:
    """Columns of the covariance of a run's pixels, each a solution of the map-making equation. Collective.

    The solution x of A x = e_i has column i of A^-1 in its pixels, marginalised over the gaps. Columns are
    solved for to the solver's tolerance as maps are, so no bit depends on ranks.

    Parameters
    ----------
    system : MapmakingSystem

    Attributes
    ----------
    pixels : int64 (n_seen,)
        Ring numbers of the pixels that are solved for, increasing.
    n_side : int
    n : int
        Unknowns: pixels times Stokes parameters.

    Raises
    ------
    ConfigError
        If pixels are not those of HEALPix, or too many.
    ResourceError
        If the memory of rank 0 does not suffice for the matrix.
    """

    def __init__(self, system: MapmakingSystem) -> None:
        self.system = system
        solved = system.projection.pixelization
        if not isinstance(solved, Healpix):
            raise ConfigError("products.pixel_covariance needs HEALPix pixels")
        self._alive = np.flatnonzero(~system.statistics.dead)
        self._mine = solved.reordered(system.keys[self._alive]) if solved.nest else system.keys[self._alive]
        held, _ = system.comm.allgather_rows(self._mine)
        self._order = np.argsort(held)  # rows come from the ranks in turn
        self.pixels: Int64Array = held[self._order]
        self.n_side = solved.n_side
        self.n_stokes = system.projection.stokes.n
        self.n = self.n_stokes * len(self.pixels)
        agree(system.comm, self._refusal() if system.comm.rank == 0 else None)

    @property
    def bytes(self) -> int:
        """Bytes that rank 0 needs: the matrix, its transpose, and its bytes in the file."""
        return 3 * 8 * self.n**2

    def _refusal(self) -> ConfigError | ResourceError | None:
        if self.n > MOST_UNKNOWNS:
            return ConfigError(
                f"{len(self.pixels)} pixels are too many for products.pixel_covariance",
                mend=f"choose a map of at most {MOST_UNKNOWNS // self.n_stokes}",
            )
        if self.bytes > available_bytes():
            return ResourceError(
                f"the covariance of {self.n} unknowns needs {self.bytes / 1e9:.1f} GB", mend="lower n_side"
            )
        return None

    def solve(
        self, tolerance: float, max_iterations: int, advance: Callable[[int], None] = lambda n: None
    ) -> FloatArray | None:
        """Return the covariance (n, n) on rank 0, all pixels of the first Stokes parameter first. Collective.

        It is symmetrized: the mean of itself and its transpose.

        Raises
        ------
        ConvergenceError
            On all ranks, if a column does not reach the tolerance.
        """
        system = self.system
        solver = system.solver()
        found = np.empty((self.n, self.n)) if system.comm.rank == 0 else None
        for first in range(0, self.n, _BATCH):
            numbers = range(first, min(first + _BATCH, self.n))
            rhs = [self._unit(number) for number in numbers]
            solutions = solver.solve_many(rhs, tolerance, max_iterations)
            for number, solution in zip(numbers, solutions, strict=True):
                if not solution.converged:
                    raise ConvergenceError(f"{self._named(number)} of the covariance: {solution.reason}")
                rows = system.comm.gather_rows(solution.map.pixels[self._alive])
                if found is not None and rows is not None:
                    found[number] = rows[self._order].T.ravel()
            advance(len(numbers))
        if found is None:
            return None
        found += found.T.copy()
        found *= 0.5
        return found

    def _unit(self, number: int) -> Unknowns:
        vector = self.system.shared.zeros(self.n_stokes)
        stokes, place = divmod(number, len(self.pixels))
        own = self._mine == self.pixels[place]
        vector.pixels[self._alive[own], stokes] = 1
        return vector

    def _named(self, number: int) -> str:
        stokes, place = divmod(number, len(self.pixels))
        return f"{self.system.projection.stokes.value[stokes]} of pixel {int(self.pixels[place])} (ring)"
