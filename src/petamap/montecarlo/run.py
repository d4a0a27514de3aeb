"""Monte Carlo: realizations of a run are simulated, mapped and reduced to spectra, with one system set-up."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, Interruption
from petacomm.base.files import check_writable, require_possible
from petacomm.base.progress import Progress
from petacomm.base.stop_request import StopRequest
from petacomm.base.timers import Timers
from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petacomm.base.weak_method import weak_method
from petacomm.cli.shown_progress import shown_progress
from petacomm.mpi import Communicator, agree, agree_on_errors, share_on_nodes, spread_on_nodes
from petacomm.mpi.agreement import is_agreed
from petamap.data import run_summary as summary
from petamap.data.config import RunConfig, SignalParts, open_signal_parts, require_configuration
from petamap.data.given_communicator import given_communicator
from petamap.data.observation import Observation
from petamap.data.run_summary import RankStatistics, Summary
from petamap.mapmaking.checkpoint import ColumnCheckpoint, JobCheckpoints
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.stop_rule import SolverTolerance
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.target import map_frame
from petamap.montecarlo.draws import Draws, Realization
from petamap.montecarlo.file_layout import (
    FILTER_AND_BIN,
    make_file_layout,
    montecarlo_file_name,
    run_id,
)
from petamap.montecarlo.group_plan import part_of_maps
from petamap.montecarlo.mapper import FilterMapper, MapGatherer, Mapper
from petamap.montecarlo.rank_groups import choose_rank_groups, kept_vectors
from petamap.montecarlo.requirements import (
    checked_spectra_choices,
    require_consistent_options,
    require_known_temperature,
    require_one_map,
)
from petamap.montecarlo.spectra_writer import SpectraWriter
from petamap.montecarlo.store import DONE, FAILED, TO_DO, Store
from petamap.montecarlo.store_opening import existing_store, open_store, require_no_other_run
from petamap.montecarlo.weights import load_mask, pixel_weights
from petamap.sky.healpix import Healpix
from petamap.spectra.pseudo_cl import PseudoClEstimator

# First of the realization numbers, not available to users, from which deflation vectors are found.
_RESERVED = 2**33
_MAX_WARNINGS = 5  # of single failed realizations


def run_montecarlo(
    config: RunConfig,
    *,
    out: str | os.PathLike[str],
    comm: Communicator | None = None,
    progress: bool | Progress = True,
    command: Sequence[str] = (),
    stop: StopRequest | None = None,
) -> Summary:
    """Run a Monte Carlo, and write its spectra and ``summary.json`` to `out`. Collective on `comm`.

    The bytes of the file ``NAME_mc.h5`` do not depend on ranks, groups, batches and interruptions. An
    existing file is continued, unless ``products.overwrite`` is set.

    Parameters
    ----------
    config : RunConfig
        Run configuration with the sections ``montecarlo`` and ``spectra``.
    out : path
        Folder; created if it does not exist.
    comm : Communicator or mpi4py.MPI.Comm, optional
        By default all processes of the launcher.
    progress : bool or Progress
        True: bars on rank 0, where stdout is a terminal or a notebook; or a listener of one's own.
    command : sequence of str
        Words of the command line, for the summary.
    stop : StopRequest, optional
        Asks the Monte Carlo to stop. The time limit of the configuration and the end of a Slurm job do so
        anyway.

    Returns
    -------
    Summary

    Raises
    ------
    ConfigError, DataError, ResourceError
        On all ranks, before any work if possible. A failed realization raises no error: it is recorded, and
        the others continue.
    Interruption
        On all ranks, after a checkpoint of the batches in progress, if it was asked to stop.

    Examples
    --------
    >>> from pathlib import Path
    >>> import petamap
    >>> text = '''
    ... [run]
    ... name = "tiny"
    ... [map]
    ... n_side = 2
    ... ordering = "ring"
    ... [noise]
    ... n_lag = 8
    ... [spectra]
    ... width = 2
    ... [[source]]
    ... kind = "satellite"
    ... duration = "6 h"
    ... sample_rate = "0.1 Hz"
    ... spin_period = "10 min"
    ... [[source]]
    ... kind = "noise"
    ... net = "60 uK s^0.5"
    ... '''
    >>> settings = ["montecarlo.parts=noise", "montecarlo.realizations=2"]
    >>> config = petamap.parse_config(text, Path("tiny.toml"), settings)
    >>> summary = petamap.run_montecarlo(config, out="mc")
    >>> summary.montecarlo.done
    2
    """
    require_configuration(config)
    require_one_map(config)
    require_possible(out)
    comm = given_communicator(comm)
    with shown_progress(progress, comm.rank) as shown:
        return _MonteCarlo(config, Path(out), comm, shown, stop or StopRequest()).run(command)


class _MonteCarlo:
    def __init__(
        self, config: RunConfig, out: Path, comm: Communicator, progress: Progress, stop: StopRequest
    ) -> None:
        self.config = config
        self.options = config.montecarlo
        self.comm = comm
        self.progress = progress
        self.path = out / montecarlo_file_name(config)
        self.stage = RunSetup(config, comm, progress)
        self.stop = stop
        stop.limit(config.resources.time_limit)
        stop.mend = "realizations that are done stay: the same command goes on"
        self.checkpoints = JobCheckpoints(
            out / f"{config.run.name}_mc.checkpoint", run_id(config), config.resources.checkpoint_interval,
            stop, "the same command goes on",
        )  # fmt: skip
        first = self.options.first
        self.numbers: Int64Array = np.arange(first, first + self.options.realizations)

    def run(self, command: Sequence[str]) -> Summary:
        """Run the phases in order."""
        self._open()
        self.rank_groups = choose_rank_groups(self.config, self.stage)
        self.stage.comm = (
            self.comm if self.rank_groups.groups == 1 else self.comm.split(self.rank_groups.group)
        )
        system = self._set_up()
        self.draws.model_of = self.stage.model_of
        memory = self.stage.options().memory
        self.rank_groups = self.rank_groups.with_batches(self.config, system, memory, self.comm)
        self._prepare(system)
        self._open_file()
        begin = time.perf_counter()
        made = self._make()
        self.comm.barrier()
        seconds = time.perf_counter() - begin
        return self._finish(system, command, made, seconds)

    # --- before the first realization

    def _open(self) -> None:
        """Open the sources, and check the configuration before any work is done."""
        parts: list[SignalParts] = []

        def open_parts(config: RunConfig) -> list[Observation]:
            observations, signal_parts = open_signal_parts(config, comm=self.stage.world)
            require_known_temperature(observations)
            parts.append(signal_parts)
            return observations

        self.stage.open(open_parts)
        self.draws = Draws(self.options, parts[0], self.stage.observations, self.config.run.seed)
        require_consistent_options(self.options, self.stage.observations)
        self.fixed = self.options.fixed if any(self.draws.fixed) else "leave"
        self.pixelization = Healpix(self.config.map.n_side or 1)
        self.choices = checked_spectra_choices(self.config, self.draws)
        self.mask: FloatArray | None = None
        with agree_on_errors(self.comm):
            if self.comm.rank == 0:
                self._check_file()
                self.mask = load_mask(
                    self.choices, self.pixelization, map_frame(self.config.map, self.stage.observations)
                )

    def _check_file(self) -> None:
        force = self.config.products.overwrite
        old = existing_store(self.path, run_id(self.config), self.numbers, force)
        if old is not None:
            old.close()
        if not force:
            require_no_other_run(self.path)
        check_writable(self.path.parent)
        self.checkpoints.prepare(force)

    @property
    def _filters(self) -> bool:
        """Whether maps are filtered and binned."""
        return self.options.estimator == FILTER_AND_BIN

    def _set_up(self) -> MapmakingSystem:
        if self._filters:
            return self.stage.set_up_filter_alone()
        return self.stage.set_up(len(self.draws.solved), kept_vectors(self.config))

    def _prepare(self, system: MapmakingSystem) -> None:
        """Set up everything that realizations have in common."""
        kind = FilterMapper if self._filters else Mapper
        report = weak_method(self._report_batch)
        self.mapper = kind(system, self.config, self.stage.timers, report, self.stop)
        distributed = self.rank_groups.distributed
        self.gatherer = MapGatherer(system, distributed, needs_all=bool(self.choices.pure))
        mask = self._mask_of_group()
        self.weights = pixel_weights(system, self.gatherer, self.draws, self.choices, mask)
        self.mask = None
        share = {} if distributed else {"share": partial(share_on_nodes, system.comm)}
        self.estimator = PseudoClEstimator(
            self.pixelization, self.weights, system.projection.stokes.n, self.choices.keep_dipole,
            self.choices.pure, self.choices.iterations, rings=self.gatherer.rings,
            n_threads=self.stage.n_threads if distributed else 1, places=self.gatherer.places, **share,
        )  # fmt: skip

    def _mask_of_group(self) -> FloatArray | None:
        """Return the mask on the first rank of each group."""
        if self.choices.mask is None or self.rank_groups.groups == 1:
            return self.mask
        mask = spread_on_nodes(self.comm, self.mask)
        return mask if self.stage.comm.rank == 0 else None

    def _open_file(self) -> None:
        """Create the file or open the existing one, and find the realizations to do."""
        weights, pixels = self.weights, None
        del self.weights  # what it has of them is the estimator's
        if self.rank_groups.group == 0:
            pixels = self.gatherer.file_pixels()
            if self.gatherer.distributed:
                weights = self.gatherer.to_disk(weights, self.path.parent)
        layout = make_file_layout(
            self.config,
            self.stage,
            self.draws,
            self.estimator,
            weights,
            pixels,
            self.choices,
            self.numbers,
            self.fixed,
        )
        damage = ""
        with agree_on_errors(self.comm):
            if self.comm.rank == 0:
                store, damage = open_store(self.path, layout, self.config.products.overwrite)
                store.close()
                if self.config.products.overwrite:  # what was told of the file that stood there before
                    for name in (summary.FILE_NAME, "report.html"):
                        (self.path.parent / name).unlink(missing_ok=True)
        if damage := self.comm.bcast(damage):
            self.stage.warn(f"{self.path} was damaged, and what was is made anew: {damage}")
        with agree_on_errors(self.comm):
            self.store = Store(self.path)
        status = self.comm.bcast(self.store.status)
        self.to_do: Int64Array = self.numbers[status == TO_DO]

    # --- realizations

    def _make(self) -> int:
        """Compute all realizations to do, and return their number."""
        if len(self.to_do):
            self._train_deflation()
        self.progress.begin("realizations", float(len(self.to_do)), "realizations")
        self.n_before = len(self.numbers) - len(self.to_do)
        self.reported, self.finished, self.n_batch, self.n_written, self.n_made = 0.0, 0, 0, 0, 0
        self.reporting = threading.Lock()  # spectra are made by several threads
        # as predicted, then as in the batch before
        self.part_of_maps = part_of_maps(self.config, self.mapper.system.layout.n_samp)
        self.writer = SpectraWriter(
            self.stage, self.stop, self.draws, self.gatherer, self.estimator, self.store, self._map_fixed(),
            added=self.fixed == "add", keep_maps=self.options.maps, report=weak_method(self._report_spectra),
        )  # fmt: skip
        self.stop.defer()
        self.pace = self.checkpoints.pace(self.stage.comm)
        interrupted: Interruption | None = None
        try:
            for batch in self.rank_groups.batches(self.to_do):
                self.n_batch = len(batch)
                self._make_batch([Realization(self.draws, int(number)) for number in batch])
                self.n_made += len(batch)
                self._report_finished()
        except Interruption as error:
            if self.stage.comm.size > 1 and not is_agreed(error):
                raise  # by a signal to this rank amid communication: other ranks of the group wait
            interrupted = error
        # Groups that have not been asked to stop make what they have to first.
        agree(self.comm, interrupted)
        return len(self.to_do)

    def _report_batch(self, part: float, note: str) -> None:
        """Report the progress of the maps of a batch, assuming the same progress of all groups."""
        self._advance_batch(part * self.part_of_maps, note)

    def _report_spectra(self, part: float, note: str) -> None:
        """Report the progress of the spectra of those that are written at once, for all of the batch."""
        at_once = min(self.n_batch - self.n_written, self.stage.comm.size * self.stage.n_threads)
        done = (self.n_written + part * at_once) / self.n_batch
        self._advance_batch(self.part_of_maps + (1 - self.part_of_maps) * done, note)

    def _advance_batch(self, part: float, note: str) -> None:
        if self.comm.rank == 0:
            self._advance(self.finished + part * self.n_batch * self.rank_groups.groups, note)

    def _report_finished(self) -> None:
        """Report the number of realizations finished by all groups."""
        if self.comm.rank == 0:
            self.finished = int(np.count_nonzero(self.store.status)) - self.n_before
            self._advance(float(self.finished))

    def _advance(self, done: float, note: str = "") -> None:
        with self.reporting:
            done = max(self.reported, min(done, float(len(self.to_do))))
            self.progress.advance(done - self.reported, note)
            self.reported = done

    def _train_deflation(self) -> None:
        if self.options.vectors and not self.config.solver.binned_only:
            self.progress.begin("vectors")
            solved = self.draws.solved
            numbers = range(_RESERVED, _RESERVED + self.options.vectors_from)
            with self.stage.timers.phase("vectors"):
                training = [Realization(self.draws, number) for number in numbers]
                datasets = [realization.signals(part) for realization in training for part in solved]
                at_once = self.rank_groups.n_training * len(solved)
                self.mapper.train_deflation(datasets, self.options.vectors, at_once)
            space = self.mapper.space
            assert space is not None, "set by train_deflation"
            self.progress.end(
                f"{space.n_vectors} found from maps of {space.undeflated_iterations:.1f} iterations"
            )

    def _map_fixed(self) -> FloatArray | None:
        """Return the map of the fixed signals, float64 (n_stokes, n), read if it exists. Collective.

        It has the pixels of the gatherer's maps: once on each node, or of the rank's rings.
        """
        if self.fixed == "leave":
            return None
        if self.comm.bcast(self.store.computed_status) == DONE:
            if self.gatherer.distributed:
                return self.store.read_pixels("fixed/map", self.gatherer.pixels)
            return self.store.read("fixed/map")
        with self.stage.timers.phase("fixed signals"):
            (mapped,) = self.mapper.maps([self.draws.fixed], Timers())
            if mapped.error:
                raise ConfigError(f"the fixed signals have no map: {mapped.error}")
            if self.gatherer.distributed:
                return self._keep_fixed_part(self.gatherer.to_rings(mapped.values))
            values = spread_on_nodes(self.stage.comm, self.gatherer.gather(0, mapped.values))
            with agree_on_errors(self.stage.comm):
                if self.comm.rank == 0:
                    pseudo = self.estimator.pseudo(values).values
                    self.store.write_once({"fixed/map": values, "fixed/pseudo": pseudo})
        return values

    def _keep_fixed_part(self, part: FloatArray) -> FloatArray:
        """Write the fixed signals of which each rank has its rings, and return the part. Collective."""
        pseudo = self.estimator.pseudo(part).values
        if self.rank_groups.group:
            return part
        whole = self.gatherer.to_disk(part, self.path.parent)
        with agree_on_errors(self.stage.comm):
            if self.comm.rank == 0:
                self.store.write_once({"fixed/map": whole, "fixed/pseudo": pseudo})
        return part

    def _make_batch(self, batch: Sequence[Realization]) -> None:
        """Map realizations and write their rows, each by one of the ranks."""
        solved, comm = self.draws.solved, self.stage.comm
        numbers = [realization.number for realization in batch]
        self.pace.begin()
        self.pace.restart_interval()
        self.pace.look()
        if self.pace.stops:
            agree(comm, self.checkpoints.interruption(self.pace.why))
        name, begin = f"batch-{numbers[0]}", time.perf_counter()
        datasets = self.mapper.maps(
            [realization.signals(part) for realization in batch for part in solved],
            checkpoint=ColumnCheckpoint(
                self.checkpoints, self.mapper.system.shared, name, self.pace, numbers
            ),
        )
        for realization in batch:
            realization.forget_signals()
        at_once, mapped = comm.size * self.stage.n_threads, time.perf_counter()
        with self.stage.timers.phase("spectra"):
            for first in range(0, len(batch), at_once):
                self.n_written = first
                numbered = range(first, min(first + at_once, len(batch)))
                self.writer.write(
                    [(batch[k], datasets[k * len(solved) : (k + 1) * len(solved)]) for k in numbered]
                )
            with agree_on_errors(comm):
                if comm.rank == 0:
                    self.checkpoints.discard(name)
        self.part_of_maps = (mapped - begin) / (time.perf_counter() - begin)

    # --- after the last

    def _finish(self, system: MapmakingSystem, command: Sequence[str], made: int, seconds: float) -> Summary:
        status = self.comm.bcast(self.store.status)
        self._warn(status)
        montecarlo = self._montecarlo_summary(status, made, seconds)
        result = self.stage.summarize(system, command)
        most = max(result.memory.predicted_bytes, self.rank_groups.memory)  # with spectra, and batches
        memory = replace(result.memory, predicted_bytes=most)
        result = replace(result, montecarlo=montecarlo, memory=memory)
        with agree_on_errors(self.comm):
            if self.comm.rank == 0:
                result.write(self.path.parent)
                self.checkpoints.remove()
        self.progress.end(str(self.path))
        self.store.close()
        return result

    def _warn(self, status: AnyArray) -> None:
        failed = np.flatnonzero(status == FAILED)
        for row in failed[:_MAX_WARNINGS]:
            text = bytes(self.store.read_row("error", int(row)).item()).decode(errors="replace")
            self.stage.warn(f"realization {self.numbers[row]} failed: {text}")
        if len(failed) > _MAX_WARNINGS:
            self.stage.warn(f"{len(failed)} of {len(status)} realizations failed")

    def _montecarlo_summary(self, status: AnyArray, made: int, seconds: float) -> summary.MonteCarlo:
        done = status == DONE
        tolerance = SolverTolerance.parse(self.config.solver.tolerance)
        compared = "error_bound" if tolerance.of_noise else "residual"
        iterations, found = (self.store.read(name)[done] for name in ("iterations", compared))
        over = int(np.count_nonzero(found > 2 * tolerance.value))
        if over:
            self.stage.warn(
                f"{over} maps are not converged: more solver.max_iterations, or a larger tolerance"
            )
        statistics = RankStatistics.from_values(iterations.ravel()) if iterations.size else None
        space = self.mapper.space
        return summary.MonteCarlo(
            file=self.path.name,
            parts=self.writer.parts,
            solved=self.draws.solved,
            first=int(self.numbers[0]),
            realizations=len(self.numbers),
            done=int(np.count_nonzero(done)),
            failed=int(np.count_nonzero(status == FAILED)),
            not_converged=over,
            iterations=statistics,
            vectors=0 if space is None else space.n_vectors,
            alone=space.undeflated_iterations if space is not None and space.n_vectors else None,
            vectors_pay=self._vectors_pay(statistics),
            groups=self.rank_groups.groups,
            batch=self.rank_groups.batch,
            why=self.rank_groups.why,
            made=made,
            seconds=seconds,
        )

    def _vectors_pay(self, iterations: RankStatistics | None) -> int | None:
        if not self.n_made or iterations is None or self.mapper.space is None:
            return None
        each = self.stage.timers.phases["iterations"].seconds / self.n_made
        return self.mapper.realizations_to_pay(iterations.mean, each, self.rank_groups.groups)
