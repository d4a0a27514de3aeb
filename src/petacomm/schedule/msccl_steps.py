"""Schedules as programs of MSCCL: steps of thread blocks, and what each waits for."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from petacomm.base.files import write_text
from petacomm.schedule.chunk_division import ChunkDivision, RoundRow
from petacomm.schedule.msccl import (
    MAX_BLOCKS,
    MAX_CHUNKS,
    MAX_COUNT,
    MAX_STEPS,
    MscclProgram,
    Step,
    ThreadBlock,
)
from petacomm.schedule.schedule import Round, Schedule, ScheduleError

# Transfers of a connection that are not received yet: of eight slots of NCCL's, one takes four.
_IN_FLIGHT = 2


class _Gpu:
    """The thread blocks of a rank, and who has used each of its chunks last."""

    def __init__(self, sends: list[int], receives: list[int]) -> None:
        both = [rank for rank in sends if rank in receives]
        only_sends = [rank for rank in sends if rank not in receives]
        only_receives = [rank for rank in receives if rank not in sends]
        n = max(len(only_sends), len(only_receives))
        padded = [one + [-1] * (n - len(one)) for one in (only_sends, only_receives)]
        self.blocks = [ThreadBlock(rank, rank) for rank in both]
        self.blocks += [ThreadBlock(send, receive) for send, receive in zip(*padded, strict=True)]
        self.sender = {block.send: number for number, block in enumerate(self.blocks)}
        self.receiver = {block.receive: number for number, block in enumerate(self.blocks)}
        self._written: dict[int, tuple[int, int]] = {}
        self._read: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def copying_block(self) -> int:
        """Return the number of a thread block for copies in memory."""
        if not self.blocks:
            self.blocks.append(ThreadBlock())
        return 0

    def add(self, block: int, step: Step, reads: range, writes: range) -> None:
        """Append a step, which waits for what others do with its chunks before."""
        before = [self._written[chunk] for chunk in (*reads, *writes) if chunk in self._written]
        before += [reader for chunk in writes for reader in self._read[chunk]]
        last: dict[int, int] = {}
        for other, number in before:
            if other != block:
                last[other] = max(number, last.get(other, -1))
        steps = self.blocks[block].steps
        *first, step.after = [*sorted(last.items())] or [(-1, -1)]
        steps += [Step("nop", after=one) for one in first]
        for other, number in last.items():
            self.blocks[other].steps[number].awaited = True
        steps.append(step)
        here = block, len(steps) - 1
        for chunk in reads:
            self._read[chunk].append(here)
        for chunk in writes:
            self._written[chunk] = here
            self._read[chunk].clear()


def msccl_program(schedule: Schedule, name: str | None = None) -> MscclProgram:
    """Return a schedule as an algorithm of MSCCL.

    What a rank sends it takes from its own memory as the schedule says; a receive waits until the rank has
    sent what it overwrites. Values that several ranks send to be summed in one round are added as they are
    received. All-reduces are in place.

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
        one size, or more steps or neighbours than MSCCL takes.
    """
    chunks = ChunkDivision.of(schedule, "MSCCL", MAX_CHUNKS)
    gpus = _gpus(schedule)
    for part in schedule.rounds():
        _add_round(gpus, list(chunks.rows(part, MAX_COUNT)), chunks, schedule.algorithm)
    _check_limits(schedule, gpus)
    sizes = chunks.sends, chunks.receives, chunks.scratch
    return MscclProgram(
        name or schedule.algorithm, schedule.collective, schedule.n_ranks, chunks.sends,
        schedule.blocks is None, sizes, [gpu.blocks for gpu in gpus],
    )  # fmt: skip


def write_msccl(schedule: Schedule, path: str | os.PathLike[str], name: str | None = None) -> Path:
    """Write `msccl_program` as XML, and return the path."""
    write_text(path, msccl_program(schedule, name).text())
    return Path(path)


def _gpus(schedule: Schedule) -> list[_Gpu]:
    """Return the ranks with thread blocks for all that they send to and receive from."""
    sends: list[dict[int, None]] = [{} for _ in range(schedule.n_ranks)]
    receives: list[dict[int, None]] = [{} for _ in range(schedule.n_ranks)]
    for part in schedule.rounds():
        for source, destination in zip(*_ends(part.take(part.is_message)), strict=True):
            sends[source][destination] = receives[destination][source] = None
    return [_Gpu(list(to), list(whence)) for to, whence in zip(sends, receives, strict=True)]


def _ends(part: Round) -> tuple[list[int], list[int]]:
    return part.source.tolist(), part.destination.tolist()


def _add_round(gpus: list[_Gpu], rows: list[RoundRow], chunks: ChunkDivision, algorithm: str) -> None:
    """Append the steps of a round: ranks read before they write.

    A connection has room for `_IN_FLIGHT` transfers: of more, the first are received before the last are
    sent, which must not read what was received.
    """
    turns: defaultdict[tuple[int, int], int] = defaultdict(int)
    by_turn: defaultdict[int, list[RoundRow]] = defaultdict(list)
    for row in rows:
        by_turn[turns[row[:2]]].append(row)
        turns[row[:2]] += 1
    overwritten: set[tuple[int, int]] = set()
    for turn in range(len(by_turn) + _IN_FLIGHT - 1):
        for row in by_turn.get(turn, []):
            if not row.is_local:
                _check_reads(row, overwritten, chunks, algorithm)
                step = Step("s", chunks.place(row.begin), chunks.place(row.to), row.n)
                gpu = gpus[row.source]
                gpu.add(gpu.sender[row.destination], step, row.reads(chunks.size), range(0))
        for row in sorted(by_turn.get(turn - _IN_FLIGHT + 1, []), key=lambda row: not row.is_local):
            if row.is_local:
                _check_reads(row, overwritten, chunks, algorithm)
            _add_receive(gpus[row.destination], row, chunks)
            overwritten.update((row.destination, chunk) for chunk in row.writes(chunks.size))


def _check_reads(
    row: RoundRow, overwritten: set[tuple[int, int]], chunks: ChunkDivision, algorithm: str
) -> None:
    if any((row.source, chunk) in overwritten for chunk in row.reads(chunks.size)):
        raise ScheduleError(
            f"'{algorithm}' has to send more than {_IN_FLIGHT} parts to a rank, or to copy some, before it "
            "may receive, for which MSCCL has no room",
            mend="take another algorithm",
        )


def _add_receive(gpu: _Gpu, row: RoundRow, chunks: ChunkDivision) -> None:
    writes, there = row.writes(chunks.size), chunks.place(row.to)
    if not row.is_local:
        kind, here = ("rrc", there) if row.reduce else ("r", chunks.place(row.begin))
        gpu.add(gpu.receiver[row.source], Step(kind, here, there, row.n), range(0), writes)
        return
    if row.reduce:
        raise ScheduleError("sums in the memory of one rank cannot be told", mend="reduce messages")
    step = Step("cpy", chunks.place(row.begin), there, row.n)
    gpu.add(gpu.copying_block(), step, row.reads(chunks.size), writes)


def _check_limits(schedule: Schedule, gpus: list[_Gpu]) -> None:
    n_peers = max(len(gpu.blocks) for gpu in gpus)
    n_steps = max((len(block.steps) for gpu in gpus for block in gpu.blocks), default=0)
    for n, most, what in ((n_peers, MAX_BLOCKS, "thread blocks"), (n_steps, MAX_STEPS, "steps of one")):
        if n > most:
            raise ScheduleError(
                f"'{schedule.algorithm}' needs {n} {what}, and MSCCL has {most}",
                mend="take fewer ranks or another algorithm",
            )
