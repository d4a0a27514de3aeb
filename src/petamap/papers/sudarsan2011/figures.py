"""Reproduction of the figures of Sudarsan et al. 2011 by the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.threads import available_threads
from petacomm.costs.forecast import Estimate
from petacomm.network.fit import fit_csv
from petacomm.topology import load_machine
from petamap.data.config import RunConfig
from petamap.papers.sudarsan2011.comparisons import PublishedComparison, compare_with_published
from petamap.papers.sudarsan2011.costs import VALUES, Costs, ForecastCache, algorithm_seconds, version_costs
from petamap.papers.sudarsan2011.measurements import Measurements
from petamap.papers.sudarsan2011.overlaps import RankOverlaps, compute_first_rank_overlaps
from petamap.papers.sudarsan2011.published import Sudarsan2011Data, published_sudarsan2011
from petamap.planning.pixel_coverage import compute_pixel_coverage
from petamap.planning.rank_samples import distribute_samples
from petamap.planning.scanned_run import ScannedRun

# Groups of the time-major distribution (all detectors of a short time), in which rank 0 shares most with its
# successors.
TIME_MAJOR = 1
# Number of regions of the sky sample, and assumed numbers of ranks of Figure 2, which the text does not
# state.
_N_REGIONS = 2000
_OVERLAP_RANKS = (1024, 4096)
# Present machines, and their cores per rank in the threaded version.
_PRESENT_MACHINES = {"perlmutter": 64, "fugaku": 12}


@dataclass(frozen=True)
class KeyDistribution:
    """Distribution of keys over ranks of one core. The attributes are also keys of the JSON.

    Attributes
    ----------
    cores : int
    n_held : float
        Number of keys of a rank.
    all_over_map : Estimate
        n_all / N_p.
    sum_over_keys : float
        Sum of the overlaps of a rank with all others, divided by the number of its keys.
    """

    cores: int
    n_held: float
    all_over_map: Estimate
    sum_over_keys: float


@dataclass(frozen=True)
class SetupSeconds:
    """Modelled seconds of the steps of the published set-up on Franklin, unthreaded."""

    cores: int
    allgather: float
    sift: float
    initialise: float


@dataclass(frozen=True, eq=False)
class Sudarsan2011Results:
    """Results of the reproduction.

    Attributes
    ----------
    published : Sudarsan2011Data
    fraction : float
        Fraction of the sky in the sample.
    overlaps : sequence of RankOverlaps
        Figure 2.
    spreads : sequence of KeyDistribution
    set_ups : sequence of SetupSeconds
        Figure 3.
    measured : Measurements
        Measurements on the running system, for Figures 3 and 5.
    costs : Costs
        Figures 4 and 6: costs by machine and version, at all numbers of cores.
    seconds : mapping
        Seconds of a reduction at the largest number of cores, by machine, "unthreaded" or "threaded", and
        algorithm.
    fitted : mapping of str to (float, float)
        Alpha and beta by collective, fitted to timings.
    comparisons : list of PublishedComparison
    """

    published: Sudarsan2011Data
    fraction: float
    overlaps: Sequence[RankOverlaps]
    spreads: Sequence[KeyDistribution]
    set_ups: Sequence[SetupSeconds]
    measured: Measurements
    costs: Costs
    seconds: Mapping[str, Mapping[str, Mapping[str, float]]]
    fitted: Mapping[str, tuple[float, float]]
    comparisons: Sequence[PublishedComparison]

    @property
    def iterations(self) -> int:
        """Number of iterations of a run."""
        return int(self.published.study["iterations"])


def reproduce_sudarsan2011(
    config: RunConfig,
    few_detectors: RunConfig,
    measured: Measurements,
    *,
    timings: str | None = None,
    max_cores: int = 16384,
    sample: float | None = None,
    seed: int = 1,
    n_threads: int | None = None,
    progress: Progress | None = None,
) -> Sudarsan2011Results:
    """Return the reproduction of the figures.

    Parameters
    ----------
    config, few_detectors : RunConfig
        Configuration of the runs, and of the run of Figure 2, with fewer detectors.
    measured : Measurements
        Measurements on the running system.
    timings : str, optional
        A CSV file with timings of collectives, as for `fit_csv`.
    max_cores : int
        Larger numbers of cores are left out.
    sample : float, optional
        Fraction of the sky that is sampled; by default 2000 regions.
    seed : int
        Seed of the sample.
    n_threads : int, optional
    progress : Progress, optional

    Raises
    ------
    ConfigError, DataError
        If a configuration or the file of timings is wrong.
    """
    fitted = fit_csv(timings) if timings else measured.constants
    progress, n_threads = progress or SilentProgress(), n_threads or available_threads()
    paper = published_sudarsan2011().up_to(max_cores)
    ranks = [size for size in _OVERLAP_RANKS if size <= max_cores] or [max_cores]
    overlaps = compute_first_rank_overlaps(few_detectors, ranks, TIME_MAJOR, n_threads, progress)
    forecasts, n_pix = _forecasts(config, paper, sample, seed, n_threads, progress)
    buffer_bytes = int(config.comm.buffer)
    progress.begin("model", float(sum(len(host.cores) for host in paper.hosts.values())), "concurrencies")
    costs = {
        name: version_costs(host, load_machine(name), forecasts, buffer_bytes, progress)
        for name, host in paper.hosts.items()
    }
    tops = {name: (host.cores[-1], host.threads) for name, host in paper.hosts.items()}
    tops |= {name: (tops["franklin"][0], threads) for name, threads in _PRESENT_MACHINES.items()}
    seconds = {
        name: algorithm_seconds(load_machine(name), cores, threads, forecasts)
        for name, (cores, threads) in tops.items()
    }
    progress.end()
    spreads = [_key_distribution(forecasts, cores, n_pix) for cores in paper.hosts["franklin"].cores]
    set_ups = [_setup_seconds(costs, spread, measured, i) for i, spread in enumerate(spreads)]
    compared = compare_with_published(paper, overlaps, spreads, costs)
    return Sudarsan2011Results(
        paper,
        forecasts.sample.fraction,
        overlaps,
        spreads,
        set_ups,
        measured,
        costs,
        seconds,
        fitted,
        compared,
    )


def _forecasts(
    config: RunConfig,
    paper: Sudarsan2011Data,
    fraction: float | None,
    seed: int,
    n_threads: int,
    progress: Progress,
) -> tuple[ForecastCache, int]:
    """Return the forecasts from a sample of the sky for all numbers of ranks, and the number of pixels."""
    run = ScannedRun.open(config)
    n_pix = run.pixelization.n_pix
    sample = run.sky_sample(fraction or min(1.0, 64 * _N_REGIONS / n_pix), seed)
    sizes = sorted({cores for host in paper.hosts.values() for cores in host.cores})
    distributions = [distribute_samples(run.layout, TIME_MAJOR, size) for size in sizes]
    coverage = compute_pixel_coverage(run, sample, distributions, n_threads, progress)
    occupancies = {distribution.size: coverage.occupancy(distribution) for distribution in distributions}
    return ForecastCache(occupancies, sample, int(config.comm.buffer)), n_pix


def _key_distribution(forecasts: ForecastCache, cores: int, n_pix: int) -> KeyDistribution:
    franklin = load_machine("franklin")
    forecast = forecasts.get(cores, 1, franklin.cores)
    scale = forecast.n_global.value / n_pix
    holders = forecast.multiplicity
    all_over_map = Estimate(holders.value * scale, holders.error * scale)
    overlaps = forecast.rows["pairwise"].value / forecast.n_held
    return KeyDistribution(cores, forecast.n_held, all_over_map, overlaps)


def _setup_seconds(costs: Costs, spread: KeyDistribution, measured: Measurements, index: int) -> SetupSeconds:
    """Return the seconds of the set-up: gathering by the model, the other steps by measured times per key."""
    cost = costs["franklin"]["unthreaded allgather"][index]
    gathered = cost.cores * spread.n_held * VALUES
    shared = spread.n_held * VALUES * (1 + spread.sum_over_keys)
    return SetupSeconds(
        cost.cores, cost.set_up, gathered * measured.sift_time, shared * measured.initialise_time
    )
