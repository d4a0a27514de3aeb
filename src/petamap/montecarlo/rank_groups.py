"""How realizations are shared out: groups of ranks, and batches that a group makes at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from petacomm.base.host import available_bytes
from petacomm.base.typing import Int64Array
from petacomm.mpi import Communicator, together
from petacomm.mpi.autotuner import place
from petacomm.network.fitted_machine import this_machine
from petacomm.topology import Machine
from petamap.data.config import RunConfig
from petamap.mapmaking.memory import plan_memory
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.setup import Stage
from petamap.mapmaking.system import System
from petamap.montecarlo.draws import SOLVED
from petamap.planning.plan import Distribution, lay_out, plan

# Right-hand sides in one pass over the pointing: more gain little.
_PASS = 8
# Nanoseconds a sample and core (README): an iteration with pointing kept and recomputed, a data set drawn and
# read, the set-up. Iterations of a map before any is made.
_KEPT, _RECOMPUTED, _READ, _SET_UP, _ITERATIONS = 7.0, 16.0, 20.0, 30.0, 30
# Of an iteration: sums on pixels, to the holders and to the owners; and of single numbers.
_SUMS, _NUMBERS = 2, 3
# Numbers of groups that are looked at.
_MOST_LOOKED_AT = 6


@dataclass(frozen=True)
class Sharing:
    """Who makes which realizations.

    Attributes
    ----------
    groups, group : int
        How many there are, and that of this rank.
    batch : int
        Realizations that a group makes at once.
    why : str
        One line for the user.
    learnt : int
        Realizations that vectors are found on at once.
    """

    groups: int
    group: int
    batch: int
    why: str
    learnt: int = 1

    def batches(self, numbers: Int64Array) -> Iterator[Int64Array]:
        """Yield the batches of this rank's group."""
        for first in range(self.group * self.batch, len(numbers), self.groups * self.batch):
            yield numbers[first : first + self.batch]

    def fitted(self, config: RunConfig, system: System, memory: int | None, whole: Communicator) -> Sharing:
        """Return the sharing with batches as large as memory and realizations allow. Collective.

        Parameters
        ----------
        config : RunConfig
        system : System
            Of this rank's group.
        memory : int, optional
            Bytes that a process may use.
        whole : Communicator
        """
        options = config.montecarlo
        limit = memory or available_bytes() // whole.node_size()
        each = -(-options.realizations // self.groups)
        most = max(1, min(_PASS // len(SOLVED[options.parts]), each))

        def room(batch: int, learnt: int = 1) -> bool:
            return whole.max(_bytes_at_once(config, system, batch, learnt) / limit) <= 1

        batch, learnt = most, options.vectors_from if options.vectors else 1
        while batch > 1 and not room(batch):
            batch -= 1
        while learnt > 1 and not room(learnt, learnt):
            learnt -= 1
        held = ", for memory" if batch < most and not options.batch else ""
        batch = options.batch or batch
        return replace(self, batch=batch, learnt=learnt, why=f"{self.why}; {batch} at once{held}")


def _bytes_at_once(config: RunConfig, system: System, batch: int, learnt: int) -> float:
    """Return the bytes of this rank with so many realizations at once, or vectors found on so many."""
    memory, n_rhs = system.memory, batch * len(SOLVED[config.montecarlo.parts])
    kept = kept_vectors(config, learnt)
    planned = plan_memory(system.projection, system.shared.pixels, memory.keep, n_rhs, kept)
    sides = [getattr(source.options, "n_side", None) for source in config.sources if "sky" in source.kind]
    skies = sum(2 * 3 * 8 * 12 * int(side) ** 2 for side in sides if side is not None)
    # what is resident already is that of before the maps
    return float(memory.base + memory.samples + planned.maps + batch * skies)


def kept_vectors(config: RunConfig, learnt: int = 1) -> int:
    """Return how many vectors are held at most beside those of the solver, found on so many at once."""
    options = config.montecarlo
    if not options.vectors or config.solver.binned_only:
        return 0
    n_solved = len(SOLVED[options.parts])
    return Deflation.n_kept(
        options.vectors_from * n_solved, config.solver.max_iterations, options.vectors, learnt * n_solved
    )


def share_out(config: RunConfig, stage: Stage) -> Sharing:
    """Return into how many groups the ranks of a run are split, and why. Collective.

    All ranks on one realization share memory and set-up, and send what they add up in every iteration;
    groups send less or nothing, and each sets up and holds the whole problem. The plan of the run tells for
    each number of ranks what they would hold and send; the machine, as timings of earlier runs show it, what
    that takes.
    """
    comm, wish = stage.comm, config.montecarlo.groups
    if comm.size == 1:
        return Sharing(1, 0, 1, "1 process")
    groups, why = min(wish, comm.size), "as asked for"
    if wish == 0:
        machine = _machine(comm)
        limit = stage.choices().memory or available_bytes() // comm.node_size()
        best = groups, why
        with together(comm):
            if comm.rank == 0:
                best = _best(config, comm.size, stage.n_threads, machine, limit)
        groups, why = comm.bcast(best)
    ranks = comm.size // groups
    many = f"{_count(groups, 'group')} of {_count(ranks, 'process', 'es')}"
    return Sharing(groups, comm.rank * groups // comm.size, 1, f"{many}: {why}")


def _count(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}{ending if number > 1 else ''}"


def _machine(comm: Communicator) -> Machine:
    """Return this machine, with a core for each rank. Collective."""
    where = place(comm)
    machine = this_machine(where)
    cores = -(-comm.size // machine.nodes)
    return machine if machine.cores >= cores else replace(machine, sockets_per_node=1, cores_per_socket=cores)


@dataclass(frozen=True)
class _Candidate:
    """Ranks split into groups, and what is predicted for that.

    Attributes
    ----------
    groups : int
    seconds : float
        Of all realizations, infinite where a group has no room.
    sums : float
        Of them, seconds of an iteration's sums over ranks.
    memory : float
        Bytes a process.
    """

    groups: int
    seconds: float
    sums: float
    memory: float


def _best(config: RunConfig, size: int, n_threads: int, machine: Machine, limit: float) -> tuple[int, str]:
    """Return the number of groups that takes the least time, and why."""
    blocks = lay_out(config)[1].n_blocks
    found = [
        # ranks beyond the blocks of data have nothing to do
        _candidate(config, groups, min(size // groups, blocks), n_threads, machine, limit)
        for groups in _numbers(size, config.montecarlo.realizations)
    ]
    best = min(found, key=lambda one: one.seconds)
    if math.isinf(best.seconds):
        return 1, "as nothing smaller has room"
    too_large = [one for one in found if one.groups > best.groups and one.memory > limit]
    others = too_large[:1] or sorted(found, key=lambda one: one.seconds)[1:]
    other = next(iter(others), None)
    return best.groups, f"{_in_words(best)}; {_in_words(other, limit)}" if other else _in_words(best)


def _in_words(one: _Candidate, limit: float = math.inf) -> str:
    name = "" if math.isinf(limit) else f"{_count(one.groups, 'group')}, "
    if one.memory > limit:
        return f"{name}{one.memory / 1e9:.3g} GB a process where there are {limit / 1e9:.3g}"
    sums = f", {1e3 * one.sums:.3g} ms for the sums of an iteration" if one.sums else ""
    return f"{name}{one.seconds:.3g} s predicted{sums}"


def _numbers(size: int, realizations: int) -> list[int]:
    """Return numbers of groups of equal size to look at, 1 first."""
    numbers = [groups for groups in range(1, min(size, realizations) + 1) if size % groups == 0]
    every = -(-len(numbers) // _MOST_LOOKED_AT)
    return sorted({*numbers[::every], numbers[-1]})


def _candidate(
    config: RunConfig, groups: int, ranks: int, n_threads: int, machine: Machine, limit: float
) -> _Candidate:
    found = plan(config, ranks, machine, n_threads=n_threads, ways=(Distribution("streams", None),))
    outlook = found.outlooks[0]
    kept = config.resources.pointing != "recompute" and outlook.memory_kept <= limit
    memory = outlook.memory_kept if kept or config.resources.pointing == "keep" else outlook.memory
    rounds = 2 * math.ceil(math.log2(ranks))
    sums = _SUMS * outlook.seconds[outlook.best] * (ranks > 1) + _NUMBERS * rounds * machine.latency
    if memory > limit:
        return _Candidate(groups, math.inf, sums, memory)
    seconds = _seconds(config, groups, found.n_samp / (ranks * n_threads), kept, sums)
    return _Candidate(groups, seconds, sums, memory)


def _seconds(config: RunConfig, groups: int, samples: float, kept: bool, sums: float) -> float:
    """Return what all realizations take, `samples` a core and `sums` seconds for the sums of an iteration."""
    options, solver = config.montecarlo, config.solver
    iterations = 0 if solver.binned_only else min(_ITERATIONS, solver.max_iterations)
    iteration = samples * (_KEPT if kept else _RECOMPUTED) * 1e-9 + sums
    solution = iterations * iteration + samples * _READ * 1e-9
    n_solved = len(SOLVED[options.parts])
    each = -(-options.realizations // groups) * n_solved
    learnt = options.vectors_from * n_solved if options.vectors else 0
    return samples * _SET_UP * 1e-9 + (each + learnt) * solution
