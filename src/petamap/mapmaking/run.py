"""The main job: from a run configuration to maps on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np

from petacomm.base.errors import ConfigError, ConvergenceError, Interruption, UserError
from petacomm.base.files import check_writable, require_possible
from petacomm.base.folder_lock import sole_writer
from petacomm.base.host import return_free_memory
from petacomm.base.progress import Progress
from petacomm.base.stop_request import StopRequest
from petacomm.base.typing import FloatArray
from petacomm.cli.shown_progress import shown_progress
from petacomm.mpi import Communicator, agree_on_errors
from petamap.data import run_summary as summary
from petamap.data.config import RunConfig, open_sources, require_configuration
from petamap.data.demodulation import low_pass_note
from petamap.data.given_communicator import given_communicator
from petamap.data.observation import Observation, sky_signals
from petamap.data.run_summary import ModesTaken, Summary
from petamap.data.same_on_ranks import require_same_on_ranks
from petamap.mapmaking.checkpoint import ColumnCheckpoint, JobCheckpoints, NoCheckpoints
from petamap.mapmaking.components import ComponentSystem, component_maps, reading_system
from petamap.mapmaking.covariance import CovarianceCheckpoint, CovarianceColumns
from petamap.mapmaking.demodulated_map import demodulated_observations, demodulated_system
from petamap.mapmaking.disk_space import product_bytes, require_space
from petamap.mapmaking.filter_and_bin import FilterAndBin, require_few_pixels
from petamap.mapmaking.filter_products import FilterProducts
from petamap.mapmaking.map_comparisons import compare_with_references, require_references
from petamap.mapmaking.map_outputs import (
    MADE_APART,
    covariance_content,
    map_outputs,
    product_file,
    product_files,
    product_kinds,
    require_products,
)
from petamap.mapmaking.map_solver import MapSolver
from petamap.mapmaking.maps_in_memory import KeptProducts, Maps
from petamap.mapmaking.memory import gives_pointing_back
from petamap.mapmaking.product_set import checkpoint_folder, put_in_place
from petamap.mapmaking.right_hand_side import (
    RightHandSide,
    binned_map,
    right_hand_sides,
    right_hand_sides_of,
)
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.signal_faults import SignalFaults
from petamap.mapmaking.solution import Solution
from petamap.mapmaking.splits import Splits
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.table_products import write_amplitude_table, write_covariance_matrix
from petamap.mapmaking.vector_digest import vector_digest
from petamap.mapmaking.vectors import Unknowns
from petamap.sky.map_header import file_origin
from petamap.sky.pixelization import Pixelization


@overload
def run(
    config: RunConfig,
    *,
    out: str | os.PathLike[str],
    observations: Sequence[Observation] = ...,
    comm: Communicator | None = ...,
    progress: bool | Progress = ...,
    pixelization: Pixelization | None = ...,
    command: Sequence[str] = ...,
    resume: bool = ...,
    stop: StopRequest | None = ...,
) -> Summary: ...


@overload
def run(
    config: RunConfig,
    *,
    out: None = ...,
    observations: Sequence[Observation] = ...,
    comm: Communicator | None = ...,
    progress: bool | Progress = ...,
    pixelization: Pixelization | None = ...,
) -> Maps: ...


def run(
    config: RunConfig,
    *,
    out: str | os.PathLike[str] | None = None,
    observations: Sequence[Observation] = (),
    comm: Communicator | None = None,
    progress: bool | Progress = True,
    pixelization: Pixelization | None = None,
    command: Sequence[str] = (),
    resume: bool = False,
    stop: StopRequest | None = None,
) -> Summary | Maps:
    """Make the maps of a run, and write them and ``summary.json`` into a folder or return them. Collective.

    Solves ``(P^T N^-1 P) m = P^T N^-1 d`` for the map m, with N^-1 a band Toeplitz matrix for each detector
    and stationary interval (Cantalupo et al. 2010, MADmap), beside the binned map of the same data.

    Parameters
    ----------
    config : RunConfig
    out : path, optional
        Folder; created if it does not exist. Without one no file is written: the maps come back.
    observations : sequence of Observation, optional
        Observations in memory, the same on all ranks; sources of the configuration extend them.
    comm : Communicator or mpi4py.MPI.Comm, optional
        By default all processes of the launcher.
    progress : bool or Progress
        True: bars on rank 0, where stdout is a terminal or a notebook; or a listener of one's own.
    pixelization : Pixelization, optional
        Of the map, in the place of that of the configuration.
    command : sequence of str
        Words of the command line, for the summary.
    resume : bool
        Go on from the checkpoint that an interrupted run has left in `out`, with the same bits as if it had
        not been interrupted. Without a checkpoint, the run begins.
    stop : StopRequest, optional
        Asks the run to stop. The time limit of the configuration and the end of a Slurm job do so anyway.

    Returns
    -------
    Summary or Maps
        What ``summary.json`` holds: solver, samples, pixels, seconds and bytes of each phase, products; or,
        without `out`, the products themselves, on rank 0, and their summary. They have the bits of the files.

    Raises
    ------
    ConfigError, DataError, ResourceError
        On all ranks, before any work where possible.
    ConvergenceError
        With ``solver.on_stall = "error"``, if the tolerance was not reached; the products are written before.
    Interruption
        On all ranks, after a checkpoint, if the run was asked to stop.

    Examples
    --------
    >>> import petamap
    >>> config = petamap.parse_config('''
    ... [run]
    ... name = "night"
    ... [map]
    ... n_side = 16
    ... [[source]]
    ... kind = "satellite"
    ... duration = "6 h"
    ... sample_rate = "5 Hz"
    ... [[source]]
    ... kind = "noise"
    ... net = "60 uK s^0.5"
    ... ''')
    >>> petamap.run(config, out="maps").solver.converged
    True
    >>> petamap.read_map("maps/night_map.fits").names
    ('I', 'Q', 'U')
    """
    require_configuration(config)
    if out is not None:
        require_possible(out)
    comm = given_communicator(comm)
    require_same_on_ranks(comm, config, observations, pixelization)
    with shown_progress(progress, comm.rank) as shown:
        job = _Job(
            config, None if out is None else Path(out), observations, comm, shown, pixelization,
            list(command), stop or StopRequest(), resume,
        )  # fmt: skip
        summary = job.run()
    return summary if job.kept is None else Maps(summary, job.kept.products)


@dataclass
class _Job:
    config: RunConfig
    out: Path | None
    observations: Sequence[Observation]
    comm: Communicator
    progress: Progress
    pixelization: Pixelization | None
    command: list[str]
    stop: StopRequest
    resume: bool
    products: list[summary.Product] = field(default_factory=list)
    held: ExitStack = field(default_factory=ExitStack)  # the lock of the folder, of the first rank
    locked: bool = False

    def __post_init__(self) -> None:
        self.setup = RunSetup(self.config, self.comm, self.progress, self.pixelization)
        self.solver = MapSolver(self.setup)
        self.timers = self.setup.timers
        self.kept = KeptProducts(self.config.run.name) if self.out is None else None
        self.checkpoints = NoCheckpoints() if self.out is None else self._checkpoints(self.out)
        self.pace = self.checkpoints.pace(self.comm)
        self.folder = self.out or Path()

    def _checkpoints(self, out: Path) -> JobCheckpoints:
        self.stop.limit(self.config.resources.time_limit)
        return JobCheckpoints(
            checkpoint_folder(self.config, out), self.setup.run_id(),
            self.config.resources.checkpoint_interval, self.stop,
            "the same command with --resume goes on", self.resume,
        )  # fmt: skip

    def run(self) -> Summary:
        """Run the phases, and leave what was there as it was if they fail before there is something new."""
        with self.held:
            try:
                return self._run()
            except UserError as error:
                if self.locked and not self.resume and not isinstance(error, Interruption):
                    self.checkpoints.give_up()
                raise

    def _run(self) -> Summary:
        self.setup.open(partial(open_sources, given=self.observations, comm=self.comm))
        self.unit = self.setup.unit
        if not any(one.signals for one in self.setup.observations):
            self.setup.warn("no source gives a signal or noise: maps of the data are zero")
        self.splits = Splits(self.setup, self.folder, self.kept)
        self._check_products()
        self.folder = self.splits.folder = self._products_folder()
        system = self.setup.set_up(
            splits=self.splits.n_parts,
            read_once=not self.splits.n_parts,
            gives_back=gives_pointing_back(self.config),
        )
        self.splits.set_up(system)
        streams = demodulated_observations(self.setup) if self.config.products.demodulated else []
        columns = CovarianceColumns(system) if self.config.products.pixel_covariance else None
        if self.config.products.observation_matrix:
            require_few_pixels(system)
        self._check_outputs(system, 0 if columns is None else columns.n)
        rhs = self._read(reading_system(system))
        with self.timers.phase("data"):
            unknowns, binned = _projected(system, rhs.pop(0))
        return_free_memory()
        self.stop.defer()  # there is a state to save now, and then files to be written
        solution = None if self.config.solver.binned_only else self._solve(system, unknowns)
        del unknowns
        if gives_pointing_back(self.config):
            reading_system(system).projection.expand_anew()  # no pass is to come: maps take its room
        return_free_memory()
        with self.timers.phase("products"):
            comparisons = self._write_products(system, binned, solution)
        splits = self.splits.make(solution, rhs, self.checkpoints, self.pace)
        self.products += self.splits.products
        taken = self._filter(system)
        self._write_demodulated(streams)
        failed = None if columns is None else self._write_pixel_covariance(columns, solution)
        result = replace(
            self.setup.summarize(system, self.command),
            solver=None if solution is None else self.solver.record(solution, system.preconditioner),
            products=tuple(self.products),
            comparisons=tuple(comparisons),
            splits=splits,
            modes_taken=taken,
            resumed=self.checkpoints.resumed,
        )
        with agree_on_errors(self.comm):
            if self.comm.rank == 0 and self.out is not None:
                result.write(self.folder)
                if self.folder != self.out:
                    put_in_place(self.folder, self.out)
                self.checkpoints.remove()
        self._raise_unless_converged(solution, failed, splits)
        return result

    def _check_products(self) -> None:
        products = self.config.products
        if products.overwrite and self.resume:
            raise ConfigError("both to go on and to begin anew", mend="give --resume or --force, not both")
        if self.out is None and (self.resume or self.config.resources.time_limit is not None):
            raise ConfigError("a run in memory saves nothing to go on from", mend="give out, a folder")
        with agree_on_errors(self.comm):
            require_products(self.config, self.setup.observations, files=self.out is not None)
            if self.comm.rank == 0 and self.out is not None:
                self._prepare_folder(self.out)

    def _products_folder(self) -> Path:
        """Return where products are written: aside where they replace those of another run."""
        replaces = self.comm.rank == 0 and self.out is not None and self.checkpoints.replacing
        return self.checkpoints.products if self.comm.bcast(replaces) else self.folder

    def _prepare_folder(self, out: Path) -> None:
        overwrite = self.config.products.overwrite
        if not overwrite:
            self._require_no_other_products()
        check_writable(out)
        self.held.enter_context(sole_writer(out / f".{self.config.run.name}.lock"))
        self.locked = True
        earlier = (out / summary.FILE_NAME).exists()
        note = self.checkpoints.prepare(overwrite, replacing=earlier)
        if self.resume:
            self.progress.begin("checkpoint")
            self.progress.end(note)

    def _check_outputs(self, system: MapmakingSystem, n_covariance: int) -> None:
        """Raise an error of what can be known of the products before there is a map."""
        if self.out is not None:
            n_bytes = product_bytes(self.setup, system, self.splits.files(), n_covariance)
            require_space(self.comm, self.out, n_bytes)
        first = next(iter(map_outputs(system, self.config, self.setup.run_id(), self.kept)))
        require_references(self.config, first.writer, system.projection.stokes.n)

    def _require_no_other_products(self) -> None:
        """Raise an error if there are products, but for those of this run where it is to go on."""
        for path in (*self._files(), *(path for path, _ in self.splits.files())):
            if not path.exists() or (self.resume and self.checkpoints.replacing):
                continue
            if not (self.resume and file_origin(path)[0] == self.setup.run_id()):
                raise ConfigError(
                    "is there already", where=str(path), mend="choose another --out, or add --force"
                )

    def _kinds(self) -> list[str]:
        return product_kinds(self.config, self.setup.observations)

    def _file(self, kind: str, of: str = "") -> Path:
        return product_file(self.folder, self.config.run.name, of, kind)

    def _files(self) -> Iterator[Path]:
        """Return the files of all products but those of splits."""
        return product_files(self.config, self.setup.observations, self.folder)

    # --- the data

    def _read(self, system: MapmakingSystem) -> list[RightHandSide]:
        """Return the right-hand sides of the run and of its splits, and warn of faults of the signal."""
        faults = system.binned_sums.faults if system.binned_sums else SignalFaults(system.projection)
        self.progress.begin("data", float(system.projection.local.n_out), "samples")
        with self.timers.phase("data"):
            systems = [system, *self.splits.systems]
            rhs = right_hand_sides_of(systems, self.progress.advance, faults.inspect)
        self.progress.end()
        for text in faults.warnings(system.shared.pixels, binned_map(system, rhs[0])):
            self.setup.warn(text)
        return rhs

    def _solve(self, system: MapmakingSystem, rhs: Unknowns) -> Solution:
        if self.out is None:
            return self.solver.solve(system.solver(), rhs)
        self.checkpoints.data = vector_digest(system.shared, rhs)
        keep = self.config.products.pixel_covariance or bool(self.config.splits)
        checkpoint = ColumnCheckpoint(self.checkpoints, system.shared, "map", self.pace, keep=keep)
        return self.solver.solve(system.solver(), rhs, checkpoint)

    def _raise_unless_converged(
        self, solution: Solution | None, failed: ConvergenceError | None, splits: Sequence[summary.Split]
    ) -> None:
        if self.config.solver.on_stall != "error":
            return
        if failed is not None:
            raise failed
        solutions = (solution, *(split.solver for split in splits))
        stalled = next((one for one in solutions if one is not None and not one.converged), None)
        if stalled is None:
            return
        raise ConvergenceError(
            stalled.reason,
            mend="allow more iterations, a larger tolerance, or check the noise model; the maps are written",
        )

    # --- the products

    def _write_products(
        self, system: MapmakingSystem, binned: FloatArray, solution: Solution | None
    ) -> list[summary.MapComparison]:
        kinds = [kind for kind in self._kinds() if kind not in MADE_APART]
        outputs = list(map_outputs(system, self.config, self.setup.run_id(), self.kept))
        n_files = sum(one.output.has(kind) for one in outputs for kind in kinds)
        self.progress.begin("products", float(n_files), "files")
        best = binned if solution is None else solution.map.pixels
        for values in (binned, best):
            values[system.statistics.dead] = np.nan
        for kind in kinds:
            content = self._content(kind, system, binned, best)
            for one in outputs:
                if not one.output.has(kind):
                    continue
                path = self._file(kind, one.output.name)
                product = one.write(kind, path, content)
                self.progress.advance(1, path.name)
                if product is not None:
                    self.products.append(product)
        if solution is not None and "amplitudes" in self._kinds():
            path = self._file("amplitudes")
            self.products += write_amplitude_table(self.setup, system, solution, path, self.kept)
        self.progress.end(str(self.out or ""))
        writer = outputs[0].writer
        return compare_with_references(self.config, writer, best, binned, self.unit, self.setup.warn)

    def _filter(self, run: MapmakingSystem) -> tuple[ModesTaken, ...]:
        """Write the filter-and-bin map and its observation matrix, and return the modes taken, as chosen."""
        chosen = self.config.products
        if not (chosen.filtered or chosen.observation_matrix or chosen.modes_taken):
            return ()
        system = self.setup.set_up_filter()
        run.memory += system.memory
        filtering = FilterAndBin(system)
        product = FilterProducts(self.setup, filtering, self.kept)
        with self.timers.phase("filter and bin"):
            if chosen.filtered:
                self.products += product.write_map(self._file("filtered"))
            if chosen.observation_matrix:
                self.products += product.write_matrix(self._file("observation_matrix"))
        if not chosen.modes_taken:
            return ()
        with self.timers.phase("modes taken"):
            return product.modes_taken()

    def _write_demodulated(self, streams: Sequence[Observation]) -> None:
        """Write the map of demodulated streams, if there are any."""
        if streams:
            with self.timers.phase("demodulation"):
                system = demodulated_system(self.setup, streams)
                product = FilterProducts(self.setup, FilterAndBin(system), self.kept)
                self.products += product.write_demodulated(
                    self._file("demodulated"), low_pass_note(streams[0])
                )

    def _write_pixel_covariance(
        self, columns: CovarianceColumns, solution: Solution | None
    ) -> ConvergenceError | None:
        """Solve for the covariance and write it; return what it lacks. The maps are written before."""
        solver, path = self.config.solver, self._file("pixel_covariance")
        self.progress.begin("pixel covariance", float(columns.n), "columns")
        if solution is not None:
            minutes = columns.n * solution.history[-1].seconds / 60
            self.progress.advance(0, f"{columns.bytes / 1e9:.2g} GB, about {minutes:.1f} min")
        try:
            with self.timers.phase("pixel covariance"):
                found = columns.solve(
                    solver.tolerance,
                    solver.max_iterations,
                    self.progress.advance,
                    solver.stall_iterations,
                    CovarianceCheckpoint(self.checkpoints, columns.system.shared, self.pace),
                )
        except ConvergenceError as error:
            self.progress.end(error.what)
            self.setup.warn(f"no pixel covariance: {error.what}")
            return error
        lacks = [text for text in (found.missed, found.left_out) if text]
        for text in lacks:
            self.setup.warn(f"pixel covariance: {text}")
        self.products += write_covariance_matrix(self.setup, columns, found, path, self.kept)
        self.progress.end(path.name)
        return ConvergenceError(f"pixel covariance: {'; '.join(lacks)}") if lacks else None

    def _content(
        self, kind: str, system: MapmakingSystem, binned: FloatArray, best: FloatArray
    ) -> tuple[str, FloatArray, list[str], str]:
        """Return title, values, names of the columns and unit of a product."""
        statistics, stokes = system.statistics, system.projection.stokes
        match kind:
            case "hits":
                return "hits", statistics.hits[:, None].astype(np.float64), ["HITS"], ""
            case "covariance":
                return covariance_content(system, self.unit)
            case "rcond":
                return "reciprocal condition", statistics.rcond[:, None], ["RCOND"], ""
            case "binned":
                return "binned map", binned, list(stokes.value), self.unit
            case "sky":
                return "simulated sky", self._binned_sky(system), list(stokes.value), self.unit
            case "map":
                return "maximum-likelihood map", best, list(stokes.value), self.unit
            case _:
                return "binned minus maximum-likelihood", binned - best, list(stokes.value), self.unit

    def _binned_sky(self, system: MapmakingSystem) -> FloatArray:
        """Return the binned map of what sources simulate of the sky, nan where a pixel is not solved for."""
        skies = [sky_signals(one) for one in self.setup.observations]
        (rhs,) = right_hand_sides(reading_system(system), [skies])
        _, found = _projected(system, rhs)
        found[system.statistics.dead] = np.nan
        return found


def _projected(system: MapmakingSystem, rhs: RightHandSide) -> tuple[Unknowns, FloatArray]:
    """Return P^T N^-1 d of a system, from what was made of its data, and the binned map."""
    if isinstance(system, ComponentSystem):
        found, binned = component_maps(system, rhs)
        return found.unknowns, binned
    return rhs.unknowns, binned_map(system, rhs)
