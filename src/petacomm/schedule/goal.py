"""Schedules in GOAL, the language of the simulator LogGOPSim (Hoefler, Schneider and Lumsdaine 2010)."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.base.files import read_text, write_text
from petacomm.base.typing import Int32Array, Int64Array
from petacomm.schedule.flat_messages import FlatMessages, pair_messages
from petacomm.schedule.schedule import Schedule

_COUNT = r"(\d{1,18})"
_RANKS = re.compile(rf"num_ranks\s+{_COUNT}$")
_RANK = re.compile(rf"rank\s+{_COUNT}\s*\{{$")
_LABEL = r"([A-Za-z_]\w*)"
_PLACE = r"(?:\s+(?:cpu|nic)\s+\d+)*"
_MESSAGE = re.compile(
    rf"{_LABEL}:\s*(send|recv)\s+{_COUNT}b\s+(?:to|from)\s+{_COUNT}(?:\s+tag\s+{_COUNT})?{_PLACE}$"
)
_CALC = re.compile(rf"{_LABEL}:\s*calc\s+{_COUNT}{_PLACE}$")
_REQUIRES = re.compile(rf"{_LABEL}\s+(?:requires|irequires)\s+{_LABEL}$")


@dataclass(frozen=True)
class GoalMessages:
    """Messages of a GOAL file, in the order of their sends.

    Attributes
    ----------
    n_ranks : int
    source, destination : int32 (n,)
    bytes : int64 (n,)
    after : tuple of tuples of int
        Of each message, those that its source has received before, by what its send requires.
    """

    n_ranks: int
    source: Int32Array
    destination: Int32Array
    bytes: Int64Array
    after: tuple[tuple[int, ...], ...]


def goal_text(schedule: Schedule, itemsize: int, ns_per_byte: float = 0.0) -> str:
    """Return a schedule as GOAL.

    A send requires all receives whose data it carries, and has its number in the schedule as its tag.

    Parameters
    ----------
    schedule : Schedule
    itemsize : int
        Bytes of an element.
    ns_per_byte : float
        Nanoseconds in which a rank combines a byte that it has received with its own; what is sent on waits
        for that. With 0 there are no calculations.

    Raises
    ------
    ScheduleError
        If it is no schedule of messages between two ranks, as those of trees and of lines of a torus.
    """
    messages = pair_messages(schedule, itemsize, "GOAL")
    programs = _Programs(schedule.n_ranks, messages, ns_per_byte)
    return f"num_ranks {schedule.n_ranks}\n" + "".join(
        f"\nrank {rank} {{\n{''.join(lines)}}}\n" for rank, lines in enumerate(programs.lines)
    )


def write_goal(
    schedule: Schedule, itemsize: int, path: str | os.PathLike[str], ns_per_byte: float = 0.0
) -> Path:
    """Write `goal_text`, and return the path."""
    write_text(path, goal_text(schedule, itemsize, ns_per_byte))
    return Path(path)


class _Programs:
    """The operations of each rank, in the order of the messages."""

    def __init__(self, n_ranks: int, messages: FlatMessages, ns_per_byte: float) -> None:
        self.lines: list[list[str]] = [[] for _ in range(n_ranks)]
        self._n_labels = [0] * n_ranks
        arrived: list[str] = []  # of each message, what follows its receive requires
        columns = (messages.source, messages.destination, messages.bytes, messages.combines)
        for i, (source, destination, size, combines) in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            after = messages.after[messages.after_first[i] : messages.after_first[i + 1]].tolist()
            send = self._add(source, f"send {size}b to {destination} tag {i}")
            self.lines[source] += [f"{send} requires {arrived[j]}\n" for j in after]
            last = self._add(destination, f"recv {size}b from {source} tag {i}")
            ns = round(ns_per_byte * size)
            if combines and ns:
                received, last = last, self._add(destination, f"calc {ns}")
                self.lines[destination].append(f"{last} requires {received}\n")
            arrived.append(last)

    def _add(self, rank: int, operation: str) -> str:
        self._n_labels[rank] += 1
        label = f"l{self._n_labels[rank]}"
        self.lines[rank].append(f"{label}: {operation}\n")
        return label


def read_goal(path: str | os.PathLike[str]) -> GoalMessages:
    """Read the messages of a GOAL file, as LogGOPSim has them and `goal_text` writes them.

    Sends and receives of two ranks are matched by their tags, in their order.

    Raises
    ------
    ConfigError
        If there is no such file, a line is none of GOAL, or sends and receives do not match; the error names
        the line.
    """
    return parse_goal(str(path), read_text(path).splitlines())


def parse_goal(file: str, lines: Sequence[str]) -> GoalMessages:
    """Return the messages of the lines of a GOAL file, as `read_goal`; its name is for errors."""
    return _Parser(file, lines).messages()


class _Parser:
    """A GOAL file; an operation is the number of its line."""

    def __init__(self, file: str, lines: Sequence[str]) -> None:
        self.file, self.lines = file, lines
        self.n_ranks = 0
        self.sends: dict[int, tuple[int, int, int]] = {}  # line -> source, destination, bytes
        self.required: defaultdict[int, list[int]] = defaultdict(list)
        self.queues: defaultdict[tuple[int, int, int], tuple[list[int], list[int]]] = defaultdict(
            lambda: ([], [])
        )
        self._labels: dict[str, int] = {}
        self._rank = -1
        self._seen: set[int] = set()
        for number, line in enumerate(lines):
            words = line.split("//")[0].strip()
            if words:
                self._read(number, words)
        if not self.n_ranks:
            raise self._error(0, "no number of ranks", "begin with num_ranks N")
        if self._rank >= 0:
            raise self._error(len(lines) - 1, f"rank {self._rank} has no end", "close it with }")

    def _error(self, number: int, what: str, mend: str | None = None) -> ConfigError:
        return ConfigError(printable(what), where=f"{self.file}:{max(number, 0) + 1}", mend=mend)

    def _read(self, number: int, words: str) -> None:
        if not self.n_ranks:
            found = _RANKS.match(words)
            self.n_ranks = int(found[1]) if found else 0
            if not 1 <= self.n_ranks < 2**31:
                raise self._error(number, f"'{words[:40]}' is no number of ranks", "begin with num_ranks N")
        elif self._rank < 0:
            self._begin_rank(number, words)
        elif words == "}":
            self._rank = -1
        else:
            self._read_operation(number, words)

    def _begin_rank(self, number: int, words: str) -> None:
        found = _RANK.match(words)
        rank = int(found[1]) if found else self.n_ranks
        if rank >= self.n_ranks or rank in self._seen:
            what = f"'{words[:40]}' begins none of {self.n_ranks} ranks"
            raise self._error(number, what, "write 'rank R {', each rank once")
        self._seen.add(rank)
        self._rank, self._labels = rank, {}

    def _read_operation(self, number: int, words: str) -> None:
        if found := _MESSAGE.match(words):
            label, kind, size, other, tag = found.groups()
            if int(other) >= self.n_ranks:
                raise self._error(number, f"there is no rank {other} of {self.n_ranks}")
            ends = (self._rank, int(other)) if kind == "send" else (int(other), self._rank)
            if kind == "send":
                self.sends[number] = (*ends, int(size))
            self.queues[(*ends, int(tag or 0))][kind == "recv"].append(number)
            self._name(number, label)
        elif found := _CALC.match(words):
            self._name(number, found[1])
        elif found := _REQUIRES.match(words):
            unknown = [label for label in found.groups() if label not in self._labels]
            if unknown:
                raise self._error(number, f"rank {self._rank} has no operation {unknown[0]} before this line")
            after, before = (self._labels[label] for label in found.groups())
            self.required[after].append(before)
        else:
            raise self._error(number, f"'{words[:40]}' is no operation", "send, recv, calc or requires")

    def _name(self, number: int, label: str) -> None:
        if label in self._labels:
            raise self._error(number, f"rank {self._rank} has an operation {label} already")
        self._labels[label] = number

    def messages(self) -> GoalMessages:
        """Return the messages, matched."""
        number_of = {line: number for number, line in enumerate(self.sends)}
        message_of: dict[int, int] = {}  # line of a receive -> message
        for (source, destination, tag), (sent, received) in self.queues.items():
            if len(sent) != len(received):
                what = f"{len(sent)} sends and {len(received)} receives from {source} to {destination}"
                raise self._error((sent or received)[0], f"{what}, tag {tag}")
            message_of |= {to: number_of[line] for line, to in zip(sent, received, strict=True)}
        received_before = self._received_before(message_of)
        after = tuple(tuple(sorted(received_before[line])) for line in self.sends)
        columns = np.array(list(self.sends.values()), np.int64).reshape(-1, 3).T
        source, destination = columns[:2].astype(np.int32)
        return GoalMessages(self.n_ranks, source, destination, columns[2], after)

    def _received_before(self, message_of: dict[int, int]) -> dict[int, frozenset[int]]:
        """Return the messages whose receives a send requires, directly or by other operations.

        Each operation is looked at once; in a chain of them all share one set.
        """
        found = {line: frozenset([message]) for line, message in message_of.items()}
        for send in self.sends:
            path, begun = [send], {send}
            while path:
                line = path[-1]
                waiting = [other for other in self.required.get(line, ()) if other not in found]
                if not waiting:
                    parts = {found[other] for other in self.required.get(line, ())}
                    found[line] = parts.pop() if len(parts) == 1 else frozenset().union(*parts)
                    path.pop()
                elif waiting[0] in begun:
                    raise self._error(waiting[0], "this operation requires itself, by way of others")
                else:
                    path.append(waiting[0])
                    begun.add(waiting[0])
        return found
