"""The main job: from a run configuration to maps on disk."""

from __future__ import annotations

import hashlib
import math
import os
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from petamap import __version__
from petamap.base import summary
from petamap.base.errors import ConfigError, ConvergenceError, PetamapError
from petamap.base.files import replacing
from petamap.base.machine import cpu_model, peak_bytes
from petamap.base.progress import Progress, Silent
from petamap.base.summary import Spread, Summary
from petamap.base.threads import available_threads
from petamap.base.timers import Timers
from petamap.base.typing import FloatArray
from petamap.comm.mpi import Communicator, agree, world
from petamap.data.checks import check_observations, warn_of_flags
from petamap.data.config import CommOptions, ResourceOptions, RunConfig, open_sources, to_toml
from petamap.data.observation import Observation
from petamap.mapmaking.binning import RightHandSide, binned_map, right_hand_side
from petamap.mapmaking.estimate import estimated_models
from petamap.mapmaking.intervals import free_ends, split_intervals
from petamap.mapmaking.kernels import ModelOf, declared_model
from petamap.mapmaking.normal import NormalOperator
from petamap.mapmaking.pcg import ConjugateGradients, Solution, Step
from petamap.mapmaking.products import MapWriter, covariance_columns, covariance_names
from petamap.mapmaking.system import Choices, System, set_up
from petamap.mapmaking.target import in_frame, target_pixelization
from petamap.mapmaking.vectors import Unknowns
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes


def run(
    config: RunConfig,
    *,
    out: str | os.PathLike[str],
    comm: Communicator | None = None,
    progress: Progress | None = None,
    command: Sequence[str] = (),
) -> Summary:
    """Make the maps of a run, write them and ``summary.json`` into `out`, and return the summary. Collective.

    Solves ``(P^T N^-1 P) m = P^T N^-1 d`` for the map m, with N^-1 a band Toeplitz matrix for each detector
    and stationary interval (Cantalupo et al. 2010, MADmap), beside the binned map of the same data.

    Parameters
    ----------
    config : RunConfig
    out : path
        Folder; made if it is not there.
    comm : Communicator, optional
        By default all processes of the launcher.
    progress : Progress, optional
        Told what happens, on rank 0.
    command : sequence of str
        The words of the command line, for the summary.

    Raises
    ------
    ConfigError, DataError, ResourceError
        On all ranks, before any work where possible.
    ConvergenceError
        With ``solver.on_stall = "error"``, if the tolerance was not reached; the products are written before.
    """
    job = _Job(config, Path(out), comm or world(), progress or Silent(), list(command))
    return job.run()


class _Job:
    def __init__(
        self, config: RunConfig, out: Path, comm: Communicator, progress: Progress, command: list[str]
    ) -> None:
        self.config = config
        self.out = out
        self.comm = comm
        self.progress = progress
        self.command = command
        self.timers = Timers(lambda: comm.bytes_sent)
        self.warnings: list[str] = []
        self.products: list[summary.Product] = []
        self.n_threads = config.resources.threads or max(1, available_threads() // comm.node_size())

    def run(self) -> Summary:
        """Run the phases in order."""
        with self.timers.phase("sources"):
            observations = self._open()
            pixelization = target_pixelization(self.config.map, observations)
        self.unit = observations[0].unit
        self._check_folder()
        system = self._set_up(observations, pixelization)
        self._warn_of_pixels(observations, system)
        rhs = self._read(system)
        binned = binned_map(system.statistics.binned_inverse, rhs.binned, self.n_threads)
        solution = None if self.config.solver.binned_only else self._solve(system, rhs)
        with self.timers.phase("products"):
            comparisons = self._write_products(system, binned, solution)
        result = self._summary(observations, system, solution, comparisons)
        if self.comm.rank == 0:
            result.write(self.out)
        self._judge(solution)
        return result

    # --- before the data

    def _open(self) -> list[Observation]:
        observations = open_sources(self.config)
        if self.config.map.pixelization != "numbered":
            observations = in_frame(observations, self.config.map.frame)
        if self.config.noise.interval is not None:
            observations = [split_intervals(o, self.config.noise.interval) for o in observations]
        for text in check_observations(observations):
            self._warn(text)
        return observations

    def _choices(self, observations: list[Observation]) -> Choices:
        config = self.config
        return Choices(
            stokes=Stokes(config.map.stokes),
            n_lag=0 if config.noise.kernel == "white" else config.noise.n_lag,
            free_ends=free_ends(config.noise.ends, observations, config.noise.n_lag),
            flags=config.solver.flags,
            preconditioner=config.solver.preconditioner,
            rcond_min=config.solver.rcond_min,
            reduction=config.comm.reduction,
            setup=config.comm.setup,
            buffer=int(config.comm.buffer),
            pointing=config.resources.pointing,
            memory=None if config.resources.memory is None else int(config.resources.memory),
            uniform_binning=config.products.binned_weights == "uniform",
            n_threads=self.n_threads,
        )

    def _check_folder(self) -> None:
        error: PetamapError | None = None
        existing = [path for kind in self._kinds() if (path := self._file(kind)).exists()]
        if self.comm.rank == 0 and existing and not self.config.products.overwrite:
            error = ConfigError(
                "is there already", where=str(existing[0]), mend="choose another --out, or add --force"
            )
        elif self.comm.rank == 0:
            error = _unwritable(self.out)
        agree(self.comm, error)

    def _kinds(self) -> list[str]:
        chosen = self.config.products
        kinds = [kind for kind in ("hits", "covariance", "rcond", "binned") if getattr(chosen, kind)]
        if not self.config.solver.binned_only:
            kinds += ["map"] * chosen.maps + ["residual"] * chosen.residual
        return kinds

    def _file(self, kind: str) -> Path:
        return self.out / f"{self.config.run.name}_{kind}.fits"

    def _set_up(self, observations: list[Observation], pixelization: Pixelization) -> System:
        choices, common = self._choices(observations), (self.comm, self.timers, self.progress)
        model_of: ModelOf = declared_model
        if self.config.noise.kernel == "estimate":
            model_of = estimated_models(observations, pixelization, choices, *common)
        return set_up(observations, pixelization, choices, model_of, *common)

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        if self.comm.rank == 0:
            self.progress.warn(text)

    def _warn_of_pixels(self, observations: list[Observation], system: System) -> None:
        statistics = system.statistics
        self.n_seen = self.comm.sum(int(np.count_nonzero(statistics.hits)))
        self.n_dead = self.comm.sum(int(np.count_nonzero(statistics.dead)))
        self.n_flagged = self._flagged(observations, system)
        if self.n_seen == self.n_dead:
            self._warn("no pixel can be solved for: the maps are empty")
        elif self.n_dead:
            self._warn(
                f"{self.n_dead} of {self.n_seen} pixels are cut: their reciprocal condition is below "
                f"{self.config.solver.rcond_min:g}; their samples are treated as flagged"
            )
        if self.n_flagged == system.layout.n_samp:
            self._warn("all samples are flagged or outside the map")

    def _flagged(self, observations: list[Observation], system: System) -> int:
        """Return the number of samples that are not used, and warn of detectors that give none."""
        flagged = sum((Counter(part) for part in self.comm.allgather(system.gap_samples)), Counter())
        n_good = [[0] * observation.n_det for observation in observations]
        for number, stream in enumerate(system.layout.streams):
            taken = stream.stop - stream.start - 2 * stream.margin
            n_good[stream.observation][stream.detector] += taken - flagged[number]
        for text in warn_of_flags(observations, n_good):
            self._warn(text)
        return sum(flagged.values())

    # --- the data

    def _read(self, system: System) -> RightHandSide:
        self.progress.begin("data", float(system.projection.share.n_out), "samples")
        with self.timers.phase("data"):
            rhs = right_hand_side(
                system.projection, system.noise, system.shared, system.statistics.binned_weights,
                system.statistics.hits_max, self.progress.advance,
            )  # fmt: skip
        self.progress.end()
        return rhs

    def _solve(self, system: System, rhs: RightHandSide) -> Solution:
        solver = self.config.solver
        operator = NormalOperator(system.projection, system.noise, system.shared, system.statistics.hits_max)
        gradients = ConjugateGradients(operator, system.preconditioner)
        # digits of the residual are won at a steadier pace than iterations are used up
        digits = -math.log10(solver.tolerance) if 0 < solver.tolerance < 1 else None
        self.progress.begin("iterations", digits, "digits")
        won = 0.0

        def tell(step: Step) -> None:
            nonlocal won
            found = min(-math.log10(max(step.relative_residual, 1e-300)), digits or math.inf)
            note = f"iteration {step.iteration}, residual {step.relative_residual:.2e}"
            self.progress.advance(max(found - won, 0.0), note)
            won = max(found, won)

        with self.timers.phase("iterations"):
            solution = gradients.solve(
                Unknowns(rhs.pixels, rhs.gaps), solver.tolerance, solver.max_iterations, tell
            )
        self.progress.end(solution.reason)
        if not solution.converged:
            self._warn(f"not converged: {solution.reason}")
        return solution

    def _judge(self, solution: Solution | None) -> None:
        if solution is None or solution.converged or self.config.solver.on_stall != "error":
            return
        raise ConvergenceError(
            solution.reason,
            mend="allow more iterations, a larger tolerance, or check the noise model; the maps are written",
        )

    # --- the products

    def _write_products(
        self, system: System, binned: FloatArray, solution: Solution | None
    ) -> list[summary.Comparison]:
        kinds = self._kinds()
        self.progress.begin("products", float(len(kinds)), "files")
        writer = MapWriter(system, self.out, self.config.map.frame, self._run_id(), self.config.map.ordering)
        best = binned if solution is None else solution.map.pixels
        for values in (binned, best):
            values[system.statistics.dead] = np.nan
        for kind in kinds:
            product = writer.write(kind, self._file(kind), *self._content(kind, system, binned, best))
            self.progress.advance(1, self._file(kind).name)
            if product is not None:
                self.products.append(product)
        self.progress.end(str(self.out))
        return self._compare(writer, best, binned)

    def _content(
        self, kind: str, system: System, binned: FloatArray, best: FloatArray
    ) -> tuple[str, FloatArray, list[str], str]:
        """Return title, values, names of the columns and unit of a product: made when it is written."""
        statistics, stokes = system.statistics, system.projection.stokes
        match kind:
            case "hits":
                return "hits", statistics.hits[:, None].astype(np.float64), ["HITS"], ""
            case "covariance":
                names = covariance_names(stokes)
                return "covariance", covariance_columns(system), names, f"{self.unit}^2"
            case "rcond":
                return "reciprocal condition", statistics.rcond[:, None], ["RCOND"], ""
            case "binned":
                return "binned map", binned, list(stokes.value), self.unit
            case "map":
                return "maximum-likelihood map", best, list(stokes.value), self.unit
            case _:
                return "binned minus maximum-likelihood", binned - best, list(stokes.value), self.unit

    def _compare(self, writer: MapWriter, best: FloatArray, binned: FloatArray) -> list[summary.Comparison]:
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
                    summary.Comparison(
                        name=name, reference=path.name, max_abs=found[0], rms=found[1], limit=limit,
                        unit=self.unit,
                    )
                )  # fmt: skip
        return comparisons

    def _run_id(self) -> str:
        """Return a name for all that the maps depend on; ranks, threads and memory are not among it."""
        what = replace(self.config, comm=CommOptions(), resources=ResourceOptions())
        return hashlib.sha256(f"{__version__}\n{to_toml(what)}".encode()).hexdigest()[:16]

    # --- the summary

    def _summary(
        self,
        observations: list[Observation],
        system: System,
        solution: Solution | None,
        comparisons: list[summary.Comparison],
    ) -> Summary:
        config, layout = self.config, system.layout
        noise = summary.NoiseKernel(n_lag=layout.n_lag + 1, n_fft=max(layout.transform, 1))
        return Summary(
            petamap=__version__,
            name=config.run.name,
            title=config.run.title,
            run_id=self._run_id(),
            command=tuple(self.command),
            configuration=to_toml(config),
            seed=config.run.seed,
            environment=self._environment(system),
            totals=summary.Totals(
                observations=len(observations),
                detectors=len({name for o in observations for name in o.detectors}),
                samples=sum(o.n_samp * o.n_det for o in observations),
                samples_used=layout.n_samp - self.n_flagged,
                samples_flagged=self.n_flagged,
                pixels_observed=self.n_seen,
                pixels_cut=self.n_dead,
                pixels_degenerate=self.n_dead,
            ),
            noise=noise,
            solver=None if solution is None else _solver_record(solution, config.solver.tolerance),
            phases=self._phases(),
            memory=self._memory(system),
            products=tuple(self.products),
            comparisons=tuple(comparisons),
            warnings=tuple(self.warnings),
        )

    def _environment(self, system: System) -> summary.Environment:
        return summary.Environment(
            python=platform.python_version(),
            numpy=np.__version__,
            mpi=self.comm.mpi_library,
            cpu=cpu_model(),
            ranks=self.comm.size,
            threads=self.n_threads,
            hosts=len(set(self.comm.allgather(platform.node()))),
            reduction=None if self.comm.size == 1 else system.shared.pixels.plan.chosen,
        )

    def _phases(self) -> tuple[summary.PhaseCost, ...]:
        by_rank = self.comm.allgather(self.timers.phases)
        return tuple(
            summary.PhaseCost(
                name=name,
                seconds=Spread.of([phases[name].seconds for phases in by_rank]),
                calls=phase.calls,
                bytes=Spread.of([float(phases[name].bytes) for phases in by_rank]),
            )
            for name, phase in self.timers.phases.items()
        )

    def _memory(self, system: System) -> summary.Memory:
        plan = system.memory
        return summary.Memory(
            predicted_bytes=int(self.comm.max(plan.total)),
            peak_bytes=int(self.comm.max(peak_bytes())),
            bytes_per_sample=self.comm.max(plan.bytes_per_sample),
        )


def _unwritable(folder: Path) -> PetamapError | None:
    """Return the error that writing into a folder meets: better now than after hours of work."""
    probe = folder / ".writable"
    try:
        with replacing(probe):
            pass
        probe.unlink()
    except PetamapError as error:
        return error
    return None


def _solver_record(solution: Solution, tolerance: float) -> summary.Solver:
    return summary.Solver(
        converged=solution.converged,
        reason=f"{solution.reason}; computed anew: {solution.true_residual:.2g}",
        iterations=solution.iterations,
        tolerance=tolerance,
        history=tuple(
            summary.Step(iteration=s.iteration, relative_residual=s.relative_residual, seconds=s.seconds)
            for s in solution.history
        ),
    )
