"""Predictions of the distributions of a run's data, of one look at its scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress
from petacomm.costs.forecast import Forecast
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.partner_estimates import RankSample
from petacomm.network import predict_seconds
from petacomm.topology import Machine
from petamap.data.config import RunConfig
from petamap.mapmaking.distribution import STREAMS, TIME_MAJOR, Distribution, possible_distributions
from petamap.planning.amplitude_sizes import AmplitudeForecast
from petamap.planning.auxiliary_systems import AuxiliaryForecast, unbounded_parts
from petamap.planning.component_sizes import component_sizes
from petamap.planning.cut_pixels import UnusedSamples
from petamap.planning.detectors_alike import unpaired_samples
from petamap.planning.distribution_choice import gathered_bytes
from petamap.planning.map_scan import MAX_SAMPLES, MapScan, RankedMaps, scan_maps, scan_splits
from petamap.planning.memory_forecast import MemoryForecast
from petamap.planning.pixel_visits import visits_a_sample
from petamap.planning.preconditioner_forecast import forecast_preconditioner
from petamap.planning.rank_samples import (
    HeldSamples,
    SampleDistribution,
    distribute_samples,
    distribute_streams,
)
from petamap.planning.rank_sizes import SizeForecast, reduction_options
from petamap.planning.rank_traffic import ModelPixels, RankSizes
from petamap.planning.run_plan import RunPlan
from petamap.planning.run_prediction import RunPrediction, with_model
from petamap.planning.sample_forecast import forecast_from_sample
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import SkySample, count_regions, full_sky_sample
from petamap.planning.thinned_scan import ThinnedScan, Thinning
from petamap.simulation.sky_costs import SkyCosts, sky_costs
from petamap.sky.stokes import Stokes

# Default number of regions of the sky sample, and of scans of more samples, of which a plan would take long.
_N_REGIONS, _FEWER_REGIONS, _LONG_SCAN = 6000, 2000, 1e10


@dataclass
class Planner:
    """State shared by the predictions of a plan.

    Attributes
    ----------
    config, cores, machine, seed, n_rhs, flagged, most_scanned
        As in `petamap.planning.plan.plan`.
    fraction : float, optional
        Of the sky, that is looked at.
    n_threads : int
        Of the computation.
    threads : sequence of int
        Cores of a rank that are compared.
    progress : Progress
    opened, run : ScannedRun
        As it is opened, and as it is looked at: thinned-out scans do not tell bands apart.
    """

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
        self.run = self.opened = ScannedRun.open(self.config)
        self.stokes = Stokes(self.config.map.stokes)
        self.unused = UnusedSamples(flagged=self.flagged)
        self.thins = self.fraction is None and self._is_large and ThinnedScan.possible(self.config, self.run)
        run, visits = self.run, 1.0 if self.thins else visits_a_sample(self.run)
        self.preconditioner = forecast_preconditioner(self.config, run.observations, run.bands, visits)
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
            unbounded_parts(self.config, self.run.observations, thinned=self.thins), self.skies,
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

    @cached_property
    def _stream_templates(self) -> AmplitudeForecast:
        """Those of demodulated streams."""
        return AmplitudeForecast(self._auxiliary.demodulated_run)

    def _templates_of(self, maps: RankedMaps) -> AmplitudeForecast:
        same = maps.scan.run.observations is self.run.observations
        return self._templates if same else self._stream_templates

    @property
    def _amplitudes(self) -> AmplitudeForecast | None:
        """Those of templates, where they are solved for and the scan is not thinned out."""
        return None if self.thins or self.config.solver.binned_only else self._templates

    @cached_property
    def _gathered_bytes(self) -> Callable[[int], float]:
        """Bytes by which so many ranks choose the distribution; of a thinned-out scan, at most."""
        how = self.n_threads, self.progress
        if self.run.bands.mode_lags:  # of noise that detectors share there is no choice
            return lambda size: 0.0
        return lru_cache(
            lambda size: gathered_bytes(self.opened, self.config, size, *how, look=not self.thins)
        )

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
        modelled = distribute_streams(layout, self.cores) if self.preconditioner.knots else None
        looked_at = [*held, *(one for one in (whole, modelled) if one)]
        scan = scan_maps(self.config, self.run, sample, looked_at, *how)
        splits = scan_splits(self.config, self.run, sample, looked_at, *how)
        self.unused = scan.unused
        auxiliary = self._look_at_auxiliary(distributions, scan, whole)
        for threads in self._threads():  # found here, as it tells of its own progress
            self._gathered_bytes(-(-self.cores // threads))
        predictions: list[RunPrediction] = []
        for distribution, samples, others in zip(distributions, held, auxiliary, strict=True):
            own, *of_splits = (self._ranked(one, samples, modelled) for one in (scan, *splits))
            self.progress.begin("messages and memory", float(len(self._threads())), "choices")
            for threads in self._threads():
                of_ranks = own.held(threads)
                one = self._prediction(distribution, of_ranks, threads, own.occupancy, own.ranks, sample)
                unpaired = unpaired_samples(samples, layout, self.run.observations, threads)
                sizes_of = replace(one.sizes, modelled=self._model_pixels(own, threads))
                one = replace(one, sizes=sizes_of, unpaired=unpaired)
                sizes = [self._other_sizes(one, maps, self._amplitudes, split=True) for maps in of_splits]
                more = (maps and self._other_sizes(one, maps, self._templates_of(maps)) for maps in others)
                made = self._auxiliary.of(*more)
                predictions.append(
                    replace(one, sizes=replace(one.sizes, splits=tuple(sizes), auxiliary=made))
                )
                self.progress.advance(1.0)
            self.progress.end()
        return predictions, sample

    def _ranked(
        self, scan: MapScan, samples: SampleDistribution, streams: SampleDistribution | None = None
    ) -> RankedMaps:
        occupancy, per_node = scan.coverage.occupancy(samples), min(self.machine.cores, self.cores)
        how = per_node, self.seed, self.n_threads, self.progress
        ranks = scan.rank_sample(samples, occupancy, *how)
        modelled = scan.coverage.occupancy(streams) if streams and ranks is None else None
        return RankedMaps(scan, samples, occupancy, ranks, modelled)

    def _model_pixels(self, maps: RankedMaps, threads: int) -> ModelPixels | None:
        return maps.model_pixels(threads, max(1, self.machine.cores // threads))

    def _look_at_auxiliary(
        self, distributions: Sequence[Distribution], scan: MapScan, whole: SampleDistribution | None
    ) -> list[tuple[RankedMaps | None, ...]]:
        """Return what ranks have of whole streams, a filter and demodulated streams, as far as they are made.

        In each distribution.
        """
        of_whole = self._ranked(scan, whole) if whole else None
        white = [self._look_at_white(distributions, scan, run) for run in self._auxiliary.white_runs()]
        return [(of_whole, *others) for others in zip(*white, strict=True)]

    def _look_at_white(
        self, distributions: Sequence[Distribution], scan: MapScan, run: ScannedRun | None
    ) -> list[RankedMaps] | list[None]:
        """Return what ranks have of a system of white noise in each distribution."""
        if run is None:
            return [None] * len(distributions)
        samples = [distribute_samples(run.layout, one.groups, self.cores) for one in distributions]
        if run is not self.run:
            scan = scan_maps(self.config, run, scan.sample, samples, self.n_threads, self.progress)
        return [self._ranked(scan, one) for one in samples]

    def _other_sizes(
        self, run: RunPrediction, maps: RankedMaps, amplitudes: AmplitudeForecast | None, split: bool = False
    ) -> RankSizes:
        """Return the sizes of other maps than those of a run, made on the ranks of a prediction."""
        scan, merged = maps.scan, maps.occupancy.merge_ranks(run.threads)
        forecast, seconds = self._forecast(run.threads, maps.occupancy, maps.ranks, scan.sample)
        sizes = SizeForecast(self.config, scan.run, 0.0, amplitudes, split=split)
        of_ranks = maps.held(run.threads)
        found = sizes.of(run.distribution, forecast, merged, of_ranks, scan.unused.samples, seconds)
        return replace(found, modelled=self._model_pixels(maps, run.threads))

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
        gathered, merged = self._gathered_bytes(forecast.size), occupancy.merge_ranks(threads)
        sizes = SizeForecast(self.config, self.run, gathered, self._amplitudes).of(
            distribution, forecast, merged, held, self.unused.samples, seconds
        )
        if self.config.components and self.run.parts:
            found = component_sizes(self.config, self.run, sizes, merged, exact=rank_sample is None)
            sizes = replace(sizes, components=found)
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
