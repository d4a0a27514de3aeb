"""Ranks, communicators and windows that an OTF2 trace defines, by the numbers that its events have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from petacomm.base.errors import DataError
from petacomm.recording.recording import RankGroup

_LOCATIONS, _PROCESSES = "COMM_LOCATIONS", "COMM_LOCATION_GROUPS"  # all of MPI_COMM_WORLD, in its order


class TracedGroup(NamedTuple):
    """Ranks of a communicator, of its other side, the same unless it has two, and its number."""

    ranks: Sequence[int]
    remote: Sequence[int]
    own: dict[int, int]  # number in the communicator of each rank
    number: int


class TracedLocation(NamedTuple):
    """A thread of a process, its rank, and the number of its events."""

    number: int
    rank: int
    n_events: int


def constant_name(constant: Any) -> str:
    """Return the name of a constant of OTF2, whose classes are no enumerations of Python."""
    return str(constant).rpartition(".")[2]


@dataclass
class TraceDefinitions:
    """What a trace defines, filled by callbacks of the library."""

    names: dict[int, str] = field(default_factory=dict)
    threads: list[tuple[int, int, int]] = field(default_factory=list)  # location, process, number of events
    members: dict[int, tuple[str, list[int]]] = field(default_factory=dict)  # kind and members, by group
    sides: dict[int, tuple[int, tuple[int, ...]]] = field(
        default_factory=dict
    )  # name and groups, by communicator
    windows: dict[int, int] = field(default_factory=dict)  # communicators
    groups: list[RankGroup] = field(default_factory=list)  # of the recording
    _everyone: list[int] = field(default_factory=list)
    _found: dict[tuple[int, int], TracedGroup] = field(default_factory=dict)
    _numbers: dict[tuple[int, ...], int] = field(default_factory=dict)

    # The first argument of callbacks is the user's data, of which there are none.

    def add_string(self, _user: Any, number: int, text: str) -> None:
        """Add a text."""
        self.names[number] = text

    def add_location(
        self, _user: Any, number: int, _name: int, _kind: Any, n_events: int, process: int
    ) -> None:
        """Add a thread of a process."""
        self.threads.append((number, process, n_events))

    def add_group(self, _user: Any, number: int, _name: int, kind: Any, paradigm: Any, _flags: Any,
                  members: list[int]) -> None:  # fmt: skip
        """Add a group of MPI, of ranks, or the one that says which processes these are."""
        if constant_name(paradigm) == "MPI":
            self.members[number] = constant_name(kind), members

    def add_communicator(
        self, _user: Any, number: int, name: int, group: int, _parent: int, _flags: Any
    ) -> None:
        """Add a communicator."""
        self.sides[number] = name, (group,)

    def add_intercommunicator(self, _user: Any, number: int, name: int, one: int, other: int, _common: int,
                              _flags: Any) -> None:  # fmt: skip
        """Add a communicator between two groups."""
        self.sides[number] = name, (one, other)

    def add_window(self, _user: Any, number: int, _name: int, communicator: int, _flags: Any) -> None:
        """Add a window of one-sided calls."""
        self.windows[number] = communicator

    def locations(self) -> list[TracedLocation]:
        """Return all threads of processes of MPI.

        Raises
        ------
        DataError
            If there are none.
        """
        kinds = [
            (kind, members) for kind, members in self.members.values() if kind in (_LOCATIONS, _PROCESSES)
        ]
        if not kinds or not kinds[0][1]:
            raise DataError("no processes of MPI are defined", mend="trace a program of MPI")
        kind, members = kinds[0]
        process_of = {number: process for number, process, _ in self.threads}
        self._everyone = [process_of[member] for member in members] if kind == _LOCATIONS else members
        rank_of = {process: rank for rank, process in enumerate(self._everyone)}
        return [TracedLocation(number, rank_of[process], n) for number, process, n in self.threads
                if process in rank_of]  # fmt: skip

    @property
    def n_ranks(self) -> int:
        """Number of ranks of MPI_COMM_WORLD."""
        return len(self._everyone)

    def group(self, communicator: int, rank: int) -> TracedGroup:
        """Return the group of a communicator as a rank has it; raise a KeyError if there is none."""
        name, sides = self.sides[communicator]
        kinds = [self.members[side][0] for side in sides]
        key = (communicator, rank if len(sides) > 1 or kinds == ["COMM_SELF"] else -1)
        if key not in self._found:
            found = [[rank] if kind == "COMM_SELF" else self.members[side][1] for side, kind in
                     zip(sides, kinds, strict=True)]  # fmt: skip
            if len(found) > 1 and rank not in found[0]:
                found.reverse()
            self._found[key] = self._made(self.names.get(name, ""), *found)
        return self._found[key]

    def window(self, window: int, rank: int) -> TracedGroup:
        """Return the group of a window."""
        return self.group(self.windows[window], rank)

    def _made(self, name: str, ranks: list[int], *others: list[int]) -> TracedGroup:
        if max((rank for side in (ranks, *others) for rank in side), default=0) >= self.n_ranks:
            raise KeyError(f"ranks of '{name}' are not within 0 to {self.n_ranks - 1}")
        identity = (*ranks, *(number for side in others for number in (-1, *side)))
        number = self._numbers.setdefault(identity, len(self.groups))
        if number == len(self.groups):
            self.groups.append(RankGroup(name, np.array(ranks, np.int32), bool(others)))
        remote = others[0] if others else ranks
        return TracedGroup(ranks, remote, {rank: own for own, rank in enumerate(ranks)}, number)
