"""Covariance of all pixels of a low-resolution map: (P^T N^-1 P)^-1, with gaps marginalised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from petacomm.base.errors import ConfigError, ConvergenceError, ResourceError
from petacomm.base.host import available_bytes
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import agree
from petamap.mapmaking.checkpoint import ColumnCheckpoint, JobCheckpoints
from petamap.mapmaking.checkpoint_file import KeyedRows
from petamap.mapmaking.checkpoint_pace import Pace
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.solution import Solution
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.vectors import SharedUnknowns, Unknowns
from petamap.sky.healpix import Healpix

# I, Q, U of the whole sky at n_side 16, and twice that
MOST_UNKNOWNS = 18432
_BATCH = 8  # columns that are solved for in one call
# Relative residual up to which a column is right, whatever tolerance it missed: the default tolerance. With
# residuals d of n columns the likelihood sees N (1 + E) for the noise N, |E| <= d sqrt(n k), k the condition
# of M^-1 A; rounding keeps d above some 1e-16 k (Greenbaum 1997, SIAM J. Matrix Anal. Appl. 18, 535).
_RIGHT = 1e-6
_MOST_NAMED = 5


@dataclass(frozen=True)
class FoundColumns:
    """The covariance of the pixels of which all columns are right, and the columns that missed the tolerance.

    Attributes
    ----------
    values : (n, n) float64, or None
        On rank 0: all pixels of the first Stokes parameter first.
    pixels : int64 (n_seen,)
        Ring numbers, increasing.
    missed, left_out : str
        For the user: the columns that missed the tolerance and are right, and those that are not, of which
        the pixels are left out. Empty if there are none.
    """

    values: FloatArray | None
    pixels: Int64Array
    missed: str = ""
    left_out: str = ""


@dataclass(frozen=True)
class _Miss:
    """A column that missed the tolerance."""

    number: int
    name: str
    residual: float
    reason: str


class CovarianceCheckpoint:
    """Checkpoint of the columns that are found, and of those that are being solved for. Collective.

    Parameters
    ----------
    job : JobCheckpoints
    shared : SharedUnknowns
    pace : Pace
    """

    _NAME = "pixel_covariance"

    def __init__(self, job: JobCheckpoints, shared: SharedUnknowns, pace: Pace) -> None:
        self.job = job
        self.shared = shared
        self.pace = pace

    def restore(self, found: FloatArray) -> tuple[int, list[_Miss]]:
        """Fill in the columns that were found, on rank 0; return their number, and those that missed."""
        comm = self.shared.comm
        head = self.job.read_head(self._NAME, comm)
        if head is None:
            return 0, []
        done = int(head["done"])
        keys = np.arange(done if comm.rank == 0 else 0)
        rows = self.job.read(self._NAME, comm, head, {"columns": keys})["columns"]
        found[: len(rows)] = rows
        return done, [_Miss(*miss) for miss in head["misses"]]

    def batch(self, first: int, found: FloatArray, misses: list[_Miss]) -> ColumnCheckpoint:
        """Return the checkpoint of the columns from `first` on, which saves those before as well."""

        def write() -> None:
            n = first if len(found) else 0
            head = {
                "note": f"goes on after {first} columns of the pixel covariance",
                "done": first,
                "misses": [astuple(miss) for miss in misses],
            }
            columns = KeyedRows(np.arange(n), [found[:n]])
            self.job.write(self._NAME, self.shared.comm, head, {"columns": columns})

        return ColumnCheckpoint(self.job, self.shared, "columns", self.pace, [first], also=write)


class CovarianceColumns:
    """Columns of the covariance of a run's pixels, each a solution of the map-making equation. Collective.

    The solution x of A x = e_i has column i of A^-1 in its pixels, marginalised over the gaps. Columns are
    solved for to the solver's tolerance as maps are, so no bit depends on ranks. A tolerance in units of
    the noise of a map says nothing of a column, which is no map: then it is the default, a residual.

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
    ConvergenceError
        If the data leave a mode of the map undetermined.
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

    def _refusal(self) -> ConfigError | ConvergenceError | ResourceError | None:
        if undetermined := self.system.preconditioner.undetermined:
            return _open_modes(f"the covariance of {', '.join(undetermined)} is infinite")
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
        self,
        tolerance: float | str,
        max_iterations: int,
        advance: Callable[[int], None] = lambda n: None,
        stall_iterations: int = 0,
        checkpoint: CovarianceCheckpoint | None = None,
    ) -> FoundColumns:
        """Return the covariance, symmetrized: the mean of itself and its transpose. Collective.

        Columns that miss the tolerance by rounding are as good as those of the default tolerance. The rows
        and columns of a pixel that is not solved for are left out: the rest is the covariance of the others.

        Raises
        ------
        ConvergenceError
            On all ranks, if no pixel is left, or the system is not positive definite.
        """
        system = self.system
        tolerance = _RIGHT if isinstance(tolerance, str) else tolerance
        solver = system.solver()
        found = np.empty((self.n if system.comm.rank == 0 else 0, self.n))
        done, misses = (0, []) if checkpoint is None else checkpoint.restore(found)
        advance(done)
        for first in range(done, self.n, _BATCH):
            numbers = range(first, min(first + _BATCH, self.n))
            rhs = [self._unit(number) for number in numbers]
            batch = None if checkpoint is None else checkpoint.batch(first, found, misses)
            solutions = solver.solve_many(
                rhs, tolerance, max_iterations, stall_iterations=stall_iterations, checkpoint=batch
            )
            for number, solution in zip(numbers, solutions, strict=True):
                misses += self._miss(number, solution)
                rows = system.comm.gather_rows(solution.map.pixels[self._alive])
                if rows is not None:
                    found[number] = rows[self._order].T.ravel()
            advance(len(numbers))
        if not len(found):
            return self._without_wrong(None, misses, tolerance)
        found += found.T.copy()
        found *= 0.5
        return self._without_wrong(found, misses, tolerance)

    def _miss(self, number: int, solution: Solution) -> list[_Miss]:
        if solution.converged:
            return []
        name = self._named(number)
        if solution.error is not None:
            raise _no_solution(f"{name} of the covariance", solution, self.system.projection)
        return [_Miss(number, name, solution.true_residual, solution.reason)]

    def _without_wrong(
        self, found: FloatArray | None, misses: Sequence[_Miss], tolerance: float
    ) -> FoundColumns:
        right = [miss for miss in misses if miss.residual <= _RIGHT]
        wrong = [miss for miss in misses if not miss.residual <= _RIGHT]
        kept = np.ones(len(self.pixels), bool)
        kept[[miss.number % len(self.pixels) for miss in wrong]] = False
        if wrong and not kept.any():
            raise ConvergenceError(f"{wrong[0].name} of the covariance: {wrong[0].reason}")
        if found is not None and wrong:
            rows = np.flatnonzero(np.tile(kept, self.n_stokes))
            found = found[np.ix_(rows, rows)]
        missed = left_out = ""
        if right:
            most = max(miss.residual for miss in right)
            missed = (
                f"{len(right)} of {self.n} columns missed the tolerance {tolerance:g}, by a factor of "
                f"{most / tolerance:.2g} at most ({_listed(right)}); "
                f"they are kept, as residuals up to {_RIGHT:g} are small enough"
            )
        if wrong:
            left_out = (
                f"{int(np.sum(~kept))} of {len(kept)} pixels are left out, not solved for: {_listed(wrong)}"
            )
        return FoundColumns(found, self.pixels[kept], missed, left_out)

    def _unit(self, number: int) -> Unknowns:
        vector = self.system.shared.zeros(self.n_stokes)
        stokes, place = divmod(number, len(self.pixels))
        own = self._mine == self.pixels[place]
        vector.pixels[self._alive[own], stokes] = 1
        return self.system.shared.with_ghosts(vector)

    def _named(self, number: int) -> str:
        stokes, place = divmod(number, len(self.pixels))
        return f"{self.system.projection.stokes.value[stokes]} of pixel {int(self.pixels[place])} (ring)"


def _no_solution(name: str, solution: Solution, projection: Projection) -> ConvergenceError:
    """Return the error of a column without a solution: where there are templates, that of an open mode.

    Constants of all streams and the mean of I leave all samples as they are.
    """
    if not projection.amplitudes or "I" not in projection.stokes.value:
        return ConvergenceError(f"{name}: {solution.reason}")
    return _open_modes(f"{name}: {solution.reason}")


def _open_modes(what: str) -> ConvergenceError:
    return ConvergenceError(
        f"{what}: templates leave modes of the map open, as offsets of all detectors its mean",
        mend="give the templates an rms or a prior, or leave them away in one observation",
    )


def _listed(misses: Sequence[_Miss]) -> str:
    """Return the columns with the largest residuals, for the user."""
    worst = sorted(misses, key=lambda miss: (-miss.residual, miss.number))[:_MOST_NAMED]
    more = f" and {len(misses) - len(worst)} more" if len(worst) < len(misses) else ""
    return ", ".join(f"{miss.name}: {miss.residual:.2g}" for miss in worst) + more
