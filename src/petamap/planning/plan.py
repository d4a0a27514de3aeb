"""A run on a machine that need not be there: what each rank would hold and send, and how long that takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress, Silent
from petacomm.base.threads import available_threads
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.costs.forecast import Forecast, Parts, combine, forecast
from petacomm.costs.nested_group_counts import count_some_hops
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import Options
from petacomm.costs.partner_estimates import Company, imbalance, meet_some, owner_chance
from petacomm.costs.rank_counts import Counts, count, node_numbers, told_messages
from petacomm.network import predict
from petacomm.topology import Machine
from petamap.data.config import RunConfig, open_sources
from petamap.data.observation import Observation
from petamap.mapmaking.intervals import free_ends, split_intervals
from petamap.mapmaking.memory import Sizes, map_bytes
from petamap.mapmaking.target import in_frame, target_pixelization
from petamap.mapmaking.time_layout import Layout
from petamap.planning.node_samples import keep_company
from petamap.planning.pixel_coverage import Looks, look
from petamap.planning.rank_samples import Dealing, dealt
from petamap.planning.sky_regions import SkySample, crowds, draw, whole_sky
from petamap.sky.stokes import Stokes

# What is small enough is not sampled: samples expanded, and pairs of holders of a key.
_FEW_SAMPLES = 3e8
_FEW_PAIRS = 3e8
# A process with its libraries.
_PROCESS_BYTES = 90 << 20
# Regions of the sky that a sample has by default.
_N_REGIONS = 6000


@dataclass(frozen=True)
class Distribution:
    """How the data are dealt to ranks.

    Attributes
    ----------
    name : str
        "streams", "time-major", "mixed" or "detector-major".
    groups : int or None
        Groups of detectors, as in `Layout.order`.
    """

    name: str
    groups: int | None

    @property
    def in_words(self) -> str:
        """The name, and how many groups are mixed."""
        return f"{self.name}, {self.groups}" if self.name == "mixed" else self.name


@dataclass(frozen=True)
class Outlook:
    """What one way to run would be.

    Attributes
    ----------
    distribution : Distribution
    threads : int
        Cores of a rank.
    forecast : Forecast
    seconds : dict of str to float
        Of one reduction, by algorithm.
    memory, memory_kept : float
        Bytes of the rank that needs most, where pointing is recomputed and where it is kept; without gaps.
    """

    distribution: Distribution
    threads: int
    forecast: Forecast
    seconds: dict[str, float]
    memory: float
    memory_kept: float

    @property
    def best(self) -> str:
        """The algorithm that takes least time."""
        return min(self.seconds, key=lambda name: self.seconds[name])


@dataclass(frozen=True)
class Plan:
    """Everything that `plan` found out.

    Attributes
    ----------
    machine : Machine
    cores : int
        That the run has.
    n_samp, n_pix : int
        Samples of all detectors; pixels of the whole map.
    n_stokes : int
        Values reduced a pixel.
    fraction : float
        Of the sky that was looked at.
    outlooks : tuple of Outlook
    """

    machine: Machine
    cores: int
    n_samp: int
    n_pix: int
    n_stokes: int
    fraction: float
    outlooks: tuple[Outlook, ...] = field(repr=False)

    @property
    def best(self) -> Outlook:
        """The way to run whose reductions take least time."""
        return min(self.outlooks, key=lambda o: o.seconds[o.best])


def plan(
    config: RunConfig,
    cores: int,
    machine: Machine,
    *,
    sample: float | None = None,
    seed: int = 1,
    n_threads: int | None = None,
    progress: Progress | None = None,
    ways: Sequence[Distribution] | None = None,
) -> Plan:
    """Tell what a run would ask of a machine, without it.

    Parameters
    ----------
    config : RunConfig
        The run; its pointing is expanded, no signal is read or made.
    cores : int
        Of the machine, one rank each or several a rank.
    machine : Machine
    sample : float, optional
        Part of the sky to look at, 1 for all of it; by default 6000 regions, or all if that is little work.
    seed : int
        Of the draw of the sample.
    n_threads : int, optional
        That plan.
    progress : Progress, optional
    ways : sequence of Distribution, optional
        To deal the data; all by default.

    Raises
    ------
    ConfigError
        For a wrong configuration, cores that the machine lacks, or more ranks than blocks of data.
    DataError
        If a file of the sources is wrong.
    """
    available = machine.nodes * machine.cores
    if not 1 <= cores <= available:
        raise ConfigError(
            f"{cores} ranks on {machine.name}, which has {available} cores", mend=f"take 1 to {available}"
        )
    if sample is not None and not 0 < sample <= 1:
        raise ConfigError(f"a sample of {sample:g} of the sky", mend="give a part of it, 1 for all")
    planner = _Planner(config, cores, machine, sample, seed, n_threads, progress or Silent())
    return planner.run(ways or distributions(max(o.n_det for o in planner.observations)))


class _Planner:
    def __init__(
        self,
        config: RunConfig,
        cores: int,
        machine: Machine,
        part: float | None,
        seed: int,
        n_threads: int | None,
        progress: Progress,
    ) -> None:
        self.config, self.cores, self.machine = config, cores, machine
        self.part, self.seed, self.progress = part, seed, progress
        self.n_threads = n_threads or available_threads()
        self.observations, self.layout = lay_out(config)
        self.pixelization = target_pixelization(config.map, self.observations)
        self.stokes = Stokes(config.map.stokes)
        if self.layout.n_blocks < cores:
            raise ConfigError(
                f"{self.layout.n_blocks} blocks of data for {cores} ranks",
                mend="take fewer ranks, or a smaller noise.n_lag",
            )

    def run(self, ways: Sequence[Distribution]) -> Plan:
        """Look once, then deal in all ways."""
        sample = self._sample()
        dealings = [dealt(self.layout, way.groups, self.cores) for way in ways]
        looks = look(self.observations, self.layout, sample, dealings, self.n_threads, self.progress)
        outlooks = [
            outlook
            for way, dealing in zip(ways, dealings, strict=True)
            for outlook in self._outlooks(way, dealing, looks)
        ]
        return Plan(
            self.machine, self.cores, self.layout.n_samp, self.pixelization.n_pix, self.stokes.n,
            sample.fraction, tuple(outlooks),
        )  # fmt: skip

    def _sample(self) -> SkySample:
        whole = whole_sky(self.pixelization)
        part = self.part
        if part is None:
            few = self.layout.n_samp <= _FEW_SAMPLES
            part = 1.0 if few else min(1.0, _N_REGIONS / len(whole.regions))
        if part == 1:
            return whole
        return draw(self.pixelization, part, self.seed, crowds(self.observations, self.pixelization))

    def _outlooks(self, way: Distribution, dealing: Dealing, looks: Looks) -> list[Outlook]:
        occupancy = looks.occupancy(dealing)
        cores = self.machine.cores
        company = None
        if looks.sample.fraction < 1 or _pairs(occupancy) > _FEW_PAIRS:
            region = np.searchsorted(looks.sample.regions, occupancy.keys >> looks.sample.shift)
            n_keys = float(looks.sample.weights[region] @ occupancy.multiplicity) / self.cores
            company = keep_company(
                self.observations, self.layout, self.pixelization, dealing, min(cores, self.cores),
                n_keys, self.seed, self.n_threads, self.progress,
            )  # fmt: skip
        choices = {1, self.machine.cores_per_socket, cores}
        return [
            self._outlook(way, dealing, threads, occupancy, company, looks.sample)
            for threads in sorted(choices)
            if threads <= self.cores
        ]

    def _outlook(
        self,
        way: Distribution,
        dealing: Dealing,
        threads: int,
        occupancy: Occupancy,
        company: Company | None,
        sample: SkySample,
    ) -> Outlook:
        per_node = max(1, self.machine.cores // threads)
        found = foresee(
            occupancy.merged(threads),
            company and company.merged(threads),
            sample,
            per_node,
            Options(buffer_keys=self._buffer_keys()),
        )
        seconds = {
            name: float(predict(load, self.machine, per_node, self.stokes.n, 8))
            for name, load in found.loads.items()
        }
        held = np.add.reduceat(dealing.n_held, np.arange(0, self.cores, threads)).max()
        return Outlook(way, threads, found, seconds, *self._memory(found, threads, int(held)))

    def _memory(self, found: Forecast, threads: int, held: int) -> tuple[int, int]:
        """Return the bytes of a rank without and with pointing kept."""
        n_pix = self.pixelization.n_pix
        sizes = Sizes(
            n_pix=n_pix,
            n_stokes=self.stokes.n,
            n_held=round(found.n_keys),
            n_owned=round(found.n_global.value / found.size),
            n_gaps=0,
            n_ranks=found.size,
            n_threads=threads,
        )
        # a bit a pixel, and a count every 64
        always = _PROCESS_BYTES + n_pix // 8 + n_pix // 16 + held // 8 + map_bytes(sizes)
        has_gains = any(o.pointing is not None and o.pointing.has_gains for o in self.observations)
        return always, always + held * (4 + 4 * (self.stokes is not Stokes.I) + 4 * has_gains)

    def _buffer_keys(self) -> int:
        return max(1, int(self.config.comm.buffer) // (8 * self.stokes.n))


def lay_out(config: RunConfig) -> tuple[list[Observation], Layout]:
    """Return the observations of a run and their layout, as the map-maker has them."""
    observations = open_sources(config)
    if config.map.pixelization != "numbered":
        observations = in_frame(observations, config.map.frame)
    if config.noise.interval is not None:
        observations = [split_intervals(o, config.noise.interval) for o in observations]
    n_lag = 0 if config.noise.kernel == "white" else config.noise.n_lag
    free = free_ends(config.noise.ends, observations, config.noise.n_lag) and config.solver.flags != "cut"
    return observations, Layout(observations, n_lag, n_lag if free else 0)


def distributions(n_det: int) -> list[Distribution]:
    """Return the ways to deal the data of `n_det` detectors; mixed has as many groups as detectors in one."""
    ways = [Distribution("streams", None), Distribution("time-major", 1)]
    groups = min((g for g in range(2, n_det) if n_det % g == 0), key=lambda g: abs(g - n_det**0.5), default=0)
    if groups:
        ways.append(Distribution("mixed", groups))
    if n_det > 1:
        ways.append(Distribution("detector-major", n_det))
    return ways


def _pairs(occupancy: Occupancy) -> float:
    return float(np.sum(occupancy.multiplicity.astype(np.float64) ** 2))


def foresee(
    occupancy: Occupancy, company: Company | None, sample: SkySample, ranks_per_node: int, options: Options
) -> Forecast:
    """Return the forecast for ranks that hold pixels of a sample of the sky.

    Parameters
    ----------
    occupancy : Occupancy
        Of the pixels of the sample.
    company : Company or None
        Some ranks with all their pixels; None to count all partners, which needs the whole sky.
    sample : SkySample
    ranks_per_node : int
    options : Options
        Of the algorithms.
    """
    if company is None:
        return forecast(occupancy, ranks_per_node, options)
    region = np.searchsorted(sample.regions, occupancy.keys >> sample.shift)
    node_of = node_numbers(occupancy.size, ranks_per_node)
    parts, weights = sample.parts[region], sample.weights[region]
    counts = count(occupancy, node_of, parts, weights, options)
    hops = count_some_hops(occupancy, node_of, options.radix, parts, weights)
    fractions = np.bincount(sample.parts, sample.weights) / int(sample.stretches[-1])
    place = company.occupancy.keys >> sample.shift
    stretch = np.searchsorted(sample.stretches, place, side="right") - 1
    first_key = sample.regions << sample.shift
    pairs, owners, partners = meet_some(company, owner_chance(occupancy, first_key)[stretch])
    chance = owner_chance(occupancy.merged(ranks_per_node), first_key)[stretch]
    _, nodes, _ = meet_some(company.merged(ranks_per_node), chance)
    carried = math.ceil(nodes / ranks_per_node)
    messages = told_messages(counts, pairs, owners, carried)
    others, ghosts = _expected(occupancy, region, len(sample.regions))
    uneven = imbalance(company, others[stretch], ghosts[stretch], _scatter(counts, sample.weights))
    every = Parts(fractions, sample.fraction)
    return combine(counts, hops, every, messages, partners, uneven, ranks_per_node, options)


def _expected(occupancy: Occupancy, region: Int64Array, n: int) -> tuple[FloatArray, FloatArray]:
    """Return for a key that a rank holds, by region, how many others do, and how likely it is a ghost."""
    multiplicity = occupancy.multiplicity.astype(np.float64)
    held = np.bincount(region, multiplicity, n)
    others = np.bincount(region, multiplicity * (multiplicity - 1), n)
    ghosts = np.bincount(region, multiplicity - 1, n)
    seen = held > 0
    return (
        np.where(seen, others / np.maximum(held, 1.0), others.sum() / held.sum()),
        np.where(seen, ghosts / np.maximum(held, 1.0), ghosts.sum() / held.sum()),
    )


def _scatter(counts: Counts, weights: FloatArray) -> float:
    """Return by how much of them the rows that an owner is asked for differ from its ghosts by luck.

    Luck adds up in squares: over everything less than in the sum over what stands for much.
    """
    difference = (counts.asked_rows - counts.ghost_rows).sum(axis=0)
    mean = 2 * float(counts.asked_rows.sum(axis=0).mean())
    luck = float(difference.var()) * weights.sum() / np.square(weights).sum()
    return math.sqrt(luck) / mean if mean else 0.0
