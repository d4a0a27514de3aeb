"""Predicted time and memory of the realizations of a Monte Carlo in a number of groups of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress
from petacomm.base.threads import available_threads
from petacomm.reduction import AUTO
from petacomm.topology import Machine
from petamap.data.config import RunConfig
from petamap.mapmaking.distribution import Distribution, find_distribution
from petamap.montecarlo.draws import MAPPED_PARTS
from petamap.montecarlo.file_layout import FILTER_AND_BIN
from petamap.montecarlo.requirements import require_realizations
from petamap.planning.plan import plan
from petamap.planning.scanned_run import ScannedRun
from petamap.simulation.sky_costs import SkyCosts
from petamap.sky.harmonics import ITERATIONS
from petamap.sky.stokes import Stokes

# Right-hand sides in one pass over the pointing; more have little benefit.
_PASS = 8
# Nanoseconds per sample and core: an iteration of a data set, and what all that are solved for at once have
# in common, with pointing kept and recomputed; simulation and reading of a data set; set-up. Measured on one
# core of an EPYC (Zen 4). Expected iterations of a map.
_ITERATION, _KEPT, _RECOMPUTED, _READ, _SET_UP, _ITERATIONS = 4.4, 4.0, 11.0, 45.0, 60.0, 30
# Per iteration: reductions of pixels (to the owners and back), and of scalars.
_SUMS, _NUMBERS = 2, 3
# Nanoseconds on one core for each n_side^2 and n_side^3 of a transform of one component to l_max =
# 3 n_side - 1. Within 4 % of what was measured for n_side 512 and 1024 on a Zen 4; between what another one
# took, two thirds of it, and a Xeon (Emerald Rapids), a quarter more.
_ANALYSIS = 480.0, 1.95
# Whole maps of a component of which each component of a transform has as many bytes: Fourier coefficients of
# rings, a_lm, and those of residuals; a_lm of I while there are those of Q and U.
_FOURIER, _ALM = 2, 0.75
# Largest number of candidates for the number of groups.
_MAX_CANDIDATES = 6
# Part of the time that ranks must spare to make spectra together, though each has room for whole maps.
_QUICKER = 0.8
# Samples up to which scans are looked at as they are, for each number of groups.
_MOST_SCANNED = 1e10


@dataclass(frozen=True)
class GroupPlan:
    """Prediction of a Monte Carlo in groups of ranks, each of which maps some realizations at once.

    Attributes
    ----------
    groups, ranks : int
        Groups, and ranks of each.
    batch : int
        Realizations that a group maps at once where it has the memory; seconds are of so many.
    each : int
        Realizations of a group.
    kept : bool
        Whether there is memory for pointing to be kept.
    memory : float
        Bytes of a process that maps one realization at a time.
    distributed : bool
        Whether all ranks of a group make the spectra of each map: where none has room for whole maps, or it
        is quicker.
    set_up : float
        Seconds before the first realization.
    reading, iterating, reducing, skies, spectra : float
        Seconds of a realization of a group: simulation of its samples; iterations; their reductions of
        pixels and scalars; synthesis of its skies; spectra of its maps.
    sums : float
        Seconds of the reductions of an iteration.
    """

    groups: int
    ranks: int
    batch: int
    each: int
    kept: bool
    memory: float
    distributed: bool
    set_up: float
    reading: float
    iterating: float
    reducing: float
    skies: float
    spectra: float
    sums: float

    @property
    def realization(self) -> float:
        """Seconds of a realization of a group."""
        return self.reading + self.iterating + self.reducing + self.skies + self.spectra

    @property
    def seconds(self) -> float:
        """Seconds of all realizations."""
        return self.set_up + self.each * self.realization


def expected_iterations(config: RunConfig) -> int:
    """Return how many iterations a map is taken to need; only the run finds out."""
    return 0 if config.solver.binned_only else min(_ITERATIONS, config.solver.max_iterations)


def largest_batch(config: RunConfig, groups: int) -> int:
    """Return how many realizations a group maps at once, where it has the memory."""
    options = config.montecarlo
    each = -(-options.realizations // groups)
    return options.batch or max(1, min(_PASS // len(MAPPED_PARTS[options.parts]), each))


def plan_group(
    config: RunConfig,
    groups: int,
    ranks: int,
    n_threads: int,
    machine: Machine,
    limit: float,
    progress: bool | Progress = False,
    workers: int = 0,
) -> GroupPlan:
    """Return the prediction of a Monte Carlo in groups of so many ranks.

    Parameters
    ----------
    config : RunConfig
    groups, ranks, n_threads : int
        Groups, ranks of each, and threads of a rank.
    machine : Machine
    limit : float
        Bytes of a process up to which pointing is kept, where the configuration leaves that open, and spectra
        may be made of whole maps; 0 where nobody knows.
    progress : bool or Progress
    workers : int
        Threads that compute the prediction; those of a rank by default.
    """
    batch, n_solved = largest_batch(config, groups), len(MAPPED_PARTS[config.montecarlo.parts])
    run_plan = plan(
        config, ranks, machine, n_threads=workers or n_threads, distributions=_distributions(config),
        threads=[1], n_rhs=n_solved, progress=progress, most_scanned=_MOST_SCANNED,
    )  # fmt: skip
    prediction, on_node = run_plan.best, min(ranks, machine.cores)
    observed = min(prediction.forecast.n_global.value / run_plan.n_pix, 1.0)
    sizes = run_plan.n_stokes, run_plan.n_pix, n_threads, ranks, on_node
    beside, dealt = (bytes_beside(config, run_plan.skies, *sizes, 1, way, observed) for way in (False, True))
    memory, memory_kept = prediction.without_skies
    spectra = spectra_seconds(config, ranks, n_threads, on_node, batch, machine)
    distributed = ranks > 1
    distributed &= 0 < limit < memory + beside or is_quicker(spectra)
    beside = dealt if distributed else beside
    room = config.resources.pointing == "auto" and memory_kept + beside <= limit
    kept = room or config.resources.pointing == "keep"
    sums = _SUMS * prediction.seconds[prediction.best] * (ranks > 1)
    sums += _NUMBERS * 2 * math.ceil(math.log2(ranks)) * machine.latency
    samples, iterations = run_plan.n_samp / (ranks * n_threads), expected_iterations(config)
    common = (_KEPT if kept else _RECOMPUTED) / (batch * n_solved)
    reading = n_solved * samples * _READ * 1e-9
    iterating = n_solved * iterations * samples * (_ITERATION + common) * 1e-9
    reducing = n_solved * iterations * sums
    n_training = config.montecarlo.vectors_from if config.montecarlo.vectors else 0
    return GroupPlan(
        groups, ranks, batch, -(-config.montecarlo.realizations // groups), kept,
        (memory_kept if kept else memory) + beside, distributed,
        samples * _SET_UP * 1e-9 + n_training * (reading + iterating + reducing),
        reading, iterating, reducing, sum(one.seconds(on_node * n_threads) for one in run_plan.skies),
        spectra[distributed], sums,
    )  # fmt: skip


def _distributions(config: RunConfig) -> list[Distribution] | None:
    """Return the distribution that is asked for; None for the fastest."""
    if config.comm.distribution == AUTO:
        return None
    n_det = max(one.n_det for one in ScannedRun.open(config).observations)
    return [find_distribution(config.comm.distribution, n_det)]


def bytes_beside(
    config: RunConfig,
    skies: Sequence[SkyCosts],
    n_stokes: int,
    n_pix: int,
    n_threads: int,
    ranks: int,
    on_node: int,
    batch: int,
    distributed: bool = False,
    observed: float = 1.0,
) -> float:
    """Return the bytes of a rank beside those of the solver: of skies or, later, of spectra.

    Parameters
    ----------
    config : RunConfig
    skies : sequence of SkyCosts
        Of the run; each realization draws those that are drawn.
    n_stokes, n_pix : int
        Of the maps.
    n_threads : int
        Threads of a rank.
    ranks, on_node : int
        Ranks of the group, and those of them on a node.
    batch : int
        Realizations at once.
    distributed : bool
        Whether all ranks make the spectra of each map.
    observed : float
        Part of the pixels that is observed.
    """
    # those that a node shares, and one that is made
    shared = sum(one.n_bytes * (batch if one.is_drawn else 1) for one in skies) / on_node
    for_skies = shared + max((one.bytes_to_make(on_node) for one in skies), default=0)
    spectra = _SpectraBytes(config, n_stokes, 8 * n_pix, observed)
    if distributed:
        return max(for_skies, spectra.dealt(ranks))
    return max(for_skies, spectra.whole(min(-(-batch // ranks), n_threads), on_node))


@dataclass(frozen=True)
class _SpectraBytes:
    """Bytes of a rank that makes spectra; a whole map has `one` for each component, a part of it observed."""

    config: RunConfig
    n_stokes: int
    one: int
    observed: float

    @property
    def _held(self) -> float:
        """Return the part of the pixels that maps and weights have."""
        needs_all = self.observed >= 0.5 or self.config.spectra.purify != "none"
        return 1.0 if needs_all else self.observed

    @property
    def _common(self) -> float:
        """Return the maps that realizations have in common: weights, directions, which pixels they are of."""
        return (2 + 3 * (not self.config.spectra.keep_dipole) + 3 * (self._held < 1)) * self._held

    @property
    def _work(self) -> float:
        """Return the maps that a realization needs: gathered; weighted; what transforms hold."""
        spins = [k for k, has in ((1, self.n_stokes != 2), (2, self.n_stokes > 1)) if has]
        made = _ALM * (len(spins) == 2) + max(spins) * (_FOURIER + 2 * _ALM)
        return (_n_maps(self.config) * self.n_stokes + 2 * max(spins)) * self._held + made

    def whole(self, at_once: int, on_node: int) -> float:
        """Return those of a rank with so many whole maps at once, and its part of what nodes share."""
        return (self._common / on_node + at_once * self._work) * self.one

    def dealt(self, ranks: int) -> float:
        """Return those of a rank that makes spectra of its parts of maps."""
        # coefficients that are sent, received and in their places, of a twelfth of the orders
        exchanged = 3 * 2 * min(self.n_stokes, 2) / 12
        parts = (self._common + self._work + exchanged) / ranks
        return self.one * (parts + (self.config.spectra.mask is not None))


def _n_maps(config: RunConfig) -> int:
    """Return of how many maps of a realization there are spectra: of its parts, of their sum, and of more.

    Beside a filtered sky it is the one without the filter.
    """
    parts = MAPPED_PARTS[config.montecarlo.parts]
    is_filtered = config.montecarlo.estimator == FILTER_AND_BIN
    return len(parts) + (len(parts) == 2) + (is_filtered and "sky" in parts)


def spectra_seconds(
    config: RunConfig, ranks: int, n_threads: int, on_node: int, batch: int, machine: Machine
) -> tuple[float, float]:
    """Return the seconds of a realization's spectra, made by a rank of whole maps, or by all of their parts.

    Whole maps of as many realizations as a group has at once are worked on side by side.

    Parameters
    ----------
    config : RunConfig
    ranks, on_node : int
        Ranks of a group, and those of them on a node.
    n_threads, batch : int
        Threads of a rank, and realizations at once.
    machine : Machine
    """
    one, cores = _spectra_seconds(config), ranks * n_threads
    exchange = _exchange_seconds(config, ranks, on_node, machine) if ranks > 1 else 0.0
    return one / min(batch, cores), one / cores + exchange


def part_of_maps(config: RunConfig, n_samp: int) -> float:
    """Return the part of a realization's time that its maps of so many samples take: the rest are spectra."""
    n_solved, iterations = len(MAPPED_PARTS[config.montecarlo.parts]), expected_iterations(config)
    maps = n_solved * n_samp * (_READ + iterations * _ITERATION) * 1e-9
    return maps / (maps + _spectra_seconds(config))


def is_quicker(spectra: tuple[float, float]) -> bool:
    """Return whether ranks had better make spectra together, by `spectra_seconds`."""
    whole, dealt = spectra
    return dealt < _QUICKER * whole


def _spectra_seconds(config: RunConfig) -> float:
    """Return the seconds in which one core makes the spectra of the maps of a realization."""
    transforms = 1 + 2 * ITERATIONS
    components = Stokes(config.map.stokes).n * _n_maps(config)
    n_side, (flat, steep) = config.map.n_side or 1, _ANALYSIS
    return components * transforms * n_side**2 * (flat + steep * n_side) * 1e-9


def _exchange_seconds(config: RunConfig, ranks: int, on_node: int, machine: Machine) -> float:
    """Return the seconds in which ranks exchange coefficients of rings and orders for a realization."""
    n_side, transforms = config.map.n_side or 1, 1 + 2 * ITERATIONS
    sent = Stokes(config.map.stokes).n * _n_maps(config) * transforms * 16 * 12 * n_side**2 / ranks
    within = ranks == on_node
    return sent / (machine.local_bandwidth if within else machine.node_bandwidth / on_node)


def plan_montecarlo(
    config: RunConfig, cores: int, machine: Machine, progress: bool | Progress = False
) -> list[GroupPlan]:
    """Return predictions of a Monte Carlo with a rank a core, for some numbers of groups.

    Parameters
    ----------
    config : RunConfig
    cores : int
        Cores of the machine that are used.
    machine : Machine
    progress : bool or Progress

    Raises
    ------
    ConfigError
        If the Monte Carlo would be refused, the machine has fewer cores, or no group has data for all of its
        ranks.
    """
    require_realizations(config)
    wish = config.montecarlo.groups
    counts = [min(wish, cores)] if wish else group_counts(cores, config.montecarlo.realizations)
    blocks = ScannedRun.open(config).layout.n_blocks
    usable = [groups for groups in counts if cores // groups <= blocks]
    if not usable:
        raise ConfigError(
            f"{blocks} blocks of data for {cores // counts[-1]} ranks",
            mend="take fewer ranks, or more groups (montecarlo.groups)",
        )
    limit = rank_memory(config, machine)
    workers = available_threads()
    return [plan_group(config, one, cores // one, 1, machine, limit, progress, workers) for one in usable]


def rank_memory(config: RunConfig, machine: Machine) -> float:
    """Return the bytes of a rank: as given, or its part of a node's memory; 0 where nobody knows.

    Parameters
    ----------
    config : RunConfig
    machine : Machine
    """
    return float(config.resources.memory or machine.node_memory / machine.cores)


def group_counts(size: int, realizations: int, most: int = _MAX_CANDIDATES) -> list[int]:
    """Return candidates for the number of groups of equal size, beginning with 1; about `most` of them."""
    numbers = [groups for groups in range(1, min(size, realizations) + 1) if size % groups == 0]
    step = -(-len(numbers) // most)
    return sorted({*numbers[::step], numbers[-1]})


def fastest(plans: Sequence[GroupPlan], limit: float = math.inf) -> GroupPlan | None:
    """Return the plan with the least time of those whose processes have room; None if there is none."""
    return min((one for one in plans if one.memory <= limit), key=lambda one: one.seconds, default=None)
