"""Maps of many data sets through one system."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.timers import Timers
from petacomm.base.typing import FloatArray
from petamap.data.config import RunConfig
from petamap.data.observation import Signal
from petamap.mapmaking.binning import RightHandSide, binned_map, right_hand_sides
from petamap.mapmaking.cg import ConjugateGradients, Solution, Step
from petamap.mapmaking.normal_operator import NormalOperator
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.system import System
from petamap.mapmaking.vectors import Unknowns
from petamap.sky.healpix import Healpix

# For each observation, the signals that add up.
Dataset = Sequence[Sequence[Signal]]


@dataclass(frozen=True)
class Mapped:
    """The map of a data set.

    Attributes
    ----------
    values : (n_owned, n_stokes) float64
        Of the pixels that this rank owns, nan where they cannot be solved for.
    iterations : int
    residual : float
        Relative, computed anew at the end; 0 for binned maps.
    error : str
        Why there is no map; empty where there is one.
    converged : bool
    """

    values: FloatArray
    iterations: int = 0
    residual: float = 0.0
    error: str = ""
    converged: bool = True


class Mapper:
    """Maps data sets, several at once. Collective.

    Parameters
    ----------
    system : System
    config : RunConfig
    timers : Timers
        Given the phases "data" and "iterations".
    tell : callable
        Told the part of a batch's solutions that is done, and the newest iteration in words.
    """

    def __init__(
        self, system: System, config: RunConfig, timers: Timers, tell: Callable[[float, str], None]
    ) -> None:
        self.system = system
        self.solver = config.solver
        self.timers = timers
        self.tell = tell
        operator = NormalOperator(system.projection, system.noise, system.shared, system.statistics.hits_max)
        self.gradients = ConjugateGradients(operator, system.preconditioner)
        self.space: Deflation | None = None

    def maps(self, datasets: Sequence[Dataset], timers: Timers | None = None) -> list[Mapped]:
        """Return the map of each data set: the same to the bit whatever others there are.

        One that fails says why, and does not stop the others. Phases are told to `timers`, if given.
        """
        timers = timers or self.timers
        try:
            with timers.phase("data"):
                rhs = self._read(datasets)
            with timers.phase("iterations"):
                return self._maps(rhs)
        except DataError as error:
            if len(datasets) == 1:
                return [self._failed(str(error))]
        return [mapped for dataset in datasets for mapped in self.maps([dataset], timers)]

    def learn(self, datasets: Sequence[Dataset], n_vectors: int, at_once: int) -> None:
        """Find what slows down the solutions of some data sets, to speed up all that follow."""
        rhs = [Unknowns(one.pixels, one.gaps) for one in self._read(datasets)]
        solver = self.solver
        self.space = Deflation.train(
            self.gradients, rhs, solver.tolerance, solver.max_iterations, n_vectors, at_once
        )

    def _read(self, datasets: Sequence[Dataset]) -> list[RightHandSide]:
        system = self.system
        return right_hand_sides(
            system.projection, system.noise, system.shared, system.statistics.binned_weights,
            system.statistics.hits_max, datasets,
        )  # fmt: skip

    def _maps(self, rhs: Sequence[RightHandSide]) -> list[Mapped]:
        if self.solver.binned_only:
            inverse, n_threads = self.system.statistics.binned_inverse, self.gradients.n_threads
            return [Mapped(self._cut(binned_map(inverse, one.binned, n_threads))) for one in rhs]
        done = [0.0] * len(rhs)
        # digits of the residual are won at a steadier pace than iterations are used up
        digits = -math.log10(min(max(self.solver.tolerance, 1e-16), 0.1))

        def tell(number: int, step: Step) -> None:
            won = -math.log10(max(step.relative_residual, 1e-300))
            done[number] = min(max(done[number], won / digits), 1.0)
            note = f"iteration {step.iteration}, residual {step.relative_residual:.2e}"
            self.tell(sum(done) / len(done), note)

        solutions = self.gradients.solve_many(
            [Unknowns(one.pixels, one.gaps) for one in rhs], self.solver.tolerance,
            self.solver.max_iterations, tell, self.space,
        )  # fmt: skip
        return [self._mapped(solution) for solution in solutions]

    def _mapped(self, solution: Solution) -> Mapped:
        if solution.error is not None:
            return self._failed(solution.reason)
        if not solution.converged and self.solver.on_stall == "error":
            return self._failed(f"not converged: {solution.reason}")
        values = self._cut(solution.map.pixels)
        return Mapped(values, solution.iterations, solution.true_residual, "", solution.converged)

    def _failed(self, error: str) -> Mapped:
        n_owned, n_stokes = len(self.system.keys), self.system.projection.stokes.n
        return Mapped(np.full((n_owned, n_stokes), np.nan), error=error, converged=False)

    def _cut(self, values: FloatArray) -> FloatArray:
        values[self.system.statistics.dead] = np.nan
        return values


class Gathering:
    """The way of maps from the owners of their pixels to one rank, in ring order. Collective.

    Parameters
    ----------
    system : System
        Of HEALPix pixels.
    """

    def __init__(self, system: System) -> None:
        solved = system.projection.pixelization
        assert isinstance(solved, Healpix), "checked before the system is set up"
        self.comm = system.comm
        self.pixelization = Healpix(solved.n_side)
        keys, _ = system.comm.allgather_rows(system.keys)
        self._pixels = solved.reordered(keys) if solved.nest else keys

    def to(self, root: int, values: FloatArray, empty: float = np.nan) -> FloatArray | None:
        """Return columns, (n_owned, n), as a map on one rank, float64 (n, n_pix); None on the others.

        `empty`: the value of pixels that no one owns.
        """
        rows = self.comm.gather_rows(np.ascontiguousarray(values), root)
        if rows is None:
            return None
        whole = np.full((values.shape[1], self.pixelization.n_pix), empty)
        whole[:, self._pixels] = rows.T
        return whole

    def to_all(self, values: FloatArray, empty: float) -> FloatArray:
        """Return columns, (n_owned, n), as a map on all ranks, float64 (n, n_pix)."""
        found: FloatArray = self.comm.bcast(self.to(0, values, empty))
        return found
