"""Plan of a run on a machine: predicted pixels, messages, memory and reduction times of its ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from petacomm.base.arguments import require_integer
from petacomm.base.display import Displayed
from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress
from petacomm.base.threads import available_threads
from petacomm.cli.shown_progress import shown_progress
from petacomm.costs.forecast import Forecast
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.partner_estimates import RankSample
from petacomm.network import predict_seconds
from petacomm.reduction import AUTO
from petacomm.topology import Machine, load_machine
from petamap.data.config import RunConfig, require_configuration
from petamap.mapmaking.bands import StreamBands
from petamap.mapmaking.distribution import STREAMS, TIME_MAJOR, Distribution, possible_distributions
from petamap.planning.amplitude_sizes import AmplitudeForecast
from petamap.planning.auxiliary_systems import AuxiliaryForecast, unbounded_parts
from petamap.planning.choice_limits import chooses_distribution
from petamap.planning.cut_pixels import UnusedSamples
from petamap.planning.distribution_choice import gathered_bytes
from petamap.planning.map_scan import MAX_SAMPLES, MapScan, RankedMaps, scan_maps, scan_splits
from petamap.planning.memory_forecast import MemoryForecast
from petamap.planning.preconditioner_forecast import PreconditionerForecast, forecast_preconditioner
from petamap.planning.rank_samples import HeldSamples, SampleDistribution, distribute_samples
from petamap.planning.rank_sizes import SizeForecast, reduction_options
from petamap.planning.rank_traffic import RankSizes
from petamap.planning.run_prediction import RunPrediction, with_model
from petamap.planning.sample_forecast import forecast_from_sample
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import SkySample, count_regions, full_sky_sample
from petamap.planning.thinned_scan import ThinnedScan, Thinning
from petamap.simulation.sky_costs import SkyCosts, sky_costs
from petamap.sky.stokes import Stokes

_LEAST_SAMPLE = 1e-9  # part of the sky: a pixel of the finest
# Default number of regions of the sky sample, and of scans of more samples, of which a plan would take long.
_N_REGIONS, _FEWER_REGIONS, _LONG_SCAN = 6000, 2000, 1e10
# Of more time samples, the scan is thinned out.
MOST_SCANNED = 1e11


@dataclass(frozen=True, repr=False)
class RunPlan(Displayed):
    """Predictions of a run on a machine, made by `plan`.

    Attributes
    ----------
    machine : Machine
    cores : int
        Number of cores of the run.
    n_samp, n_pix : int
        Number of samples of all detectors; number of pixels of the full map.
    n_stokes : int
        Number of values per pixel.
    fraction : float
        Fraction of the sky in the sample.
    bands : StreamBands
        Bands of the inverse noise of the streams.
    preconditioner : PreconditionerForecast
    predictions : tuple of RunPrediction
    max_iterations : int
        Of the solver; none for binned maps alone.
    thinning : Thinning, optional
        What was looked at of a scan that is too large to be looked at.
    noise_rounds : int
        Rounds at most in which the noise is estimated before, which no time includes; 0 where it is declared.
    unused : UnusedSamples
        Pixels that will be cut and samples that make no map, as far as the scan tells; of a scan that is
        thinned out, as given.
    unbounded : tuple of str
        Parts of the run that send more than the bounds of its phases say.
    skies : tuple of SkyCosts
        What skies take that signals see: each node holds them.
    n_maps : int
        Maps, as those of frequency bands, whose pixels are told apart.
    rank_limit : float
        Bytes that a rank may take, of `resources.memory`; 0 where they are not given.
    """

    machine: Machine
    cores: int
    n_samp: int
    n_pix: int
    n_stokes: int
    fraction: float
    bands: StreamBands
    preconditioner: PreconditionerForecast
    predictions: tuple[RunPrediction, ...] = field(repr=False)
    max_iterations: int
    thinning: Thinning | None = None
    noise_rounds: int = 0
    unused: UnusedSamples = field(default_factory=UnusedSamples)
    unbounded: tuple[str, ...] = ()
    skies: tuple[SkyCosts, ...] = ()
    n_maps: int = 1
    rank_limit: float = 0.0

    def _facts(self) -> dict[str, object]:
        best = self.best
        return {
            "machine": self.machine.name,
            "cores": self.cores,
            "n_samp": f"{self.n_samp:,}",
            "n_pix": f"{self.n_pix:,}",
            "fastest": f"{best.best} with data {best.distribution.name}",
            "threads_of_a_rank": best.threads,
            "seconds_of_a_reduction": f"{best.seconds[best.best]:.3g}",
            "memory_of_a_rank": f"{best.memory / 1e9:.3g} GB",
            "predictions": len(self.predictions),
        }

    @property
    def best(self) -> RunPrediction:
        """Prediction with the fastest reduction, of those that the memory of nodes has room for, if any."""
        fitting = [one for one in self.predictions if self.fits(one)] or self.predictions
        return min(fitting, key=lambda prediction: prediction.seconds[prediction.best])

    def fits(self, prediction: RunPrediction) -> bool:
        """Return whether ranks, and their node, have room, as far as memory is known.

        Parameters
        ----------
        prediction : RunPrediction

        Returns
        -------
        bool
        """
        of_ranks = 0 < self.rank_limit < prediction.memory
        return not (of_ranks or 0 < self.machine.node_memory < prediction.node_memory)

    @property
    def least_memory(self) -> RunPrediction:
        """Prediction with the least memory of a node."""
        return min(self.predictions, key=lambda one: one.node_memory)


def plan(
    config: RunConfig,
    cores: int,
    machine: Machine | str,
    *,
    sample: float | None = None,
    seed: int = 1,
    n_threads: int | None = None,
    progress: bool | Progress = True,
    distributions: Sequence[Distribution] | None = None,
    threads: Sequence[int] | None = None,
    n_rhs: int = 1,
    flagged: float = 0.0,
    most_scanned: float = MOST_SCANNED,
) -> RunPlan:
    """Return predictions of a run on a machine, without running it.

    Parameters
    ----------
    config : RunConfig
        The run; its pointing is expanded, no signal is read or simulated.
    cores : int
        Number of cores of the machine that are used, one or several per rank.
    machine : Machine or str
        Or its name or file, as for `petacomm.load_machine`.
    sample : float, optional
        Fraction of the sky that is sampled, 1 for all of it; by default 6000 regions, or all for a small run.
        Without it, simulated scans of more than `most_scanned` samples on HEALPix pixels are thinned out.
    seed : int
        Seed of the sample.
    n_threads : int, optional
        Number of threads of the computation.
    progress : bool or Progress
        True: bars, where stdout is a terminal or a notebook; or a listener of one's own.
    distributions : sequence of Distribution, optional
        Distributions of the data that are compared; by default all `possible_distributions`.
    threads : sequence of int, optional
        Cores of a rank that are compared; by default one, those of a socket and those of a node.
    n_rhs : int
        Data sets that are mapped at once, as realizations of a Monte Carlo are.
    flagged : float
        Part of the samples that is flagged, or in pixels that are cut, of scans that are thinned out: of
        others it is foreseen.
    most_scanned : float
        Samples beyond which a scan is thinned out, which is quicker and less exact.

    Returns
    -------
    RunPlan
        Memory, volumes and seconds by distribution, algorithm and ranks per node.

    Raises
    ------
    ConfigError
        For a wrong configuration, cores that the machine lacks, or more ranks than blocks of data.
    DataError
        If a file of the sources is wrong.

    Examples
    --------
    >>> import petacomm, petamap
    >>> config = petamap.parse_config('''
    ... [run]
    ... name = "night"
    ... [map]
    ... n_side = 16
    ... [noise]
    ... n_lag = 64
    ... [[source]]
    ... kind = "satellite"
    ... duration = "6 h"
    ... sample_rate = "5 Hz"
    ... [[source]]
    ... kind = "noise"
    ... net = "60 uK s^0.5"
    ... ''')
    >>> run_plan = petamap.plan(config, 8, petacomm.load_machine("perlmutter"))
    >>> len(run_plan.predictions) > 0
    True
    """
    require_configuration(config)
    if isinstance(machine, str):
        machine = load_machine(machine)
    if not isinstance(machine, Machine):
        mend = 'give its name, as "perlmutter", or petacomm.load_machine(...)'
        raise ConfigError(f"{machine!r:.50} is no machine", mend=mend)
    available = machine.nodes * machine.cores
    if not 1 <= cores <= available:
        raise ConfigError(
            f"{cores} ranks on {machine.name}, which has {available} cores", mend=f"take 1 to {available}"
        )
    if sample is not None and not _LEAST_SAMPLE <= sample <= 1:
        raise ConfigError(f"a sample of {sample:g} of the sky", mend="give a part of it, 1 for all")
    if n_threads is not None:
        require_integer(n_threads, "n_threads", 0, 2**16)
    require_integer(seed, "seed", 0)
    require_integer(n_rhs, "n_rhs", 1, 2**16)
    if not 0 <= flagged <= 1:
        raise ConfigError(f"a part of {flagged:g} of the samples is flagged", mend="give 0 to 1")
    for distribution in distributions or ():
        if not isinstance(distribution, Distribution):
            raise ConfigError(f"{distribution!r:.50} is no distribution", mend="see possible_distributions")
    for one in threads or ():
        require_integer(one, "threads", 1, 2**16)
    n_threads = n_threads or available_threads()
    choices = threads or sorted({1, min(machine.cores_per_socket, cores), min(machine.cores, cores)})
    with shown_progress(progress, 0) as shown:
        planner = _Planner(
            config, cores, machine, sample, seed, n_threads, choices, shown, n_rhs, flagged, most_scanned
        )
        return planner.plan(distributions)


@dataclass
class _Planner:
    """State shared by the predictions of a plan."""

    config: RunConfig
    cores: int
    machine: Machine
    fraction: float | None
    seed: int
    n_threads: int
    threads: Sequence[int]
    progress: Progress
    n_rhs: int
    flagged: float
    most_scanned: float

    def __post_init__(self) -> None:
        self.run = ScannedRun.open(self.config)
        self.stokes = Stokes(self.config.map.stokes)
        self.preconditioner = forecast_preconditioner(self.config, self.run.observations, self.run.bands)
        self.unused = UnusedSamples(flagged=self.flagged)
        self.thins = self.fraction is None and self._is_large and ThinnedScan.possible(self.config, self.run)
        if self.run.layout.n_blocks < self.cores:
            raise ConfigError(
                f"{self.run.layout.n_blocks} blocks of data for {self.cores} ranks",
                mend="take fewer ranks, or a smaller noise.n_lag",
            )

    def plan(self, distributions: Sequence[Distribution] | None) -> RunPlan:
        """Return the plan: compute the pixel coverage once, then the predictions of each distribution."""
        chosen = list(distributions or self._possible(self.thins))
        predictions, sample, thinning = (
            self._thinned(chosen) if self.thins else (*self._scanned(chosen), None)
        )
        solver = self.config.solver
        if self.preconditioner.knots:
            predictions = with_model(predictions, self.preconditioner.knots)
        return RunPlan(
            self.machine, self.cores, self.run.layout.n_samp, self.run.pixelization.n_pix, self.stokes.n,
            sample.fraction, self.run.bands, self.preconditioner, tuple(predictions),
            0 if solver.binned_only else solver.max_iterations, thinning,
            self.config.noise.max_rounds if self.config.noise.kernel == "estimate" else 0, self.unused,
            self._unbounded(), self.skies,
            self.run.n_maps, float(self.config.resources.memory or 0),
        )  # fmt: skip

    @cached_property
    def memory(self) -> MemoryForecast:
        """Memory of ranks, when it is known what is cut."""
        return MemoryForecast(
            self.config, self.run, self.preconditioner, self.n_rhs, self.unused.samples, self.skies
        )

    @cached_property
    def skies(self) -> tuple[SkyCosts, ...]:
        """What skies take that signals see."""
        return sky_costs(self.run.observations)

    @cached_property
    def _auxiliary(self) -> AuxiliaryForecast:
        """What is made beside the maps."""
        return AuxiliaryForecast(self.config, self.run)

    @cached_property
    def _templates(self) -> AmplitudeForecast:
        """Amplitudes of templates."""
        return AmplitudeForecast(self.run)

    @property
    def _amplitudes(self) -> AmplitudeForecast | None:
        """Those of templates, where they are solved for and the scan is not thinned out."""
        return None if self.thins or self.config.solver.binned_only else self._templates

    @cached_property
    def _gathered_bytes(self) -> Callable[[int], float]:
        """Bytes by which so many ranks choose the distribution; none are counted of a thinned-out scan."""
        how = self.n_threads, self.progress
        return lru_cache(
            lambda size: 0.0 if self.thins else gathered_bytes(self.run, self.config, size, *how)
        )

    def _unbounded(self) -> tuple[str, ...]:
        chooses = self.config.comm.distribution == AUTO and chooses_distribution(self.run.layout, self.cores)
        told = ("the choice of the distribution",) if self.thins and chooses else ()
        return (*told, *unbounded_parts(self.config, self.run.observations, thinned=self.thins))

    @property
    def _is_large(self) -> bool:
        """Whether there are too many samples to be scanned, of all of the sky or of a part of it."""
        few_regions = count_regions(self.run.pixelization) <= _N_REGIONS
        return self.run.layout.n_samp > (MAX_SAMPLES if few_regions else self.most_scanned)

    def _possible(self, thin: bool) -> list[Distribution]:
        """Return the distributions of the run; of a thinned scan, those that deal ranks many detectors."""
        if self.run.bands.mode_lags:  # detectors that share noise are filtered together
            return [TIME_MAJOR]
        possible = possible_distributions(max(one.n_det for one in self.run.observations))
        return [STREAMS, TIME_MAJOR] if thin else possible

    def _scanned(self, distributions: Sequence[Distribution]) -> tuple[list[RunPrediction], SkySample]:
        layout, sample = self.run.layout, self._sky_sample()
        held = [distribute_samples(layout, one.groups, self.cores) for one in distributions]
        whole, how = self._auxiliary.whole_streams(self.cores), (self.n_threads, self.progress)
        scan = scan_maps(self.config, self.run, sample, [*held, whole] if whole else held, *how)
        splits = scan_splits(self.config, self.run, sample, held, *how)
        self.unused = scan.unused
        auxiliary = self._look_at_auxiliary(distributions, scan, whole)
        predictions: list[RunPrediction] = []
        for distribution, samples, others in zip(distributions, held, auxiliary, strict=True):
            own, *of_splits = (self._ranked(one, samples) for one in (scan, *splits))
            for threads in self._threads():
                of_ranks = own.held(threads)
                one = self._prediction(distribution, of_ranks, threads, own.occupancy, own.ranks, sample)
                sizes = [self._other_sizes(one, maps, self._amplitudes, split=True) for maps in of_splits]
                more = (maps and self._other_sizes(one, maps, self._templates) for maps in others)
                made = self._auxiliary.of(*more)
                predictions.append(
                    replace(one, sizes=replace(one.sizes, splits=tuple(sizes), auxiliary=made))
                )
        return predictions, sample

    def _ranked(self, scan: MapScan, samples: SampleDistribution) -> RankedMaps:
        occupancy, per_node = scan.coverage.occupancy(samples), min(self.machine.cores, self.cores)
        how = per_node, self.seed, self.n_threads, self.progress
        return RankedMaps(scan, samples, occupancy, scan.rank_sample(samples, occupancy, *how))

    def _look_at_auxiliary(
        self, distributions: Sequence[Distribution], scan: MapScan, whole: SampleDistribution | None
    ) -> list[tuple[RankedMaps | None, RankedMaps | None]]:
        """Return what ranks have of whole streams and of a filter, in each distribution, if they are made."""
        of_whole = self._ranked(scan, whole) if whole else None
        run = self._auxiliary.filtered_run
        samples = self._auxiliary.filtered_samples(distributions, self.cores)
        if samples is None:
            return [(of_whole, None)] * len(distributions)
        if run is not self.run:
            scan = scan_maps(self.config, run, scan.sample, samples, self.n_threads, self.progress)
        return [(of_whole, self._ranked(scan, one)) for one in samples]

    def _other_sizes(
        self, run: RunPrediction, maps: RankedMaps, amplitudes: AmplitudeForecast | None, split: bool = False
    ) -> RankSizes:
        """Return the sizes of other maps than those of a run, made on the ranks of a prediction."""
        scan, merged = maps.scan, maps.occupancy.merge_ranks(run.threads)
        forecast, seconds = self._forecast(run.threads, maps.occupancy, maps.ranks, scan.sample)
        sizes = SizeForecast(self.config, scan.run, 0.0, amplitudes, split=split)
        of_ranks = maps.held(run.threads)
        return sizes.of(run.distribution, forecast, merged, of_ranks, scan.unused.samples, seconds)

    def _thinned(
        self, distributions: Sequence[Distribution]
    ) -> tuple[list[RunPrediction], SkySample, Thinning]:
        self.run = replace(self.run, parts=None)  # detectors that are looked at stand for others
        scan = ThinnedScan(self.config, self.run, self.cores, distributions)
        sample, occupancies = scan.occupancies(self.n_threads, self.progress, self.seed)
        self.progress.begin(
            "messages and memory", float(len(distributions) * len(self._threads())), "choices"
        )
        per_node = min(self.machine.cores, self.cores)
        predictions: list[RunPrediction] = []
        for distribution, samples, occupancy in zip(distributions, scan.samples, occupancies, strict=True):
            ranks = scan.rank_sample(occupancy, per_node, len(sample.regions))
            for threads in self._threads():
                of_ranks = scan.held(samples, threads)
                predictions.append(
                    self._prediction(distribution, of_ranks, threads, occupancy, ranks, sample)
                )
                self.progress.advance(1.0)
        self.progress.end()
        return predictions, sample, scan.thinning(sample)

    def _threads(self) -> list[int]:
        return [threads for threads in self.threads if threads <= self.cores]

    def _sky_sample(self) -> SkySample:
        full_sky = full_sky_sample(self.run.pixelization)
        fraction = self.fraction
        if fraction is None:
            small = self.run.layout.n_samp <= MAX_SAMPLES
            number = _N_REGIONS if self.run.layout.n_samp <= _LONG_SCAN else _FEWER_REGIONS
            fraction = 1.0 if small else min(1.0, number / len(full_sky.regions))
        if fraction == 1:
            return full_sky
        return self.run.sky_sample(fraction, self.seed)

    def _prediction(
        self,
        distribution: Distribution,
        held: Sequence[HeldSamples],
        threads: int,
        occupancy: Occupancy,
        rank_sample: RankSample | None,
        sky: SkySample,
    ) -> RunPrediction:
        forecast, seconds = self._forecast(threads, occupancy, rank_sample, sky)
        memory = self.memory.of(forecast, threads, held)
        without_skies = replace(self.memory, skies=()).of(forecast, threads, held) if self.skies else memory
        gathered = self._gathered_bytes(forecast.size)
        sizes = SizeForecast(self.config, self.run, gathered, self._amplitudes).of(
            distribution, forecast, occupancy.merge_ranks(threads), held, self.unused.samples, seconds
        )
        return RunPrediction(distribution, threads, forecast, seconds, *memory, sizes, without_skies)

    def _forecast(
        self, threads: int, occupancy: Occupancy, rank_sample: RankSample | None, sky: SkySample
    ) -> tuple[Forecast, dict[str, float]]:
        """Return the forecast of maps on ranks of so many cores, and the time of a reduction by algorithm."""
        per_node = max(1, self.machine.cores // threads)
        forecast = forecast_from_sample(
            occupancy.merge_ranks(threads),
            rank_sample and rank_sample.merge_ranks(threads),
            sky,
            per_node,
            reduction_options(self.config),
        )
        seconds = {
            name: float(predict_seconds(load, self.machine, per_node, self.stokes.n, 8))
            for name, load in forecast.loads.items()
        }
        return forecast, seconds
