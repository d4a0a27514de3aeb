"""Distribution of realizations over groups of ranks, and batches that a group computes at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from petacomm.base.host import available_bytes
from petacomm.base.typing import Int64Array
from petacomm.mpi import Communicator, agree_on_errors
from petacomm.topology import Machine
from petamap.data.config import RunConfig
from petamap.mapmaking.memory import plan_memory
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.system import MapmakingSystem
from petamap.montecarlo.draws import MAPPED_PARTS
from petamap.montecarlo.group_plan import (
    GroupPlan,
    bytes_beside,
    fastest,
    group_counts,
    is_quicker,
    largest_batch,
    plan_group,
    spectra_seconds,
)
from petamap.planning.distribution_choice import local_machine
from petamap.planning.scanned_run import ScannedRun
from petamap.simulation.sky_costs import sky_costs


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
    n_training : int
        Realizations that deflation vectors are found from at once.
    distributed : bool
        Whether all ranks of a group make the spectra of each map: where none has room for whole maps, or it
        is quicker.
    memory : int
        Bytes of the rank that needs most, predicted with these batches and the spectra of their maps.
    """

    groups: int
    group: int
    batch: int
    why: str
    n_training: int = 1
    distributed: bool = False
    memory: int = 0

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
        limit = memory or available_bytes(comm.node_size())
        most = largest_batch(config, self.groups)

        def needed(batch: int, n_training: int = 1, distributed: bool = False) -> float:
            return _bytes_at_once(config, system, batch, n_training, distributed)

        def room(batch: int, n_training: int = 1, distributed: bool = False) -> bool:
            return comm.max(needed(batch, n_training, distributed) / limit) <= 1

        ranks, on_node = int(-comm.max(-system.comm.size)), int(comm.max(system.comm.node_size()))
        batch, n_training = most, options.vectors_from if options.vectors else 1
        while batch > 1 and not room(batch):
            batch -= 1
        distributed = ranks > 1
        if distributed and room(1):
            threads = int(-comm.max(-system.projection.n_threads))  # ranks decide alike
            machine = local_machine(comm)
            distributed = is_quicker(spectra_seconds(config, ranks, threads, on_node, batch, machine))
        batch = most
        while batch > 1 and not room(batch, 1, distributed):
            batch -= 1
        while n_training > 1 and not room(n_training, n_training, distributed):
            n_training -= 1
        held = ", for memory" if batch < most and not options.batch else ""
        batch = options.batch or batch
        why = f"{self.why}; {batch} at once{held}" + ", spectra of each on all its ranks" * distributed
        most_needed = max(needed(batch, 1, distributed), needed(n_training, n_training, distributed))
        return replace(
            self, batch=batch, n_training=n_training, distributed=distributed, why=why,
            memory=int(comm.max(most_needed)),
        )  # fmt: skip


def _bytes_at_once(
    config: RunConfig, system: MapmakingSystem, batch: int, n_training: int, distributed: bool
) -> float:
    """Return the bytes of this rank with so many realizations at once, or vectors found on so many."""
    memory, n_rhs = system.memory, batch * len(MAPPED_PARTS[config.montecarlo.parts])
    kept = kept_vectors(config, n_training)
    projection, pixels = system.projection, system.shared.pixels
    planned = plan_memory(projection, pixels, memory.keep, projection.n_nuisance, n_rhs, kept)
    observed = int(pixels.comm.sum(pixels.n_owned)) / projection.sky.n_pix
    beside = bytes_beside(
        config, sky_costs(projection.observations), projection.stokes.n, projection.sky.n_pix,
        projection.n_threads, system.comm.size, system.comm.node_size(), batch, distributed, observed,
    )  # fmt: skip
    # what is resident already is that of before the maps
    known = memory.base + memory.samples + memory.preconditioner
    return float(known + planned.maps + beside)


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
        limit = stage.options().memory or available_bytes(comm.node_size())
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


def _best(config: RunConfig, size: int, n_threads: int, machine: Machine, limit: float) -> tuple[int, str]:
    """Return the number of groups with the least predicted time, and why."""
    blocks = ScannedRun.open(config).layout.n_blocks
    candidates = [
        # ranks beyond the number of data blocks are idle
        plan_group(config, groups, min(size // groups, blocks), n_threads, machine, limit)
        for groups in group_counts(size, config.montecarlo.realizations)
    ]
    best = fastest(candidates, limit)
    if best is None:
        return 1, "as nothing smaller has room"
    too_large = [one for one in candidates if one.groups > best.groups and one.memory > limit]
    others = too_large[:1] or sorted(candidates, key=lambda one: one.seconds)[1:]
    other = next(iter(others), None)
    text = _candidate_text(best)
    return best.groups, f"{text}; {_candidate_text(other, limit)}" if other else text


def _candidate_text(candidate: GroupPlan, limit: float = math.inf) -> str:
    name = "" if math.isinf(limit) else f"{_count(candidate.groups, 'group')}, "
    if candidate.memory > limit:
        return f"{name}{candidate.memory / 1e9:.3g} GB a process where there are {limit / 1e9:.3g}"
    sums = f", {1e3 * candidate.sums:.3g} ms for the sums of an iteration" if candidate.sums else ""
    return f"{name}{candidate.seconds:.3g} s predicted{sums}"
