"""Execution plans of MSCCL++, which runs collectives of its users on GPUs: their JSON, written and read.

Limits and rules are those of the executor in the library itself (microsoft/mscclpp, src/core/executor):
operations of a thread block one after the other, channels with a semaphore each way, chunks of one size.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from petacomm.base.errors import ConfigError, printable
from petacomm.base.files import read_text

# Operations of a thread block, its channels, channels of an operation, semaphores and barriers of a GPU.
MAX_OPERATIONS, MAX_CHANNELS, MAX_AT_ONCE, MAX_SEMAPHORES = 64, 16, 8, 16
MAX_BLOCKS, MAX_CHUNKS = 4096, 2**31 - 1
BUFFERS = {"i": "input_chunks", "o": "output_chunks", "s": "scratch_chunks"}
CHANNELS = ("memory", "port", "switch")
OPERATIONS = frozenset(
    {
        *("nop", "barrier", "signal", "wait", "flush", "rlxsignal", "rlxwait", "pipeline", "sem_acquire"),
        *("sem_release", "put", "pws", "pwsf", "get", "copy", "re", "res", "rre", "rres", "ppkt", "rppkt"),
        *("respkt", "cpkt", "upkt", "repkt", "recpkt", "recspkt", "glres", "gstore", "gstorepkt"),
    }
)
_BUFFER_KEYS = ("remote_buffer_refs", "access_channel_type", "remote_buffer_ids")
_SIGNALS, _WAITS = ("signal", "rlxsignal", "pws", "pwsf"), ("wait", "rlxwait")

Operation: TypeAlias = dict[str, Any]


@dataclass
class PlanBlock:
    """A thread block.

    Attributes
    ----------
    operations : list of dict
        As the file has them; channels and buffers of other GPUs by their places in the lists below.
    channels, buffers : list of int
        Of the memory channels and the remote buffers of the GPU, those that the block uses.
    """

    operations: list[Operation] = field(default_factory=list)
    channels: list[int] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)

    def as_json(self, number: int) -> dict[str, Any]:
        """Return what the file has of it."""
        channels = {"channel_type": "memory", "channel_ids": self.channels}
        buffers = {"access_channel_type": "memory", "remote_buffer_ids": self.buffers}
        return {
            "id": number, "ops": self.operations, "channels": [channels] if self.channels else [],
            "remote_buffer_refs": [buffers] if self.buffers else [],
        }  # fmt: skip


@dataclass
class PlanGpu:
    """A GPU of a plan.

    Attributes
    ----------
    chunks : (int, int, int)
        Of input, output and scratch.
    channels : list of int
        The GPUs to which its memory channels lead. The n-th channel to a GPU is the n-th of that one's back.
    buffers : list of (int, str)
        GPU and kind (i, o, s) of the buffers of others that it writes to and reads.
    n_semaphores : int
        Between its thread blocks; they begin at 0.
    blocks : list of PlanBlock
    """

    chunks: tuple[int, int, int]
    channels: list[int] = field(default_factory=list)
    buffers: list[tuple[int, str]] = field(default_factory=list)
    n_semaphores: int = 0
    blocks: list[PlanBlock] = field(default_factory=list)

    def as_json(self, rank: int) -> dict[str, Any]:
        """Return what the file has of it."""
        channels = {"channel_type": "memory", "connected_to": self.channels}
        return {
            "id": rank,
            **dict(zip(BUFFERS.values(), self.chunks, strict=True)),
            "threadblocks": [block.as_json(number) for number, block in enumerate(self.blocks)],
            "channels": [channels] if self.channels else [],
            "remote_buffers": [
                {"rank": other, "type": kind, "access_channel_types": ["memory"]}
                for other, kind in self.buffers
            ],
            "semaphores": [{"init_value": 0}] * self.n_semaphores,
        }


@dataclass
class MscclppPlan:
    """An execution plan of MSCCL++, of which memory channels alone are kept.

    Attributes
    ----------
    name, collective : str
    in_place : bool
        Whether input and output are the same memory.
    gpus : list of PlanGpu
        Of each rank.
    protocol : str
        "Simple", or "LL" for packets with flags.
    """

    name: str
    collective: str
    in_place: bool
    gpus: list[PlanGpu]
    protocol: str = "Simple"

    @property
    def n_ranks(self) -> int:
        """Number of GPUs."""
        return len(self.gpus)

    def text(self) -> str:
        """Return the plan as JSON."""
        plan = {
            "name": self.name, "collective": self.collective, "protocol": self.protocol,
            "inplace": self.in_place, "reuse_resources": False,
            "gpus": [gpu.as_json(rank) for rank, gpu in enumerate(self.gpus)],
            "num_threads_per_block": 1024, "use_double_scratch_buffer": False, "buffer_alignment": 16,
            "min_message_size": 0, "max_message_size": 2**64 - 1,
        }  # fmt: skip
        return json.dumps(plan, indent=1) + "\n"

    def messages(self) -> Counter[tuple[int, int]]:
        """Return how many chunks go from each rank to each other, written by the one or read by the other."""
        found: Counter[tuple[int, int]] = Counter()
        for rank, gpu in enumerate(self.gpus):
            for block in gpu.blocks:
                for operation in _all_operations(block.operations):
                    for other, n in _remote(gpu, block, operation.get("dst_buff", ())):
                        found[rank, other] += n
                    for other, n in _remote(gpu, block, operation.get("src_buff", ())):
                        found[other, rank] += n
        return found


def _all_operations(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations, and those of pipelines."""
    for operation in operations:
        yield operation
        yield from operation.get("ops", ())


def _remote(gpu: PlanGpu, block: PlanBlock, parts: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
    """Yield GPU and chunks of those parts of an operation that are in the memory of others."""
    for part in parts:
        if "buffer_id" in part:
            yield gpu.buffers[block.buffers[part["buffer_id"]]][0], part["size"]


def read_mscclpp(path: str | os.PathLike[str]) -> MscclppPlan:
    """Read an execution plan of MSCCL++.

    Raises
    ------
    ConfigError
        If there is no such file, it is no plan, or breaks a rule of the executor; the error names GPU, thread
        block and operation.
    """
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, json.JSONDecodeError) else "no JSON"
        raise ConfigError(f"{path}: {what}", mend="take a plan as MSCCL++ reads it") from None
    return _PlanReader(str(path)).plan(found)


def _shown(value: Any) -> str:
    """Return a value of JSON for messages; of what has others inside, its kind alone."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return printable(json.dumps(value)[:40])


class _PlanReader:
    """A plan that is read: values of JSON whose kinds nobody has looked at."""

    def __init__(self, file: str) -> None:
        self._file, self._place = file, ""

    def plan(self, found: Any) -> MscclppPlan:
        plan = self._object(found)
        given = self._list(plan, "gpus")
        n_ranks = len(given)
        in_place = plan.get("inplace")
        if not n_ranks or not isinstance(in_place, bool):
            self._fail("a plan has 'gpus', and 'inplace' is true or false")
        gpus = []
        for rank, one in enumerate(given):
            self._place = f"gpu {rank}"
            gpus.append(self._gpu(self._object(one), rank, n_ranks))
        for rank, (one, gpu) in enumerate(zip(given, gpus, strict=True)):
            for number, block in enumerate(self._list(one, "threadblocks")):
                self._block(block, number, rank, gpu, gpus)
        self._place = ""
        self._check_signals(gpus)
        words = [self._word(plan, name) for name in ("name", "collective", "protocol")]
        return MscclppPlan(words[0], words[1], in_place, gpus, words[2])

    def _gpu(self, one: dict[str, Any], rank: int, n_ranks: int) -> PlanGpu:
        if self._number(one, "id", n_ranks - 1) != rank:
            self._fail(f"gpu {one['id']} stands in the place of gpu {rank}")
        chunks = [self._number(one, name, MAX_CHUNKS) for name in BUFFERS.values()]
        semaphores = self._list(one, "semaphores") if "semaphores" in one else []
        gpu = PlanGpu((chunks[0], chunks[1], chunks[2]), n_semaphores=len(semaphores))
        if gpu.n_semaphores > MAX_SEMAPHORES:
            self._fail(f"{gpu.n_semaphores} semaphores, and the executor has {MAX_SEMAPHORES}")
        for channel in self._list(one, "channels"):
            if self._word(self._object(channel), "channel_type", CHANNELS) == "memory":
                to = self._list(channel, "connected_to")
                gpu.channels += [self._in_range(other, n_ranks - 1, "connected_to") for other in to]
        for buffer in self._list(one, "remote_buffers"):
            other = self._number(self._object(buffer), "rank", n_ranks - 1)
            gpu.buffers.append((other, self._word(buffer, "type", tuple(BUFFERS))))
        return gpu

    def _block(self, one: Any, number: int, rank: int, gpu: PlanGpu, gpus: list[PlanGpu]) -> None:
        self._place = f"gpu {rank}, thread block {number}"
        block = PlanBlock()
        if self._number(self._object(one), "id", MAX_BLOCKS) != number:
            self._fail("thread blocks stand in the order of their numbers")
        for (key, kind, ids), into, most in (
            (("channels", "channel_type", "channel_ids"), block.channels, len(gpu.channels)),
            (_BUFFER_KEYS, block.buffers, len(gpu.buffers)),
        ):
            parts = self._list(one, key) if key in one else []
            for part in parts:
                if self._word(self._object(part), kind, CHANNELS) == "memory":
                    into += [self._in_range(value, most - 1, ids) for value in self._list(part, ids)]
        if len(block.channels) > MAX_CHANNELS or len(block.buffers) > MAX_CHANNELS:
            self._fail(f"more than {MAX_CHANNELS} channels or remote buffers")
        block.operations = self._list(one, "ops")
        for at, operation in enumerate(self._operations(block.operations)):
            self._place = f"gpu {rank}, thread block {number}, operation {at}"
            self._operation(operation, block, gpu, gpus)
        gpu.blocks.append(block)

    def _operations(self, operations: list[Any]) -> list[Operation]:
        found = []
        for operation in operations:
            found.append(self._object(operation))
            if "ops" in operation:
                found += [self._object(one) for one in self._list(operation, "ops")]
        if len(found) > MAX_OPERATIONS:
            self._fail(f"{len(found)} operations, and the executor has room for {MAX_OPERATIONS}")
        return found

    def _operation(self, operation: Operation, block: PlanBlock, gpu: PlanGpu, gpus: list[PlanGpu]) -> None:
        self._word(operation, "name", OPERATIONS)
        kind = operation.get("channel_type", "memory")
        if "channel_ids" in operation:
            ids = self._list(operation, "channel_ids")
            most = len(block.channels) - 1 if kind == "memory" else MAX_CHANNELS - 1
            if len(ids) > MAX_AT_ONCE:
                self._fail(f"{len(ids)} channels at once, and the executor takes {MAX_AT_ONCE}")
            for value in ids:
                self._in_range(value, most, "channel_ids")
        for value in self._list(operation, "semaphore_ids") if "semaphore_ids" in operation else ():
            self._in_range(value, gpu.n_semaphores - 1, "semaphore_ids")
        for key in ("src_buff", "dst_buff"):
            for part in self._list(operation, key) if key in operation else ():
                self._part(self._object(part), key, kind, block, gpu, gpus)

    def _part(
        self, part: dict[str, Any], key: str, kind: Any, block: PlanBlock, gpu: PlanGpu, gpus: list[PlanGpu]
    ) -> None:
        index, size = (self._number(part, name, MAX_CHUNKS) for name in ("index", "size"))
        if "buffer_id" in part:
            if kind != "memory":
                self._fail("buffers of others are read here for memory channels alone")
            other, buffer = gpu.buffers[
                block.buffers[self._number(part, "buffer_id", len(block.buffers) - 1)]
            ]
            chunks = gpus[other].chunks
        elif "switch_channel_id" in part:
            return
        else:
            buffer, chunks = self._word(part, "type", tuple(BUFFERS)), gpu.chunks
        there = chunks[tuple(BUFFERS).index(buffer)]
        if index + size > there:
            self._fail(f"{key} has {size} chunks from {index} of {there} in '{buffer}'")

    def _check_signals(self, gpus: list[PlanGpu]) -> None:
        """Look at the memory channels: what one end signals, the other waits for."""
        signals: Counter[tuple[int, int, int]] = Counter()
        waits: Counter[tuple[int, int, int]] = Counter()
        for rank, gpu in enumerate(gpus):
            turn: Counter[int] = Counter()
            numbered = []
            for other in gpu.channels:
                numbered.append((other, turn[other]))
                turn[other] += 1
            for block in gpu.blocks:
                for operation in _all_operations(block.operations):
                    if operation.get("channel_type", "memory") != "memory":
                        continue
                    for value in operation.get("channel_ids", ()):
                        other, number = numbered[block.channels[value]]
                        if operation["name"] in _SIGNALS:
                            signals[rank, other, number] += 1
                        if operation["name"] in _WAITS:
                            waits[other, rank, number] += 1
        for one, other, number in sorted({*signals, *waits}):
            there, here = signals[one, other, number], waits[one, other, number]
            if there != here:
                self._fail(
                    f"gpu {one} signals gpu {other} {there} times on channel {number}, which waits {here}"
                )

    def _object(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._fail(f"an object is to stand in the place of {_shown(value)}")
        return value

    def _list(self, one: Mapping[str, Any], name: str) -> list[Any]:
        if not isinstance(one, dict) or not isinstance(one.get(name), list):
            self._fail(f"lacks a list '{name}'")
        found: list[Any] = one[name]
        return found

    def _word(self, one: Mapping[str, Any], name: str, known: Iterable[str] = ()) -> str:
        value = one.get(name)
        if not isinstance(value, str) or (known and value not in known):
            self._fail(f"'{name}' is {_shown(value)}")
        return value

    def _number(self, one: Mapping[str, Any], name: str, most: int) -> int:
        return self._in_range(one.get(name), most, name)

    def _in_range(self, value: Any, most: int, name: str) -> int:
        if type(value) is not int or not 0 <= value <= most:
            self._fail(f"'{name}' has {_shown(value)}, which is no number from 0 to {most}")
        return value

    def _fail(self, what: str) -> NoReturn:
        where = f"{self._file}: {self._place}: " if self._place else f"{self._file}: "
        raise ConfigError(f"{where}{what}", mend="take a plan as MSCCL++ reads it")
