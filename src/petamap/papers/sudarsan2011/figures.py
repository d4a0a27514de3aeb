"""The figures of Sudarsan et al. 2011 made again: the published numbers, and those of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from petacomm.base.progress import Progress, Silent
from petacomm.base.threads import available_threads
from petacomm.costs.forecast import Estimate
from petacomm.network.fit import fit_csv
from petacomm.topology import load_machine
from petamap.data.config import RunConfig
from petamap.mapmaking.target import target_pixelization
from petamap.papers.sudarsan2011.comparisons import Comparison, comparisons
from petamap.papers.sudarsan2011.costs import VALUES, Costs, Forecasts, other_ways, versions
from petamap.papers.sudarsan2011.measurements import Measured
from petamap.papers.sudarsan2011.overlaps import Overlaps, overlaps_of_first
from petamap.papers.sudarsan2011.published import Published, published
from petamap.planning.pixel_coverage import look
from petamap.planning.plan import lay_out
from petamap.planning.rank_samples import dealt
from petamap.planning.sky_regions import crowds, draw

# Ranks get all detectors for a short time: the way in which rank 0 shares most with those that follow it.
TIME_MAJOR = 1
# Regions of the sky that are looked at, and ranks of Figure 2, whose number the text does not tell.
_N_REGIONS = 2000
_OVERLAP_RANKS = (1024, 4096)
# Machines of today, and their cores of a rank where it has several.
_TODAY = {"perlmutter": 64, "fugaku": 12}


@dataclass(frozen=True)
class Spread:
    """How keys are spread over ranks of one core.

    Attributes
    ----------
    cores : int
    n_held : float
        Keys of a rank.
    all_over_map : Estimate
        n_all over N_p.
    sum_over_keys : float
        Overlaps of a rank with all others, over its keys.
    """

    cores: int
    n_held: float
    all_over_map: Estimate
    sum_over_keys: float


@dataclass(frozen=True)
class SetUp:
    """The steps of the published set-up on Franklin, in seconds: the model's, unthreaded."""

    cores: int
    allgather: float
    sift: float
    initialise: float


@dataclass(frozen=True, eq=False)
class Retelling:
    """All that was found.

    Attributes
    ----------
    published : Published
    fraction : float
        Of the sky that was looked at.
    overlaps : sequence of Overlaps
        Figure 2.
    spreads : sequence of Spread
    set_ups : sequence of SetUp
        Figure 3.
    measured : Measured
        Here, for Figures 3 and 5.
    costs : Costs
        Figures 4 and 6: by machine and version, at all concurrencies.
    ways : mapping
        Seconds of a sum at the most cores, by machine, "unthreaded" or "threaded", and algorithm.
    fitted : mapping of str to (float, float)
        Alpha and beta by collective, of the timings that were given.
    comparisons : list of Comparison
    """

    published: Published
    fraction: float
    overlaps: Sequence[Overlaps]
    spreads: Sequence[Spread]
    set_ups: Sequence[SetUp]
    measured: Measured
    costs: Costs
    ways: Mapping[str, Mapping[str, Mapping[str, float]]]
    fitted: Mapping[str, tuple[float, float]]
    comparisons: Sequence[Comparison]

    @property
    def iterations(self) -> int:
        """Of a run."""
        return int(self.published.study["iterations"])


def retell(
    config: RunConfig,
    few_detectors: RunConfig,
    measured: Measured,
    *,
    timings: str | None = None,
    most_cores: int = 16384,
    sample: float | None = None,
    seed: int = 1,
    n_threads: int | None = None,
    progress: Progress | None = None,
) -> Retelling:
    """Make the figures of the source again.

    Parameters
    ----------
    config, few_detectors : RunConfig
        The run, and that of Figure 2, of four detectors.
    measured : Measured
        What was measured here.
    timings : str, optional
        A CSV file of timings of collectives, as `fit_csv` reads it.
    most_cores : int
        Concurrencies above are left out.
    sample : float, optional
        Part of the sky to look at; by default 2000 regions.
    seed : int
        Of the draw of the sample.
    n_threads : int, optional
    progress : Progress, optional

    Raises
    ------
    ConfigError, DataError
        If a configuration or the file of timings is wrong.
    """
    fitted = fit_csv(timings) if timings else measured.constants
    progress, n_threads = progress or Silent(), n_threads or available_threads()
    paper = published().up_to(most_cores)
    ranks = [size for size in _OVERLAP_RANKS if size <= most_cores] or [most_cores]
    overlaps = overlaps_of_first(few_detectors, ranks, TIME_MAJOR, n_threads, progress)
    forecasts, n_pix = _forecasts(config, paper, sample, seed, n_threads, progress)
    buffer_bytes = int(config.comm.buffer)
    progress.begin("model", float(sum(len(host.cores) for host in paper.hosts.values())), "concurrencies")
    costs = {
        name: versions(host, load_machine(name), forecasts, buffer_bytes, progress)
        for name, host in paper.hosts.items()
    }
    tops = {name: (host.cores[-1], host.threads) for name, host in paper.hosts.items()}
    tops |= {name: (tops["franklin"][0], threads) for name, threads in _TODAY.items()}
    ways = {
        name: other_ways(load_machine(name), cores, threads, forecasts)
        for name, (cores, threads) in tops.items()
    }
    progress.end()
    spreads = [_spread(forecasts, cores, n_pix) for cores in paper.hosts["franklin"].cores]
    set_ups = [_set_up(costs, spread, measured, i) for i, spread in enumerate(spreads)]
    found = comparisons(paper, overlaps, spreads, costs)
    return Retelling(
        paper, forecasts.sample.fraction, overlaps, spreads, set_ups, measured, costs, ways, fitted, found
    )


def _forecasts(
    config: RunConfig,
    paper: Published,
    part: float | None,
    seed: int,
    n_threads: int,
    progress: Progress,
) -> tuple[Forecasts, int]:
    """Look at a sample of the sky, and deal what is seen to all numbers of ranks."""
    observations, layout = lay_out(config)
    grid = target_pixelization(config.map, observations)
    part = part or min(1.0, 64 * _N_REGIONS / grid.n_pix)
    sample = draw(grid, part, seed, crowds(observations, grid))
    sizes = sorted({cores for host in paper.hosts.values() for cores in host.cores})
    dealings = [dealt(layout, TIME_MAJOR, size) for size in sizes]
    looks = look(observations, layout, sample, dealings, n_threads, progress)
    occupancies = {dealing.size: looks.occupancy(dealing) for dealing in dealings}
    return Forecasts(occupancies, sample, int(config.comm.buffer)), grid.n_pix


def _spread(forecasts: Forecasts, cores: int, n_pix: int) -> Spread:
    franklin = load_machine("franklin")
    found = forecasts.of(cores, 1, franklin.cores)
    scale = found.n_global.value / n_pix
    each = found.multiplicity
    sums = found.rows["pairwise"].value / found.n_held
    return Spread(cores, found.n_held, Estimate(each.value * scale, each.error * scale), sums)


def _set_up(costs: Costs, spread: Spread, measured: Measured, index: int) -> SetUp:
    """Price the steps: the gathering by the model, the work by the time of a key that was measured here."""
    cost = costs["franklin"]["unthreaded allgather"][index]
    gathered = cost.cores * spread.n_held * VALUES
    shared = spread.n_held * VALUES * (1 + spread.sum_over_keys)
    return SetUp(cost.cores, cost.set_up, gathered * measured.sift_time, shared * measured.initialise_time)
