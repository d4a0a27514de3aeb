"""Set-up of every map-making job: observations, the system of equations, and their part of the summary."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TypeAlias

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.host import available_bytes, cpu_model, peak_bytes
from petacomm.base.instruction_set import kernel_set
from petacomm.base.progress import Progress
from petacomm.base.timers import PhaseTimer, Timers
from petacomm.base.typing import FloatArray
from petacomm.base.weak_method import weak_method
from petacomm.mpi import Communicator
from petacomm.reduction import AUTO
from petamap import __version__
from petamap.data import run_summary as summary
from petamap.data.checks import check_observations, noise_model_warnings
from petamap.data.config import (
    CommOptions,
    MonteCarloOptions,
    ResourceOptions,
    RunConfig,
    SpectraOptions,
    to_toml,
)
from petamap.data.input_files import unchecked_note
from petamap.data.observation import Observation
from petamap.data.parts import Parts
from petamap.data.run_summary import RankStatistics
from petamap.glitches.search import GlitchSearch, glitch_warnings
from petamap.mapmaking.bands import StreamBands, stream_bands
from petamap.mapmaking.components import reading_system, set_up_components
from petamap.mapmaking.data_record import data_records
from petamap.mapmaking.data_use import DataUse, count_data_use
from petamap.mapmaking.device_pass import open_device
from petamap.mapmaking.distribution import STREAMS, TIME_MAJOR, Distribution, find_distribution
from petamap.mapmaking.filter_and_bin import white_options
from petamap.mapmaking.frequency_bands import (
    band_parts,
    band_records,
    component_records,
    mixing_factors,
    require_consistent_bands,
)
from petamap.mapmaking.intervals import free_ends
from petamap.mapmaking.noise_estimate import NoiseEstimate, NoiseEstimator
from petamap.mapmaking.noise_kernels import ModelOf, declared_model
from petamap.mapmaking.own_temperature import (
    CHANGE,
    OwnTemperature,
    needs_own_temperature,
    with_temperature,
)
from petamap.mapmaking.stream_lags import StreamLags
from petamap.mapmaking.stream_table import StreamTable
from petamap.mapmaking.system import MapmakingSystem, set_up
from petamap.mapmaking.system_options import SystemOptions
from petamap.mapmaking.target import prepare_observations, target_pixelization
from petamap.mapmaking.unmeasured_noise import describe_substitutes
from petamap.noise.band import LOSS, format_share
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes

DistributionChooser: TypeAlias = Callable[
    [RunConfig, Sequence[Observation], Pixelization, Communicator, int], Distribution
]

# module:function of a room above, imported at first use as sources are
_DISTRIBUTION_CHOOSER = "petamap.planning.distribution_choice:choose_distribution"


def run_digest(config: RunConfig) -> str:
    """Return a digest of all that the maps depend on, which excludes ranks, threads and memory."""
    what = replace(
        config, comm=CommOptions(), resources=ResourceOptions(),
        products=replace(config.products, overwrite=False), spectra=SpectraOptions(),
        montecarlo=MonteCarloOptions(),
    )  # fmt: skip
    return hashlib.sha256(f"{__version__}\n{to_toml(what)}".encode()).hexdigest()[:16]


class RunSetup:
    """Observations of a run and the system set up for them, with warnings and costs. Collective.

    Parameters
    ----------
    config : RunConfig
    comm : Communicator
        All ranks.
    progress : Progress
    pixelization : Pixelization, optional
        Of the map, in the place of that of the configuration.

    Attributes
    ----------
    comm : Communicator
        The ranks that share the system: all, or a group of them that is set before `set_up`.
    world : Communicator
        All ranks: they share nodes and memory.
    observations, pixelization, unit
        After `open`.
    parts : Parts, optional
        Frequency bands that have a map each; after `open`.
    factors : float64 (n_bands, n_components, n_stokes), optional
        How bands see components, if these are mapped; after `open`.
    distribution : Distribution
        How the data are dealt to ranks; after `set_up`.
    model_of : ModelOf
        The noise, declared or estimated; after `set_up`.
    noise_estimate : NoiseEstimate, optional
        How it was estimated, if it was; after `set_up`.
    bands : StreamBands
        Bands of its inverse; after `set_up`.
    glitches : tuple of DetectorGlitches, optional
        What was found in the streams, if it was looked for; after `open`.
    use : DataUse
        What of the data makes the map; after `set_up`.
    """

    observations: list[Observation]
    pixelization: Pixelization
    unit: str
    parts: Parts | None = None
    factors: FloatArray | None = None
    model_of: ModelOf
    bands: StreamBands = StreamBands(StreamLags.of_rows(StreamTable([]), np.zeros(0, np.int64)))
    noise_estimate: NoiseEstimate | None = None
    glitches: tuple[summary.DetectorGlitches, ...] | None = None
    distribution: Distribution = STREAMS
    use: DataUse

    def __init__(
        self,
        config: RunConfig,
        comm: Communicator,
        progress: Progress,
        pixelization: Pixelization | None = None,
    ) -> None:
        self.config = config
        self._given = pixelization
        self.comm = self.world = comm
        self.progress = progress
        self.timers = Timers(weak_method(self._sent))
        self.warnings: list[str] = []
        self.n_threads = config.resources.threads or comm.threads()
        self.device = open_device(config.resources.backend, comm)

    def _sent(self) -> tuple[int, int, int]:
        """Return the bytes and messages that this rank has sent, and the collectives that it has called."""
        return self.comm.bytes_sent, self.comm.messages_sent, self.comm.collectives_called

    def warn(self, text: str) -> None:
        """Record a warning and report it on rank 0, once."""
        if text in self.warnings:
            return
        self.warnings.append(text)
        if self.world.rank == 0:
            self.progress.warn(text)

    # --- observations and system

    def open(self, opened: Callable[[RunConfig], list[Observation]]) -> None:
        """Get the observations of the configuration from a function, and choose the pixelization."""
        with self.timers.phase("sources"):
            observations = opened(self.config)
            estimated = self.config.noise.kernel == "estimate"
            drawn_otherwise = [] if estimated else noise_model_warnings(observations)
            observations = prepare_observations(self.config, observations)
            for text in (*check_observations(observations), *drawn_otherwise):
                self.warn(text)
            self.observations = observations
            self.pixelization = self._given or target_pixelization(
                self.config.map, observations, self.world, self.n_threads
            )
            self.unit = observations[0].unit
            self._open_bands()
            if self.world.rank == 0 and (note := unchecked_note(self.config)):
                self.progress.begin("sources")
                self.progress.end(note)
        if self.config.glitches.find != "none":
            self._find_glitches()

    def _open_bands(self) -> None:
        """Find the bands of detectors, and how they see components."""
        require_consistent_bands(self.config)
        if self.config.bands and needs_own_temperature(self.observations):
            raise ConfigError(
                "leakage of the temperature of the run's own map, of which each band has one",
                mend="give the template leakage a map",
            )
        if self.config.bands:
            self.parts = band_parts(self.config.bands, self.observations)
        if self.config.components:
            self.factors = mixing_factors(self.config, self.unit)

    def _find_glitches(self) -> None:
        """Add what is found in the streams to the observations, and warn of detectors that have too much."""
        with self.timers.phase("glitches"):
            search = GlitchSearch(self.config.glitches)
            self.observations, self.glitches = search.apply(self.observations, self.comm, self.progress)
        for text in glitch_warnings(self.observations, self.glitches):
            self.warn(text)

    def set_up(
        self,
        n_rhs: int = 1,
        n_kept: int = 0,
        splits: tuple[int, ...] = (),
        read_once: bool = False,
        gives_back: bool = False,
    ) -> MapmakingSystem:
        """Return the system of the observations, and warn of pixels and samples that it leaves out.

        Memory is planned for `n_rhs` right-hand sides at once, `n_kept` vectors and `splits` beside;
        `read_once` is for data that are read for one map, `gives_back` for those that are not needed
        once there is a map (`SystemOptions`).
        """
        self._find_noise()
        if self.config.noise.kernel != "white":
            self._choose_bands()
        self.distribution = self._choose_distribution()
        if needs_own_temperature(self.observations):
            self._find_temperature()
        options = replace(
            self.own_options(), n_rhs=n_rhs, n_kept=n_kept, splits=splits, read_once=read_once,
            gives_back=gives_back,
        )  # fmt: skip
        if self.factors is None:
            system = self._system(self.observations, options)
        else:
            names = tuple(one.name for one in self.config.components)
            system = set_up_components(
                self.observations, self.pixelization, options, self.factors, names, self.model_of, self.comm,
                self.timers, self.progress,
            )  # fmt: skip
        self._look_at(system)
        return system

    def _system(self, observations: Sequence[Observation], options: SystemOptions) -> MapmakingSystem:
        return set_up(
            observations, self.pixelization, options, self.model_of, self.comm, self.timers, self.progress
        )

    def _find_noise(self) -> None:
        """Take the noise that is declared, or estimate it from the data."""
        self.model_of = declared_model
        if self.config.noise.kernel == "estimate":
            self.noise_estimate = self._estimate_noise()
            self.observations = [
                replace(one, templates=all_of_it.templates)
                for one, all_of_it in zip(self.noise_estimate.observations, self.observations, strict=True)
            ]
            self.model_of = self.noise_estimate.model_of

    def set_up_filter(self) -> MapmakingSystem:
        """Return the system of a filter-and-bin map: white noise, flagged samples left out."""
        return self._system(self.observations, white_options(self.options()))

    def set_up_filter_alone(self) -> MapmakingSystem:
        """Return the system of a filter-and-bin map where there is none of the run before it."""
        self._find_noise()
        system = self.set_up_filter()
        self._look_at(system)
        return system

    def _find_temperature(self) -> None:
        """Make maps until their temperature, which leaks into detectors, is known."""
        rounds = OwnTemperature(
            self.observations, self.pixelization, lambda some: self._system(some, self.options()),
            self.config.solver.max_iterations, self.comm, self.timers, self.progress,
        )  # fmt: skip
        self.observations, change = rounds.find()
        if change > CHANGE:
            self.warn(f"the temperature that leaks still changed by {format_share(change)} in the last round")

    def _estimate_noise(self) -> NoiseEstimate:
        """Return the noise of the data, and warn where it was still changing."""
        noise = self.config.noise

        def options_of(observations: Sequence[Observation], model_of: ModelOf) -> SystemOptions:
            with self.timers.phase("noise kernels"):
                bands = stream_bands(observations, noise.n_lag, model_of, self.comm)
            return self.options(bands)

        estimator = NoiseEstimator(
            with_temperature(self.observations, None), self.pixelization, options_of,
            self.config.solver.max_iterations, self.comm, self.timers, self.progress, noise.n_modes,
        )  # fmt: skip
        found = estimator.estimate(noise.max_rounds, noise.tolerance)
        if found.change > noise.tolerance and noise.max_rounds > 1:
            self.warn(
                f"the noise estimate still changed by {format_share(found.change)} in round {found.rounds}: "
                "allow more with noise.max_rounds, or a larger noise.tolerance"
            )
        if found.substitutes:
            self.warn(describe_substitutes(found.substitutes, self.observations))
        if not found.maps_converged:
            self.warn("a map that noise was estimated with has not converged: raise solver.max_iterations")
        return found

    def _choose_bands(self) -> None:
        """Choose the band of each stream, and warn where none is long enough."""
        chosen = self.config.noise.n_lag
        self.progress.begin("noise kernels")
        with self.timers.phase("noise kernels"):
            self.bands = stream_bands(self.observations, chosen, self.model_of, self.comm)
        self.progress.end(self.bands.describe())
        if isinstance(chosen, str) and self.bands.loss is not None and self.bands.loss > LOSS:
            self.warn(
                f"the longest band does not follow noise as slow as this ({self.bands.describe()}): "
                "a shorter noise.interval holds none as slow, and noise.n_lag may be given"
            )

    def _look_at(self, system: MapmakingSystem) -> None:
        """Count what of the data makes the map, and warn of what does not."""
        with self.timers.phase("weights"):
            self.use = count_data_use(system, self.observations, self.config.solver.rcond_min)
        for text in self.use.warnings:
            self.warn(text)

    def _choose_distribution(self) -> Distribution:
        name, n_det = self.config.comm.distribution, max(o.n_det for o in self.observations)
        if self.bands.mode_lags:
            if name not in (AUTO, TIME_MAJOR.name):
                raise ConfigError(
                    f"comm.distribution cannot be '{name}' where detectors share noise",
                    mend=f'leave it away, or set noise.common_modes = "none"; it is {TIME_MAJOR.name} then',
                )
            return TIME_MAJOR
        if name != AUTO:
            return find_distribution(name, n_det)
        if self.comm.size == 1 or n_det == 1:
            return STREAMS
        module, _, function = _DISTRIBUTION_CHOOSER.partition(":")
        choose: DistributionChooser = getattr(import_module(module), function)
        with self.timers.phase("distribution"):
            return choose(self._with_bands(), self.observations, self.pixelization, self.comm, self.n_threads)

    def _with_bands(self) -> RunConfig:
        """Return the configuration with the bands that are chosen."""
        noise, n_lag = self.config.noise, self.bands.n_lag
        noise = replace(noise, n_lag=n_lag) if n_lag else replace(noise, kernel="white")
        return replace(self.config, noise=noise)

    def own_options(self) -> SystemOptions:
        """Return the options of the system of the run's own maps, which may be binned alone."""
        options = self.options()
        if not self.config.solver.binned_only:
            return options
        return replace(options, binned_only=True, rcond_solved=options.rcond_min)

    def options(self, bands: StreamBands | None = None) -> SystemOptions:
        """Return the options that map-making itself needs, with other bands than those chosen if given."""
        config, bands = self.config, self.bands if bands is None else bands
        memory = config.resources.memory
        if memory is None and self.world is not self.comm:
            memory = available_bytes(self.world.node_size())
        return SystemOptions(
            stokes=Stokes(config.map.stokes),
            n_lag=bands.n_lag,
            stream_lags=bands.lags if bands.n_lag else None,
            mode_lags=bands.mode_lags,
            free_ends=free_ends(config.noise.ends, self.observations, bands.n_lag),
            flags=config.solver.flags,
            preconditioner=config.solver.preconditioner,
            rcond_min=config.solver.rcond_min,
            rcond_solved=config.solver.rcond_solved,
            distribution=self.distribution,
            reduction=config.comm.reduction,
            setup=config.comm.setup,
            buffer=int(config.comm.buffer),
            pointing=config.resources.pointing,
            device=self.device,
            memory=None if memory is None else int(memory),
            uniform_binning=config.products.binned_weights == "uniform",
            n_threads=self.n_threads,
            parts=self.parts,
            n_components=len(config.components),
        )

    # --- the summary

    def run_id(self) -> str:
        """Return the identifier of the configuration."""
        return run_digest(self.config)

    def totals(self, system: MapmakingSystem) -> summary.Totals:
        """Return numbers of observations, detectors, samples and pixels."""
        return summary.Totals(
            observations=len(self.observations),
            detectors=len({name for o in self.observations for name in o.detectors}),
            samples=sum(one.n_samp * one.n_det for one in self.observations),
            samples_used=system.layout.n_samp - self.use.n_flagged - self.use.n_unwritten,
            samples_flagged=self.use.n_flagged,
            samples_unwritten=self.use.n_unwritten,
            pixels=len(system.map_names) * system.projection.sky.n_pix,
            pixels_observed=self.use.n_seen,
            pixels_cut=self.use.n_cut,
            pixels_degenerate=self.use.n_cut,
        )

    def summarize(self, system: MapmakingSystem, command: Sequence[str]) -> summary.Summary:
        """Return the summary of the run so far, without solver and products. Collective on all ranks."""
        layout, estimate = system.layout, self.noise_estimate
        return summary.Summary(
            petamap=__version__,
            name=self.config.run.name,
            title=self.config.run.title,
            run_id=self.run_id(),
            command=tuple(command),
            configuration=to_toml(self.config),
            folder=str(self.config.folder.absolute()),
            data=data_records(self.config, self.observations),
            seed=self.config.run.seed,
            environment=self._environment(system),
            totals=self.totals(system),
            noise=summary.NoiseKernel(
                n_lag=layout.n_lag + 1,
                n_fft=max(layout.transform, 1),
                shortest=self.bands.shortest + 1,
                loss=self.bands.loss,
                misstated=self.bands.misstated,
                rounds=None if estimate is None else estimate.rounds,
                change=None if estimate is None or estimate.rounds == 1 else estimate.change,
            ),
            solver=None,
            phases=self._phases(),
            memory=self._memory(system),
            products=(),
            comparisons=(),
            warnings=tuple(self.warnings),
            glitches=self.glitches,
            bands=band_records(self.config, self.parts, self.observations),
            components=component_records(self.config, self.factors),
        )

    def _environment(self, system: MapmakingSystem) -> summary.Environment:
        return summary.Environment(
            python=platform.python_version(),
            numpy=np.__version__,
            mpi=self.world.mpi_library,
            cpu=cpu_model(),
            kernels=kernel_set(),
            device=self.device.name if self.device else "",
            ranks=self.world.size,
            threads=self.n_threads,
            hosts=self._n_hosts(),
            distribution=None if self.comm.size == 1 else self.distribution.description,
            reduction=None if self.comm.size == 1 else reading_system(system).shared.pixels.plan.chosen,
        )

    def _n_hosts(self) -> int:
        """Return the number of machines. Collective."""
        names = self.world.gather(platform.node())
        return int(self.world.bcast(None if names is None else len(set(names))))

    def _phases(self) -> tuple[summary.PhaseCost, ...]:
        by_rank = self.world.gather(self.timers.phases)
        found: tuple[summary.PhaseCost, ...]
        found = self.world.bcast(None if by_rank is None else self._costs(by_rank))
        return found

    def _costs(self, by_rank: Sequence[Mapping[str, PhaseTimer]]) -> tuple[summary.PhaseCost, ...]:
        """Return what each phase cost, of the phases of all ranks."""
        costs = []
        for name, phase in self.timers.phases.items():
            found = [phases[name] for phases in by_rank if name in phases]
            figures = (
                "seconds", "cpu_seconds", "communication_seconds", "bytes", "messages", "collectives",
            )  # fmt: skip
            over_ranks = {
                figure: RankStatistics.from_values([float(getattr(one, figure)) for one in found])
                for figure in figures
            }
            costs.append(summary.PhaseCost(name=name, calls=phase.calls, **over_ranks))
        return tuple(costs)

    def _memory(self, system: MapmakingSystem) -> summary.Memory:
        plan, estimate = system.memory, self.noise_estimate
        predicted = max(plan.total, estimate.predicted_bytes if estimate else 0)
        return summary.Memory(
            predicted_bytes=int(self.world.max(predicted)),
            peak_bytes=int(self.world.max(peak_bytes())),
            bytes_per_sample=self.world.max(plan.bytes_per_sample),
        )
