"""Map-making of many data sets with one system."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConvergenceError, DataError
from petacomm.base.files import reserve_space, write_errors
from petacomm.base.stop_request import StopRequest
from petacomm.base.timers import Timers
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import agree_on_errors, spread_on_nodes
from petamap.data.config import RunConfig
from petamap.mapmaking.filter_and_bin import FilterAndBin
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.right_hand_side import Dataset, RightHandSide, binned_map, right_hand_sides
from petamap.mapmaking.slabs import Slabs, is_partial
from petamap.mapmaking.solution import Solution, SolverCheckpoint
from petamap.mapmaking.stop_rule import Iteration, SolverTolerance
from petamap.mapmaking.system import MapmakingSystem
from petamap.sky.healpix import Healpix
from petamap.sky.map_digest import joined_sha256, slab_hashes
from petamap.sky.ring_distribution import RingDistribution

# Digits of progress where a tolerance of 0 asks for all.
_MOST_DIGITS = 16.0


@dataclass(frozen=True)
class MappedDataset:
    """Map of a data set.

    Attributes
    ----------
    values : (n_owned, n_stokes) float64
        Values of the pixels that this rank owns, nan for pixels without a solution.
    iterations : int
    residual : float
        True relative residual at the end; 0 for binned maps.
    error_bound : float
        Upper bound of the error in units of the noise; 0 for binned maps.
    error : str
        Reason of a failure; empty if there is a map.
    converged : bool
    unfiltered : (n_owned, n_stokes) float64, optional
        Binned map of the same samples, beside one that is filtered.
    """

    values: FloatArray
    iterations: int = 0
    residual: float = 0.0
    error_bound: float = 0.0
    error: str = ""
    converged: bool = True
    unfiltered: FloatArray | None = None


class Mapper:
    """Map-maker of several data sets at once. Collective on the communicator of the system.

    Parameters
    ----------
    system : MapmakingSystem
    config : RunConfig
    timers : Timers
        Timers of the phases "data" and "iterations".
    report : callable
        Called with the fraction of the solutions of a batch that is done, and a text on the last iteration.
    stop : StopRequest
        Ends the reading of data at once by SIGTERM, on this rank alone.
    """

    def __init__(
        self,
        system: MapmakingSystem,
        config: RunConfig,
        timers: Timers,
        report: Callable[[float, str], None],
        stop: StopRequest,
    ) -> None:
        self.system = system
        self.stop = stop
        self.solver = config.solver
        self.timers = timers
        self.report = report
        self.cg = system.solver()
        self.space: Deflation | None = None

    def maps(
        self,
        datasets: Sequence[Dataset],
        timers: Timers | None = None,
        checkpoint: SolverCheckpoint | None = None,
    ) -> list[MappedDataset]:
        """Return the map of each data set, whose bits do not depend on the other data sets.

        A failure is recorded in the result and does not affect the others. Phases are added to `timers`, if
        given, instead of those of the mapper. Data sets that can only be read one by one have no checkpoint.
        """
        timers = timers or self.timers
        try:
            with timers.phase("data"), self.stop.ending_at_once():
                rhs = right_hand_sides(self.system, datasets)
            with timers.phase("iterations"):
                return self._maps(rhs, checkpoint)
        except DataError as error:
            if len(datasets) == 1:
                return [self._failed(str(error))]
        return [mapped for dataset in datasets for mapped in self.maps([dataset], timers)]

    def train_deflation(self, datasets: Sequence[Dataset], n_vectors: int, at_once: int) -> None:
        """Find deflation vectors from the solutions of some data sets, to accelerate all later solutions."""
        rhs = [item.unknowns for item in right_hand_sides(self.system, datasets)]
        solver = self.solver
        self.space = Deflation.train(
            self.cg, rhs, solver.tolerance, solver.max_iterations, n_vectors, at_once
        )

    def realizations_to_pay(self, iterations: float, each: float, groups: int) -> int | None:
        """Return the number of realizations after which deflation vectors have saved the time to find them.

        Parameters
        ----------
        iterations : float
            Of a map, with the vectors.
        each : float
            Seconds of the iterations of a realization.
        groups : int
            Groups of ranks, each of which finds them.
        """
        if self.space is None or not self.space.n_vectors or not iterations:
            return None
        saved = each * (self.space.undeflated_iterations / iterations - 1)
        return math.ceil(groups * self.timers.phases["vectors"].seconds / saved) if saved > 0 else None

    def _maps(self, rhs: Sequence[RightHandSide], checkpoint: SolverCheckpoint | None) -> list[MappedDataset]:
        if self.solver.binned_only:
            return [MappedDataset(self._cut(binned_map(self.system, item))) for item in rhs]
        done = [0.0] * len(rhs)
        tolerance = SolverTolerance.parse(self.solver.tolerance)
        digits = max(tolerance.digits or _MOST_DIGITS, 1.0)

        def report(number: int, step: Iteration) -> None:
            done[number] = min(max(done[number], tolerance.digits_gained(step) / digits), 1.0)
            self.report(sum(done) / len(done), step.note)

        unknowns, solver = [item.unknowns for item in rhs], self.solver
        solutions = self.cg.solve_many(
            unknowns, tolerance, solver.max_iterations, report, self.space,
            stall_iterations=solver.stall_iterations, checkpoint=checkpoint,
        )  # fmt: skip
        return [self._mapped(solution) for solution in solutions]

    def _mapped(self, solution: Solution) -> MappedDataset:
        if solution.error is not None:
            return self._failed(solution.reason)
        if not solution.converged and self.solver.on_stall == "error":
            return self._failed(f"not converged: {solution.reason}")
        values = self._cut(solution.map.pixels)
        return MappedDataset(
            values, solution.iterations, solution.true_residual, solution.error_bound, "", solution.converged
        )

    def _failed(self, error: str) -> MappedDataset:
        n_owned, n_stokes = len(self.system.keys), self.system.projection.stokes.n
        return MappedDataset(np.full((n_owned, n_stokes), np.nan), error=error, converged=False)

    def _cut(self, values: FloatArray) -> FloatArray:
        values[self.system.statistics.dead] = np.nan
        return values


class FilterMapper(Mapper):
    """Filter and binning of several data sets at once. Collective on the communicator of the system.

    Parameters
    ----------
    system : MapmakingSystem
        With `petamap.mapmaking.filter_and_bin.white_options`.
    config, timers, report, stop
        As of `Mapper`.
    """

    @cached_property
    def _filter(self) -> FilterAndBin:
        return FilterAndBin(self.system)

    def _maps(self, rhs: Sequence[RightHandSide], checkpoint: SolverCheckpoint | None) -> list[MappedDataset]:
        try:
            found = self._filter.solutions([item.unknowns for item in rhs])
        except ConvergenceError as error:
            return [self._failed(str(error)) for _ in rhs]
        return [
            MappedDataset(self._cut(one.pixels), unfiltered=self._cut(binned_map(self.system, item)))
            for one, item in zip(found, rhs, strict=True)
        ]


class MapGatherer:
    """Way of maps from the owners of their pixels to one rank, or to the owners of their rings. Collective.

    Parameters
    ----------
    system : MapmakingSystem
        System with HEALPix pixels.
    distributed : bool
        Whether all ranks have `rings` of each map; else each has whole maps.
    needs_all : bool
        Whether maps have all pixels, even if few are observed.

    Attributes
    ----------
    places : int64 (n,), optional
        Where less than half of the pixels are observed: the places of these among the pixels of the rank's
        rings, increasing. Maps have no others then.
    """

    def __init__(self, system: MapmakingSystem, distributed: bool = False, needs_all: bool = False) -> None:
        solved = system.projection.pixelization
        assert isinstance(solved, Healpix), "checked before the set-up of the system"
        self.comm = system.comm
        self.pixelization = Healpix(solved.n_side)
        self._pixels = solved.reordered(system.keys) if solved.nest else system.keys
        self.distributed = distributed
        self.rings = RingDistribution(solved.n_side, self.comm if distributed else None)
        self.places: Int64Array | None = None
        few = not needs_all and is_partial(self.pixelization, int(self.comm.sum(len(self._pixels))))
        if distributed:
            rows, n_pix = self.rings.rows_of(self._pixels), self.pixelization.n_pix
            self._by_ring = Slabs(self.comm, n_pix, rows, few, self.rings.bounds)
            self._by_slab = Slabs(self.comm, n_pix, self._pixels, few)
            held = self._by_ring.held
            self.places = None if held is None else held - self._by_ring.first
        elif few:
            self._sort_pixels()

    def _sort_pixels(self) -> None:
        """Find the order of pixels that are gathered, once on each node. Collective."""
        pixels = self.comm.gather_rows(self._pixels, 0)
        order = None if pixels is None else np.argsort(pixels)
        self._order: Int64Array = spread_on_nodes(self.comm, order)
        self.places = spread_on_nodes(self.comm, None if pixels is None else pixels[order])

    @property
    def pixels(self) -> Int64Array:
        """Numbers of the pixels of maps that this rank has, int64 (n,)."""
        return self.rings.pixels if self.places is None else self.rings.numbers_of(self.places)

    def to_rings(self, values: FloatArray, empty: float = np.nan) -> FloatArray:
        """Return columns, (n_owned, n), as the rank's part of a map in rings, float64 (n, n_own).

        `empty` is the value of pixels without an owner.
        """
        part = np.empty((values.shape[1], self._by_ring.height))
        for column, out in enumerate(part):  # one at a time: each may be large
            out[:] = self._by_ring.collect(values[:, column : column + 1])[:, 0]
            if not np.isnan(empty):
                out[np.isnan(out)] = empty
        return part

    def sha256(self, values: FloatArray) -> str:
        """Return `map_sha256` of the map with these columns, (n_owned, n), on rank 0; empty on others."""
        return self._by_slab.sha256(self._by_slab.collect(values))

    def sha256_of(self, values: FloatArray) -> str:
        """Return `map_sha256` of a map that this rank has gathered, (n_columns, n)."""
        n_pix = self.pixelization.n_pix
        first: Int64Array | int = 0 if self.places is None else self.places
        return joined_sha256(slab_hashes(values.T, first, n_pix), len(values), n_pix)

    def file_pixels(self) -> Int64Array | None:
        """Return the numbers of the pixels that maps have in files, on rank 0; None where these are all.

        Collective where ranks have parts of maps.
        """
        if self.places is None or not self.distributed:
            return self.places
        return self.comm.gather_rows(np.asarray(self._file_slabs().held))

    def _file_slabs(self) -> Slabs:
        return Slabs(self.comm, self.pixelization.n_pix, self.pixels, self.places is not None)

    def to_disk(self, part: FloatArray, folder: Path) -> FloatArray:
        """Return a map for a file of the parts of all ranks, (n, n_file_pixels): on rank 0, not in memory."""
        slabs = self._file_slabs()
        shape, whole = (len(part), int(self.comm.sum(slabs.height))), np.empty((len(part), 0))
        with agree_on_errors(self.comm):
            if self.comm.rank == 0:
                whole = _in_file(folder, shape)
        for row, out in zip(part, whole, strict=True):
            begin = 0
            for _, _, piece in slabs.stream(slabs.collect(row[:, None])):
                out[begin : begin + len(piece)] = piece
                begin += len(piece)
        return whole

    def gather(self, root: int, values: FloatArray, empty: float = np.nan) -> FloatArray | None:
        """Return columns, (n_owned, n), as a map on rank `root`, float64 (n, n_pix); None on other ranks.

        `empty` is the value of pixels without an owner. Where these are most, the map has the others alone.
        """
        rows = self.comm.gather_rows(np.ascontiguousarray(values), root)
        if self.places is not None:
            return None if rows is None else np.ascontiguousarray(rows[self._order].T)
        pixels = self.comm.gather_rows(self._pixels, root)
        if rows is None or pixels is None:
            return None
        full = np.full((values.shape[1], self.pixelization.n_pix), empty)
        full[:, pixels] = rows.T
        return full


def _in_file(folder: Path, shape: tuple[int, int]) -> FloatArray:
    """Return an array in a file that nobody else sees, so that it need not stay in memory."""
    with write_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
        reserve_space(file, 8 * shape[0] * shape[1])
        return np.memmap(file, np.float64, "r+", shape=shape)
