"""Schedules as execution plans of MSCCL++: in each round GPUs put, signal, wait, and then add up."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from petacomm.base.files import write_text
from petacomm.schedule.chunk_division import ChunkDivision, RoundRow
from petacomm.schedule.mscclpp import (
    MAX_AT_ONCE,
    MAX_CHANNELS,
    MAX_CHUNKS,
    MAX_OPERATIONS,
    MAX_SEMAPHORES,
    MscclppPlan,
    Operation,
    PlanBlock,
    PlanGpu,
)
from petacomm.schedule.schedule import Schedule, ScheduleError

_NOP: Operation = {"name": "nop"}  # the threads of a block wait for each other
# Operations of a thread block beside those of its rounds: a semaphore before and after, with a nop, and that
# its neighbours are ready.
_AROUND = 4 + 2 * -(-MAX_CHANNELS // MAX_AT_ONCE)


@dataclass(frozen=True)
class _Landing:
    """A row of a round, and where it lands in the scratch of its destination, in chunks."""

    row: RoundRow
    at: int


def mscclpp_plan(schedule: Schedule, name: str | None = None) -> MscclppPlan:
    """Return a schedule as an execution plan of MSCCL++.

    In each round, a rank writes what it sends into the scratch memory of the destinations, through memory
    channels, signals, and waits for those that send to it; then it adds up or copies what has come. Each
    message of a call has scratch of its own, so that nothing is overwritten that is still to be read; of
    several calls, a thread block waits until its neighbours have begun. All-reduces are in place.

    Parameters
    ----------
    schedule : Schedule
        Of an all-reduce or an all-to-all of equal blocks.
    name : str, optional
        By default that of the algorithm.

    Raises
    ------
    ScheduleError
        If it is another collective, has other messages than between two ranks, parts that are no chunks of
        one size, or more neighbours or rounds than the executor takes.
    """
    chunks = ChunkDivision.of(schedule, "MSCCL++", MAX_CHUNKS)
    rounds = _landings(schedule, chunks)
    plans = [_GpuPlan(rank, chunks, rounds) for rank in range(schedule.n_ranks)]
    turns = range(len(rounds))
    costs = [max(len(plan.operations(turn, plan.peers([turn]))) for plan in plans) for turn in turns]
    groups = list(_groups(costs))
    if len(groups) - 1 > MAX_SEMAPHORES or max(costs, default=0) > MAX_OPERATIONS - _AROUND:
        raise ScheduleError(
            f"'{schedule.algorithm}' needs more operations than thread blocks of MSCCL++ have room for",
            mend="take fewer ranks or another algorithm",
        )
    most = max((len(plan.peers(group)) for plan in plans for group in groups), default=0)
    if most > MAX_CHANNELS:
        raise ScheduleError(
            f"'{schedule.algorithm}' has {most} neighbours of a rank, and MSCCL++ {MAX_CHANNELS} channels",
            mend="take fewer ranks or another algorithm",
        )
    gpus = [plan.gpu(groups) for plan in plans]
    return MscclppPlan(name or schedule.algorithm, schedule.collective, schedule.blocks is None, gpus)


def write_mscclpp(schedule: Schedule, path: str | os.PathLike[str], name: str | None = None) -> Path:
    """Write `mscclpp_plan` as JSON, and return the path."""
    write_text(path, mscclpp_plan(schedule, name).text())
    return Path(path)


def _landings(schedule: Schedule, chunks: ChunkDivision) -> list[list[_Landing]]:
    """Return the rows of each round, each with scratch of its own behind that of the schedule."""
    free: defaultdict[int, int] = defaultdict(lambda: chunks.scratch)
    rounds = []
    for part in schedule.rounds():
        landings = []
        for row in chunks.rows(part, MAX_CHUNKS):
            if row.is_local and row.reduce:
                raise ScheduleError("sums in the memory of one rank cannot be told", mend="reduce messages")
            landings.append(_Landing(row, free[row.destination]))
            free[row.destination] += row.n
        if landings:
            rounds.append(landings)
    return rounds


def _groups(costs: Sequence[int]) -> Iterator[range]:
    """Yield rounds that one thread block has room for: the same of all ranks, whose channels are paired."""
    begin = used = 0
    for turn, cost in enumerate(costs):
        if used + cost > MAX_OPERATIONS - _AROUND and turn > begin:
            yield range(begin, turn)
            begin, used = turn, 0
        used += cost
    if costs:
        yield range(begin, len(costs))


class _GpuPlan:
    """What a rank does in each round."""

    def __init__(self, rank: int, chunks: ChunkDivision, rounds: list[list[_Landing]]) -> None:
        self._chunks = chunks
        self._sent = [[one for one in part if one.row.source == rank] for part in rounds]
        self._come = [[one for one in part if one.row.destination == rank] for part in rounds]
        self._n_scratch = chunks.scratch + sum(one.row.n for part in self._come for one in part)

    def peers(self, turns: Sequence[int]) -> list[int]:
        """Return the ranks that it speaks to in some rounds."""
        return sorted({*self._to(turns), *self._whence(turns)})

    def gpu(self, groups: list[range]) -> PlanGpu:
        """Return its part of the plan, with a thread block for each group of rounds."""
        chunks = self._chunks
        gpu = PlanGpu((chunks.sends, chunks.receives or chunks.sends, self._n_scratch))
        gpu.n_semaphores = max(0, len(groups) - 1)
        written = sorted({rank for turns in groups for rank in self._to(turns)})
        gpu.buffers = [(rank, "s") for rank in written]
        for number, turns in enumerate(groups):
            peers = self.peers(turns)
            first = len(gpu.channels)
            block = PlanBlock(channels=list(range(first, first + len(peers))))
            gpu.channels += peers
            block.buffers = [written.index(rank) for rank in self._to(turns)]
            block.operations = [*self._begun(number, turns, peers), *self._of_rounds(turns, peers)]
            if number < gpu.n_semaphores:
                block.operations += [_NOP, {"name": "sem_release", "semaphore_ids": [number]}]
            gpu.blocks.append(block)
        return gpu

    def _begun(self, number: int, turns: range, peers: list[int]) -> Iterator[Operation]:
        """Yield the operations before the rounds: scratch may be written to once its rank has begun."""
        if number:
            yield {"name": "sem_acquire", "semaphore_ids": [number - 1]}
        yield from _on_channels("rlxsignal", self._whence(turns), peers)
        yield from _on_channels("rlxwait", self._to(turns), peers)
        yield _NOP

    def _of_rounds(self, turns: range, peers: list[int]) -> Iterator[Operation]:
        to = self._to(turns)
        for turn in turns:
            yield from self.operations(turn, peers, to)

    def operations(self, turn: int, peers: list[int], written: list[int] | None = None) -> list[Operation]:
        """Return the operations of a round, of a thread block with these peers and remote buffers."""
        written = self._to([turn]) if written is None else written
        found: list[Operation] = []
        messages = [one for one in self._sent[turn] if not one.row.is_local]
        for one in messages:
            to = one.row.destination
            put = {"buffer_id": written.index(to), "index": one.at, "size": one.row.n}
            found.append({
                "name": "put", "src_buff": [self._part(one.row.begin, one.row.n)], "dst_buff": [put],
                "channel_ids": [peers.index(to)], "channel_type": "memory",
            })  # fmt: skip
        for one in self._sent[turn]:
            if one.row.is_local:
                landed = {"type": "s", "index": one.at, "size": one.row.n}
                source = [self._part(one.row.begin, one.row.n)]
                found.append({"name": "copy", "src_buff": source, "dst_buff": [landed]})
        if found:
            found.append(_NOP)
        found += _on_channels("signal", self._to([turn]), peers)
        if whence := self._whence([turn]):
            found += [*_on_channels("wait", whence, peers), _NOP]
        return found + self._taken(turn)

    def _taken(self, turn: int) -> list[Operation]:
        """Return the operations that take what has landed; those of the same chunks one after the other."""
        found: list[Operation] = []
        touched: set[int] = set()
        for one in self._come[turn]:
            landed = {"type": "s", "index": one.at, "size": one.row.n}
            place = self._part(one.row.to, one.row.n)
            writes = set(one.row.writes(self._chunks.size))
            if writes & touched:
                found.append(_NOP)
                touched.clear()
            touched |= writes
            if one.row.reduce:
                sources = [place, landed]
                found.append({"name": "re", "src_buff": sources, "dst_buff": [place], "reduce_op": "sum"})
            else:
                found.append({"name": "copy", "src_buff": [landed], "dst_buff": [place]})
        return [*found, _NOP] if found else found

    def _part(self, element: int, n: int) -> Operation:
        kind, index = self._chunks.place(element)
        return {"type": kind, "index": index, "size": n}

    def _to(self, turns: Sequence[int]) -> list[int]:
        return sorted({one.row.destination for t in turns for one in self._sent[t] if not one.row.is_local})

    def _whence(self, turns: Sequence[int]) -> list[int]:
        return sorted({one.row.source for t in turns for one in self._come[t] if not one.row.is_local})


def _on_channels(name: str, ranks: Sequence[int], peers: list[int]) -> Iterator[Operation]:
    """Yield an operation on the channels to some ranks, so many at once as the executor takes."""
    ids = [peers.index(rank) for rank in ranks]
    for begin in range(0, len(ids), MAX_AT_ONCE):
        some = ids[begin : begin + MAX_AT_ONCE]
        yield {"name": name, "channel_ids": some, "channel_type": "memory"}
