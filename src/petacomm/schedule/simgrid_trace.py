"""Schedules as time-independent traces of SimGrid (Desprez et al. 2011), which ``smpirun -replay`` runs."""

from __future__ import annotations

import os
import re
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.base.files import read_text, write_text
from petacomm.base.typing import Int32Array, Int64Array
from petacomm.schedule.flat_messages import FlatMessages, pair_messages
from petacomm.schedule.schedule import Schedule

# Actions that send nothing, and those that send a message.
_SILENT = {"init", "finalize", "compute", "sleep", "location", "comm_size", "comm_split", "comm_dup"}
_WAITS = {"wait", "waitall", "waitany", "test", "irecv", "recv"}
_SENDS = {"send", "isend"}
_COUNT = re.compile(r"\d{1,18}$")
# Bytes of an element by the number of its type, as SMPI counts types in traces (3.32): double, int, char,
# short, long, float and byte.
_TYPES = {"0": 8, "1": 4, "2": 1, "3": 2, "4": 8, "5": 4, "6": 1}


class TracedMessages(NamedTuple):
    """Messages of a trace, in the order of its lines.

    Attributes
    ----------
    n_ranks : int
    source, destination : int32 (n,)
    bytes : int64 (n,)
    """

    n_ranks: int
    source: Int32Array
    destination: Int32Array
    bytes: Int64Array


def simgrid_text(schedule: Schedule, itemsize: int, flops_per_byte: float = 0.0) -> str:
    """Return a schedule as a time-independent trace of all ranks.

    A rank waits for a receive before it sends what hangs on it, and for all at its end. Messages have their
    number in the schedule as their tag.

    Parameters
    ----------
    schedule : Schedule
    itemsize : int
        Bytes of an element.
    flops_per_byte : float
        Operations by which a rank combines a byte that it has received with its own, which it does as soon as
        it has waited for it. With 0 there are no computations.

    Raises
    ------
    ScheduleError
        If it is no schedule of messages between two ranks, as those of trees and of lines of a torus.
    """
    messages = pair_messages(schedule, itemsize, "a trace")
    traces = _Traces(schedule.n_ranks, messages, flops_per_byte)
    return "".join(
        f"{rank} init\n{''.join(lines)}{rank} waitall\n{rank} finalize\n"
        for rank, lines in enumerate(traces.lines)
    )


def write_simgrid(
    schedule: Schedule, itemsize: int, path: str | os.PathLike[str], flops_per_byte: float = 0.0
) -> Path:
    """Write `simgrid_text`, and beside it the list of traces that ``smpirun -replay`` takes; return its path.

    The list has the name of `path` with the suffix ``.txt`` and names the trace as it stands in its folder.

    Raises
    ------
    ScheduleError
        As `simgrid_text`.
    ConfigError
        If another file has the name of the list; nothing is written.
    """
    path = Path(path)
    listed = path.with_suffix(".txt")
    if listed == path:
        raise ConfigError("is the name of the list of traces", where=str(path), mend="end it with .tit")
    content = f"{path.name}\n"
    if listed.exists() and read_text(listed) != content:
        what = "is no list of this trace, which would be written there"
        raise ConfigError(what, where=str(listed), mend="choose another name, or remove it")
    write_text(path, simgrid_text(schedule, itemsize, flops_per_byte))
    write_text(listed, content)
    return listed


class _Traces:
    """The actions of each rank, in the order of the messages."""

    def __init__(self, n_ranks: int, messages: FlatMessages, flops_per_byte: float) -> None:
        self.lines: list[list[str]] = [[] for _ in range(n_ranks)]
        self._messages, self._flops_per_byte = messages, flops_per_byte
        self._waited = np.zeros(len(messages), np.bool_)
        columns = (messages.source, messages.destination, messages.bytes)
        for i, (source, destination, size) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            for j in messages.after[messages.after_first[i] : messages.after_first[i + 1]].tolist():
                self._wait(j)
            self.lines[source].append(f"{source} isend {destination} {i} {size}\n")
            self.lines[destination].append(f"{destination} irecv {source} {i} {size}\n")

    def _wait(self, i: int) -> None:
        if self._waited[i]:
            return
        self._waited[i] = True
        source, rank = int(self._messages.source[i]), int(self._messages.destination[i])
        self.lines[rank].append(f"{rank} wait {source} {rank} {i}\n")
        flops = self._flops_per_byte * float(self._messages.bytes[i])
        if self._messages.combines[i] and flops:
            self.lines[rank].append(f"{rank} compute {flops:.17g}\n")


def read_simgrid(path: str | os.PathLike[str]) -> TracedMessages:
    """Read the messages of a time-independent trace, of one file for all ranks.

    Raises
    ------
    ConfigError
        If there is no such file, a line is no action or a collective, whose messages a trace leaves open, or
        sends and receives do not match; the error names the line.
    """
    return parse_simgrid(str(path), read_text(path).splitlines())


def parse_simgrid(file: str, lines: Sequence[str]) -> TracedMessages:
    """Return the messages of the lines of a trace, as `read_simgrid`; its name is for errors."""

    def error(number: int, what: str, mend: str | None = None) -> ConfigError:
        return ConfigError(printable(what), where=f"{file}:{number + 1}", mend=mend)

    ranks: set[int] = set()
    rows: list[tuple[int, int, int]] = []
    open_ends: defaultdict[tuple[int, int, int], deque[int]] = defaultdict(deque)  # of lines, ~ of receives
    for number, line in enumerate(lines):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) < 2 or not _COUNT.match(words[0]) or int(words[0]) >= 2**31 - 1:
            raise error(number, f"'{line[:40]}' is no action", "write the rank, what it does, and of what")
        rank, action = int(words[0]), words[1].lower()
        ranks.add(rank)
        if action in _SENDS | {"irecv", "recv"}:
            other, tag, size = _message(words, partial(error, number))
            sends = action in _SENDS
            ends = (rank, other, tag) if sends else (other, rank, tag)
            if sends:
                rows.append((rank, other, size))
            _close(open_ends[ends], number if sends else ~number)
        elif action not in _SILENT | _WAITS:
            raise error(
                number, f"the messages of '{words[1][:20]}' are not in the trace",
                "petacomm record tells those of a job",
            )  # fmt: skip
    if not ranks:
        raise error(0, "no actions")
    for (source, destination, tag), numbers in open_ends.items():
        if numbers:
            first = numbers[0] if numbers[0] >= 0 else ~numbers[0]
            what = f"{len(numbers)} messages from {source} to {destination}, tag {tag}, have one end alone"
            raise error(first, what)
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    ends_of = columns[:2].astype(np.int32)
    n_ranks = 1 + max(ranks | set(columns[1].tolist()))
    return TracedMessages(n_ranks, ends_of[0], ends_of[1], columns[2])


def _message(words: Sequence[str], error: Callable[[str], ConfigError]) -> tuple[int, int, int]:
    """Return partner, tag and bytes of a send or a receive."""
    if len(words) not in (5, 6) or not all(_COUNT.match(word) for word in words[2:5]):
        raise error(f"'{words[1]}' is not followed by a rank, a tag and a size")
    if len(words) == 6 and words[5] not in _TYPES:
        raise error(f"elements of type {words[5][:20]} have no size here")
    other, tag, size = (int(word) for word in words[2:5])
    if other >= 2**31 - 1:
        raise error(f"there is no rank {other}")
    return other, tag, size * (_TYPES[words[5]] if len(words) == 6 else 1)


def _close(open_ends: deque[int], end: int) -> None:
    """Match an end of a message with the first other end that waits for it, or let it wait."""
    if open_ends and (open_ends[0] >= 0) != (end >= 0):
        open_ends.popleft()
    else:
        open_ends.append(end)
