"""The main job: from a run configuration to maps on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, ConvergenceError, Interruption, UserError
from petacomm.base.files import remove_temporaries
from petacomm.base.host import return_free_memory
from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.stop_request import StopRequest
from petacomm.base.typing import FloatArray
from petacomm.mpi import Communicator, agree_on_errors, world
from petamap.data import run_summary as summary
from petamap.data.config import RunConfig, open_sources
from petamap.data.demodulation import low_pass_note
from petamap.data.formats.amplitudes import write_amplitudes
from petamap.data.observation import Observation, sky_signals
from petamap.data.run_summary import ModesTaken, Summary
from petamap.mapmaking.amplitude_table import gather_amplitudes
from petamap.mapmaking.checkpoint import ColumnCheckpoint, JobCheckpoints
from petamap.mapmaking.components import ComponentSystem, component_maps, reading_system
from petamap.mapmaking.covariance import CovarianceCheckpoint, CovarianceColumns
from petamap.mapmaking.demodulated_map import demodulated_observations, demodulated_system
from petamap.mapmaking.filter_and_bin import FilterAndBin, require_few_pixels
from petamap.mapmaking.filter_products import FilterProducts
from petamap.mapmaking.map_outputs import covariance_content, map_outputs, output_names, product_file
from petamap.mapmaking.map_solver import MapSolver
from petamap.mapmaking.products import MapWriter
from petamap.mapmaking.right_hand_side import (
    RightHandSide,
    binned_map,
    right_hand_sides,
    right_hand_sides_of,
)
from petamap.mapmaking.setup import RunSetup, check_writable, run_digest
from petamap.mapmaking.signal_faults import SignalFaults
from petamap.mapmaking.solution import Solution
from petamap.mapmaking.splits import Splits
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.vector_digest import vector_digest
from petamap.sky.covariance_file import PixelCovariance, write_pixel_covariance
from petamap.sky.map_header import file_run_id

# Products that are not made of the maps of the run.
_APART = "amplitudes", "demodulated", "filtered", "observation_matrix", "pixel_covariance"


def run(
    config: RunConfig,
    *,
    out: str | os.PathLike[str],
    observations: Sequence[Observation] = (),
    comm: Communicator | None = None,
    progress: Progress | None = None,
    command: Sequence[str] = (),
    resume: bool = False,
    stop: StopRequest | None = None,
) -> Summary:
    """Make the maps of a run, write them and ``summary.json`` into `out`, and return the summary. Collective.

    Solves ``(P^T N^-1 P) m = P^T N^-1 d`` for the map m, with N^-1 a band Toeplitz matrix for each detector
    and stationary interval (Cantalupo et al. 2010, MADmap), beside the binned map of the same data.

    Parameters
    ----------
    config : RunConfig
    out : path
        Folder; created if it does not exist.
    observations : sequence of Observation, optional
        Observations in memory, which the sources of the configuration extend; the same on all ranks.
    comm : Communicator, optional
        By default all processes of the launcher.
    progress : Progress, optional
        Listener on rank 0.
    command : sequence of str
        Words of the command line, for the summary.
    resume : bool
        Go on from the checkpoint that an interrupted run has left in `out`, with the same bits as if it had
        not been interrupted. Without a checkpoint, the run begins.
    stop : StopRequest, optional
        Asks the run to stop. The time limit of the configuration and the end of a Slurm job do so anyway.

    Returns
    -------
    Summary
        What ``summary.json`` holds: solver, samples, pixels, seconds and bytes of each phase, products.

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
    >>> summary = petamap.run(config, out="maps")
    >>> summary.solver.converged
    True
    >>> petamap.read_map("maps/night_map.fits").names
    ('I', 'Q', 'U')
    """
    job = _Job(
        config, Path(out), observations, comm or world(), progress or SilentProgress(), list(command),
        stop or StopRequest(), resume,
    )  # fmt: skip
    return job.run()


def finished_run(config: RunConfig, out: Path) -> Summary | None:
    """Return the summary of a folder if it is that of this run, finished; else None."""
    if not (out / summary.FILE_NAME).exists() or checkpoint_folder(config, out).exists():
        return None
    found = Summary.read(out)
    there = all((out / product.file).exists() for product in found.products)
    return found if found.run_id == run_digest(config) and there else None


def checkpoint_folder(config: RunConfig, out: Path) -> Path:
    """Return the folder that a run in progress or interrupted may have."""
    return out / f"{config.run.name}.checkpoint"


@dataclass
class _Job:
    config: RunConfig
    out: Path
    observations: Sequence[Observation]
    comm: Communicator
    progress: Progress
    command: list[str]
    stop: StopRequest
    resume: bool
    products: list[summary.Product] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.setup = RunSetup(self.config, self.comm, self.progress)
        self.solver = MapSolver(self.setup)
        self.timers = self.setup.timers
        self.stop.limit(self.config.resources.time_limit)
        self.checkpoints = JobCheckpoints(
            checkpoint_folder(self.config, self.out), self.setup.run_id(),
            self.config.resources.checkpoint_interval, self.stop,
            "the same command with --resume goes on", self.resume,
        )  # fmt: skip
        self.pace = self.checkpoints.pace(self.comm)

    def run(self) -> Summary:
        """Run the phases, and leave what was there as it was if they fail before there is something new."""
        try:
            return self._run()
        except UserError as error:
            if self.comm.rank == 0 and not self.resume and not isinstance(error, Interruption):
                self.checkpoints.give_up()
            raise

    def _run(self) -> Summary:
        self.setup.open(partial(open_sources, given=self.observations))
        self.unit = self.setup.unit
        self.splits = Splits(self.setup, self.out)
        self._check_folder()
        system = self.setup.set_up(splits=self.splits.n_parts, read_once=not self.splits.n_parts)
        self.splits.set_up(system)
        streams = demodulated_observations(self.setup) if self.config.products.demodulated else []
        columns = CovarianceColumns(system) if self.config.products.pixel_covariance else None
        if self.config.products.observation_matrix:
            require_few_pixels(system)
        rhs, *split_rhs = self._read(reading_system(system))
        rhs, binned = _projected(system, rhs)
        self.stop.defer()  # there is a state to save now, and then files to be written
        solution = None if self.config.solver.binned_only else self._solve(system, rhs)
        return_free_memory()
        with self.timers.phase("products"):
            comparisons = self._write_products(system, binned, solution)
        splits = self.splits.make(solution, split_rhs, self.checkpoints, self.pace)
        self.products += self.splits.products
        taken = self._filter(system)
        self._write_demodulated(streams)
        failed = None if columns is None else self._write_pixel_covariance(columns, solution)
        result = replace(
            self.setup.summarize(system, self.command),
            solver=None
            if solution is None
            else self.solver.record(solution, system.preconditioner.description),
            products=tuple(self.products),
            comparisons=tuple(comparisons),
            splits=splits,
            modes_taken=taken,
            resumed=self.checkpoints.resumed,
        )
        with agree_on_errors(self.comm):
            if self.comm.rank == 0:
                result.write(self.out)
                self.checkpoints.remove()
        self._raise_unless_converged(solution, failed, splits)
        return result

    def _check_folder(self) -> None:
        overwrite = self.config.products.overwrite
        if overwrite and self.resume:
            raise ConfigError("both to go on and to begin anew", mend="give --resume or --force, not both")
        with agree_on_errors(self.comm):
            if self.config.products.sky and not any(map(sky_signals, self.setup.observations)):
                raise ConfigError(
                    "no source simulates a sky", mend="leave products.sky away, or add e.g. a sky-map"
                )
            if self.comm.rank == 0 and not overwrite:
                self._require_no_other_products()
            if self.config.products.pixel_covariance and self.config.solver.binned_only:
                raise ConfigError(
                    "products.pixel_covariance is that of the maximum-likelihood map",
                    mend="leave solver.binned_only away",
                )
            if self.comm.rank == 0:
                check_writable(self.out)
                self._prepare_checkpoints()

    def _prepare_checkpoints(self) -> None:
        earlier = (self.out / summary.FILE_NAME).exists()
        note = self.checkpoints.prepare(self.config.products.overwrite, replacing=earlier)
        if self.resume:
            self.progress.begin("checkpoint")
            self.progress.end(note)

    def _require_no_other_products(self) -> None:
        """Raise an error if there are products, but for those of this run where it is to go on."""
        for path in (*self._files(), *self.splits.files()):
            if self.resume:
                remove_temporaries(path)
            if not path.exists() or (self.resume and self.checkpoints.replacing):
                continue
            if not (self.resume and file_run_id(path) == self.setup.run_id()):
                raise ConfigError(
                    "is there already", where=str(path), mend="choose another --out, or add --force"
                )

    def _kinds(self) -> list[str]:
        chosen = self.config.products
        kinds = [kind for kind in ("hits", "covariance", "rcond", "binned", "sky") if getattr(chosen, kind)]
        if not self.config.solver.binned_only:
            kinds += ["map"] * chosen.maps + ["residual"] * chosen.residual
            if any(observation.templates for observation in self.setup.observations):
                kinds += ["amplitudes"] * chosen.amplitudes
        others = ("demodulated", "filtered", "observation_matrix", "pixel_covariance")
        return kinds + [kind for kind in others if getattr(chosen, kind)]

    def _file(self, kind: str, of: str = "") -> Path:
        return product_file(self.out, self.config.run.name, of, kind)

    def _files(self) -> Iterator[Path]:
        """Yield the files of all products but those of splits."""
        for kind in self._kinds():
            if kind in _APART:
                yield self._file(kind)
            else:
                yield from (self._file(kind, o.name) for o in output_names(self.config) if o.has(kind))

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

    def _solve(self, system: MapmakingSystem, rhs: RightHandSide) -> Solution:
        self.checkpoints.data = vector_digest(system.shared, rhs.unknowns)
        keep = self.config.products.pixel_covariance or bool(self.config.splits)
        checkpoint = ColumnCheckpoint(self.checkpoints, system.shared, "map", self.pace, keep=keep)
        return self.solver.solve(system.solver(), rhs.unknowns, checkpoint)

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
        kinds = [kind for kind in self._kinds() if kind not in _APART]
        outputs = list(map_outputs(system, self.config, self.setup.run_id()))
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
            self._write_amplitudes(system, solution)
        self.progress.end(str(self.out))
        return self._compare(outputs[0].writer, best, binned)

    def _write_amplitudes(self, system: MapmakingSystem, solution: Solution) -> None:
        table, path = gather_amplitudes(system, solution), self._file("amplitudes")
        with agree_on_errors(self.comm):
            if table is not None:
                write_amplitudes(path, table, self.unit, self.setup.run_id())
                digest = summary.pixels_sha256(table.values)
                self.products.append(
                    summary.Product(
                        name="amplitudes of templates", file=path.name, kind="amplitudes", unit=self.unit,
                        stokes="", sha256=digest,
                    )
                )  # fmt: skip

    def _filter(self, run: MapmakingSystem) -> tuple[ModesTaken, ...]:
        """Write the filter-and-bin map and its observation matrix, and return the modes taken, as chosen."""
        chosen = self.config.products
        if not (chosen.filtered or chosen.observation_matrix or chosen.modes_taken):
            return ()
        system = self.setup.set_up_filter()
        run.memory += system.memory
        filtering = FilterAndBin(system)
        product = FilterProducts(self.setup, filtering)
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
                product = FilterProducts(self.setup, FilterAndBin(system))
                self.products += product.write_demodulated(
                    self._file("demodulated"), low_pass_note(streams[0])
                )

    def _write_pixel_covariance(
        self, columns: CovarianceColumns, solution: Solution | None
    ) -> ConvergenceError | None:
        """Solve for the covariance and write it; return what it lacks. The maps are written before."""
        solver, comm, path = self.config.solver, self.comm, self._file("pixel_covariance")
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
        with agree_on_errors(comm):
            if found.values is not None:
                unit, run_id = f"{self.unit}^2", self.setup.run_id()
                write_pixel_covariance(
                    path,
                    PixelCovariance(
                        found.values, found.pixels, columns.n_side, self.config.map.stokes, unit, run_id
                    ),
                )
                digest = summary.pixels_sha256(found.values)
                self.products.append(
                    summary.Product(
                        name="pixel covariance", file=path.name, kind="pixel_covariance", unit=unit,
                        stokes="", sha256=digest,
                    )
                )  # fmt: skip
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

    def _compare(
        self, writer: MapWriter, best: FloatArray, binned: FloatArray
    ) -> list[summary.MapComparison]:
        chosen = self.config.products
        wanted = (
            ("map", chosen.compare, chosen.compare_limit, best),
            ("binned map", chosen.compare_binned, chosen.compare_binned_limit, binned),
        )
        comparisons = []
        for name, file, limit, values in wanted:
            if file is None:
                continue
            path = self.config.folder / file
            if (found := writer.compare(path, values)) is not None:
                comparisons.append(
                    summary.MapComparison(
                        name=name, reference=path.name, max_abs=found[0], rms=found[1], limit=limit,
                        unit=self.unit,
                    )
                )  # fmt: skip
        return comparisons


def _projected(system: MapmakingSystem, rhs: RightHandSide) -> tuple[RightHandSide, FloatArray]:
    """Return the right-hand side of a system from that of what reads its data, and the binned map."""
    if isinstance(system, ComponentSystem):
        return component_maps(system, rhs)
    return rhs, binned_map(system, rhs)
