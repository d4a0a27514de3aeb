"""Distribution of realizations over groups of ranks, and batches that a group computes at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from petacomm.base.host import available_bytes
from petacomm.base.typing import Int64Array
from petacomm.mpi import Communicator, agree_on_errors
from petacomm.reduction import AUTO
from petacomm.topology import Machine
from petamap.data.config import RunConfig
from petamap.mapmaking.distribution import Distribution, find_distribution, possible_distributions
from petamap.mapmaking.memory import plan_memory
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.system import MapmakingSystem
from petamap.montecarlo.draws import MAPPED_PARTS
from petamap.planning.distribution_choice import local_machine
from petamap.planning.plan import plan
from petamap.planning.scanned_run import ScannedRun

# Right-hand sides in one pass over the pointing; more have little benefit.
_PASS = 8
# Nanoseconds per sample and core (README): an iteration with pointing kept and recomputed, simulation and
# reading of a data set, set-up. Expected iterations of a map.
_KEPT, _RECOMPUTED, _READ, _SET_UP, _ITERATIONS = 7.0, 16.0, 20.0, 30.0, 30
# Per iteration: reductions of pixels (to the owners and back), and of scalars.
_SUMS, _NUMBERS = 2, 3
# Largest number of candidates for the number of groups.
_MAX_CANDIDATES = 6


@dataclass(frozen=True)
class RankGroups:
    """Distribution of realizations over groups of ranks.

    Attributes
    ----------
    groups, group : int
        Number of groups, and the group of this rank.
    batch : int
        Realizations that a group computes at once.
    why : str
        Explanation for the user, one line.
    learnt : int
        Realizations that deflation vectors are found from at once.
    """

    groups: int
    group: int
    batch: int
    why: str
    n_training: int = 1

    def batches(self, numbers: Int64Array) -> Iterator[Int64Array]:
        """Yield the batches of the group of this rank."""
        for first in range(self.group * self.batch, len(numbers), self.groups * self.batch):
            yield numbers[first : first + self.batch]

    def with_batches(
        self, config: RunConfig, system: MapmakingSystem, memory: int | None, comm: Communicator
    ) -> RankGroups:
        """Return the distribution with batches as large as memory allows. Collective on `comm`.

        Parameters
        ----------
        config : RunConfig
        system : MapmakingSystem
            System of the group of this rank.
        memory : int, optional
            Bytes that a process may use.
        comm : Communicator
            Communicator of all groups.
        """
        options = config.montecarlo
        limit = memory or available_bytes() // comm.node_size()
        each = -(-options.realizations // self.groups)
        most = max(1, min(_PASS // len(MAPPED_PARTS[options.parts]), each))

        def room(batch: int, n_training: int = 1) -> bool:
            return comm.max(_bytes_at_once(config, system, batch, n_training) / limit) <= 1

        batch, n_training = most, options.vectors_from if options.vectors else 1
        while batch > 1 and not room(batch):
            batch -= 1
        while n_training > 1 and not room(n_training, n_training):
            n_training -= 1
        held = ", for memory" if batch < most and not options.batch else ""
        batch = options.batch or batch
        return replace(self, batch=batch, n_training=n_training, why=f"{self.why}; {batch} at once{held}")


def _bytes_at_once(config: RunConfig, system: MapmakingSystem, batch: int, n_training: int) -> float:
    """Return the bytes of this rank with so many realizations at once, or vectors found on so many."""
    memory, n_rhs = system.memory, batch * len(MAPPED_PARTS[config.montecarlo.parts])
    kept = kept_vectors(config, n_training)
    planned = plan_memory(system.projection, system.shared.pixels, memory.keep, n_rhs, kept)
    ranks = system.comm.node_size()
    sides = [getattr(source.options, "n_side", None) for source in config.sources if "sky" in source.kind]
    sky = sum(3 * 8 * 12 * int(side) ** 2 for side in sides if side is not None)
    # one that is made, in two orders, and those that a node shares
    skies = 2 * sky + batch * sky / ranks
    # what is resident already is that of before the maps
    known = memory.base + memory.samples + memory.preconditioner
    return float(known + planned.maps + max(skies, _spectra_bytes(config, system, batch)))


def _spectra_bytes(config: RunConfig, system: MapmakingSystem, batch: int) -> float:
    """Return the bytes of a rank that makes spectra: of whole maps, and its part of what a node shares.

    A map in work takes about five maps of a component beside its own.
    """
    n_stokes, one = system.projection.stokes.n, 8 * system.projection.sky.n_pix
    parts = MAPPED_PARTS[config.montecarlo.parts]
    # a realization for each thread, gathered and in work
    at_once = min(-(-batch // system.comm.size), system.projection.n_threads)
    n_maps = len(parts) + (len(parts) == 2)
    # weights, directions, harmonics of the weights
    shared = (2 + 3 * (not config.spectra.keep_dipole) + 2.25 * n_stokes) * one
    return shared / system.comm.node_size() + at_once * (n_maps * n_stokes + n_stokes + 5) * one


def kept_vectors(config: RunConfig, n_training: int = 1) -> int:
    """Return how many vectors are held at most beside those of the solver, found on so many at once."""
    options = config.montecarlo
    if not options.vectors or config.solver.binned_only:
        return 0
    n_solved = len(MAPPED_PARTS[options.parts])
    return Deflation.n_kept(
        options.vectors_from * n_solved, config.solver.max_iterations, options.vectors, n_training * n_solved
    )


def choose_rank_groups(config: RunConfig, stage: RunSetup) -> RankGroups:
    """Return the number of groups that the ranks of a run are split into, and why. Collective.

    In one group, ranks share memory and set-up, and communicate in each iteration. With more groups, there is
    less communication, but each group sets up and holds the full problem. The plan of the run predicts memory
    and communication for each number of ranks; the machine model fitted to earlier timings predicts the time.
    """
    comm, wish = stage.comm, config.montecarlo.groups
    if comm.size == 1:
        return RankGroups(1, 0, 1, "1 process")
    groups, why = min(wish, comm.size), "as asked for"
    if wish == 0:
        machine = local_machine(comm)
        limit = stage.options().memory or available_bytes() // comm.node_size()
        best = groups, why
        with agree_on_errors(comm):
            if comm.rank == 0:
                best = _best(config, comm.size, stage.n_threads, machine, limit)
        groups, why = comm.bcast(best)
    ranks = comm.size // groups
    many = f"{_count(groups, 'group')} of {_count(ranks, 'process', 'es')}"
    return RankGroups(groups, comm.rank * groups // comm.size, 1, f"{many}: {why}")


def _count(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}{ending if number > 1 else ''}"


@dataclass(frozen=True)
class _Candidate:
    """Candidate for the number of groups, with its predictions.

    Attributes
    ----------
    groups : int
    seconds : float
        Time of all realizations, infinite if memory is insufficient.
    sums : float
        Seconds of the reductions of an iteration.
    memory : float
        Bytes per process.
    """

    groups: int
    seconds: float
    sums: float
    memory: float


def _best(config: RunConfig, size: int, n_threads: int, machine: Machine, limit: float) -> tuple[int, str]:
    """Return the number of groups with the least predicted time, and why."""
    run, name = ScannedRun.open(config), config.comm.distribution
    blocks, n_det = run.layout.n_blocks, max(observation.n_det for observation in run.observations)
    distributions = possible_distributions(n_det) if name == AUTO else [find_distribution(name, n_det)]
    candidates = [
        # ranks beyond the number of data blocks are idle
        _candidate(config, groups, min(size // groups, blocks), n_threads, machine, limit, distributions)
        for groups in _group_counts(size, config.montecarlo.realizations)
    ]
    best = min(candidates, key=lambda candidate: candidate.seconds)
    if math.isinf(best.seconds):
        return 1, "as nothing smaller has room"
    too_large = [
        candidate for candidate in candidates if candidate.groups > best.groups and candidate.memory > limit
    ]
    others = too_large[:1] or sorted(candidates, key=lambda candidate: candidate.seconds)[1:]
    other = next(iter(others), None)
    text = _candidate_text(best)
    return best.groups, f"{text}; {_candidate_text(other, limit)}" if other else text


def _candidate_text(candidate: _Candidate, limit: float = math.inf) -> str:
    name = "" if math.isinf(limit) else f"{_count(candidate.groups, 'group')}, "
    if candidate.memory > limit:
        return f"{name}{candidate.memory / 1e9:.3g} GB a process where there are {limit / 1e9:.3g}"
    sums = f", {1e3 * candidate.sums:.3g} ms for the sums of an iteration" if candidate.sums else ""
    return f"{name}{candidate.seconds:.3g} s predicted{sums}"


def _group_counts(size: int, realizations: int) -> list[int]:
    """Return candidates for the number of groups of equal size, beginning with 1."""
    numbers = [groups for groups in range(1, min(size, realizations) + 1) if size % groups == 0]
    step = -(-len(numbers) // _MAX_CANDIDATES)
    return sorted({*numbers[::step], numbers[-1]})


def _candidate(
    config: RunConfig,
    groups: int,
    ranks: int,
    n_threads: int,
    machine: Machine,
    limit: float,
    distributions: Sequence[Distribution],
) -> _Candidate:
    run_plan = plan(config, ranks, machine, n_threads=n_threads, distributions=distributions)
    alone = [prediction for prediction in run_plan.predictions if prediction.threads == 1]
    prediction = min(alone, key=lambda one: one.seconds[one.best])
    kept = config.resources.pointing != "recompute" and prediction.memory_kept <= limit
    memory = prediction.memory_kept if kept or config.resources.pointing == "keep" else prediction.memory
    rounds = 2 * math.ceil(math.log2(ranks))
    sums = _SUMS * prediction.seconds[prediction.best] * (ranks > 1) + _NUMBERS * rounds * machine.latency
    if memory > limit:
        return _Candidate(groups, math.inf, sums, memory)
    seconds = _seconds(config, groups, run_plan.n_samp / (ranks * n_threads), kept, sums)
    return _Candidate(groups, seconds, sums, memory)


def _seconds(config: RunConfig, groups: int, samples: float, kept: bool, sums: float) -> float:
    """Return the time of all realizations; `samples` are per core, `sums` seconds per iteration."""
    options, solver = config.montecarlo, config.solver
    iterations = 0 if solver.binned_only else min(_ITERATIONS, solver.max_iterations)
    iteration = samples * (_KEPT if kept else _RECOMPUTED) * 1e-9 + sums
    solution = iterations * iteration + samples * _READ * 1e-9
    n_solved = len(MAPPED_PARTS[options.parts])
    each = -(-options.realizations // groups) * n_solved
    n_training = options.vectors_from * n_solved if options.vectors else 0
    return samples * _SET_UP * 1e-9 + (each + n_training) * solution


@contextmanager
def errors_end_all_groups(comm: Communicator, group: Communicator) -> Iterator[None]:
    """Make an error that the ranks of a group agree on end all groups."""
    try:
        yield
    except Exception as error:
        if group is not comm:
            error.__dict__.pop("_agreed", None)
        raise
