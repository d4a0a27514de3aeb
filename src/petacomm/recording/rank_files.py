"""The files that ranks write when a recorded program ends, merged into a `Recording`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import DataError
from petacomm.recording.collective_calls import CollectiveCalls, CollectiveRow
from petacomm.recording.recording import CALLS, MESSAGES, RankGroup, Recording, summed

_NUMBER_OF = {name: number for number, name in enumerate(CALLS)}
_GET = _NUMBER_OF["get"]  # goes from the partner to the rank that counts it
_SHOWN = 5  # ranks in a message


class _GroupLine(NamedTuple):
    identity: str
    size: int
    own: int  # rank in the group
    inter: bool
    name: str


@dataclass
class _RankFile:
    """What the file of a rank has; groups have numbers of the rank's own."""

    rank: int
    n_ranks: int
    job: str
    library: str = ""
    groups: dict[int, _GroupLine] = field(default_factory=dict)
    ranks: dict[int, list[int]] = field(default_factory=dict)
    direct: list[tuple[int, ...]] = field(default_factory=list)
    collectives: list[tuple[int, ...]] = field(default_factory=list)
    outside: tuple[int, ...] = (0, 0)
    spawned: int = 0

    def add_line(self, line: str) -> None:
        """Add a line; raise a ValueError or KeyError if it is none."""
        kind, _, rest = line.partition(" ")
        if kind == "library":
            self.library = " ".join(rest.split())
        elif kind == "group":
            number, identity, n, own, inter, name = (rest + " ").split(" ", 5)
            self.groups[int(number)] = _GroupLine(identity, int(n), int(own), inter == "1", name.strip())
        elif kind == "ranks":
            of, *ranks = map(int, rest.split())
            self.ranks[of] = ranks
        elif kind == "messages":
            phase, call, *numbers = rest.split()
            group, partner, size_class, messages, n_bytes = map(int, numbers)
            ends = (partner, self.rank) if _NUMBER_OF[call] == _GET else (self.rank, partner)
            row = int(phase), _NUMBER_OF[call], group, *ends, size_class, messages, n_bytes
            self.direct.append(row)
        elif kind == "collective":
            phase, call, *numbers = rest.split()
            group, root, item, size, calls = map(int, numbers)
            self.collectives.append((int(phase), _NUMBER_OF[call], group, root, item, size, calls))
        elif kind == "spawned":
            self.spawned = int(rest)
        elif kind == "outside":
            self.outside = tuple(map(int, rest.split()))
        else:
            raise ValueError(kind)


def _read_rank_file(path: Path) -> _RankFile:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path), mend="record again") from None
    if lines[-2:] != ["end", ""]:
        raise DataError("ends too early", where=str(path), mend="is the disk full? record again")
    number = 1
    try:
        name, version, rank, n_ranks, job = lines[0].split()
        if (name, version) != ("petacomm-record", "1") or not 0 <= int(rank) < int(n_ranks):
            raise ValueError
        file = _RankFile(int(rank), int(n_ranks), job)
        for line in lines[1:-2]:
            number += 1
            file.add_line(line)
        used = {row[2] for row in (*file.direct, *file.collectives)} | set(file.ranks)
        if not used <= set(file.groups) or len(file.outside) != 2:
            raise ValueError
    except (ValueError, KeyError):
        raise DataError("no record of a rank", where=f"{path}:{number}", mend="record again") from None
    return file


def read_rank_files(folder: Path, program: str) -> tuple[Recording, list[str]]:
    """Return the recording of a folder of rank files, and warnings.

    Parameters
    ----------
    folder : Path
    program : str
        What was started, for messages.

    Raises
    ------
    DataError
        If files are missing or damaged, or of several jobs.
    """
    merged = _Merged()
    seen, jobs = [], {}
    for path in sorted(folder.glob("rank-*.txt")):
        file = _read_rank_file(path)
        jobs[file.job] = file.n_ranks
        seen.append(file.rank)
        merged.add(file)
    if len(jobs) > 1:
        shown = ", ".join(map(str, list(jobs.values())[:_SHOWN])) + (", ..." if len(jobs) > _SHOWN else "")
        raise DataError(
            f"{len(jobs)} jobs of MPI have run, of {shown} ranks",
            where=program,
            mend="write 'petacomm record' before each mpiexec, with an --out of its own",
        )
    n_ranks = max(jobs.values(), default=0)
    _require_all(seen, n_ranks, folder, program)
    return merged.recording(n_ranks)


def _require_all(seen: list[int], n_ranks: int, folder: Path, program: str) -> None:
    if not seen:
        raise DataError(
            "no rank has written what it sent",
            where=program,
            mend="it must call MPI_Init and MPI_Finalize, be linked to MPI dynamically, and see the folder "
            f"{folder}",
        )
    missing = np.setdiff1d(np.arange(n_ranks), seen)
    if len(missing):
        shown = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        raise DataError(
            f"{len(missing)} of {n_ranks} ranks have not written what they sent: {shown}",
            where=program,
            mend=f"they died before MPI_Finalize, or do not see the folder {folder}",
        )


class _Merged:
    """The files so far, with common numbers of groups."""

    def __init__(self) -> None:
        self.library = ""
        self.number_of: dict[str, int] = {}
        self.names: list[str] = []
        self.inter: list[bool] = []
        self.sizes: list[int] = []
        self.ranks: list[list[int] | None] = []
        self.direct: list[npt.NDArray[Any]] = [np.empty(0, MESSAGES)]  # of each rank
        self.collectives = CollectiveCalls()
        self.outside = [0, 0]
        self.spawned = 0

    def add(self, file: _RankFile) -> None:
        """Add the file of a rank."""
        self.library = self.library or file.library
        for i, number in enumerate(file.outside):
            self.outside[i] += number
        self.spawned += file.spawned
        common = {index: self._number(index, file) for index in file.groups}
        rows = [(*row[:2], common[row[2]], *row[3:]) for row in file.direct]
        self.direct.append(np.array(rows, MESSAGES))
        calls: dict[int, Counter[CollectiveRow]] = {number: Counter() for number in common.values()}
        for phase, call, index, root, item, size, n_calls in file.collectives:
            number = common[index]
            calls[number][CollectiveRow(phase, call, number, root, item, size)] += n_calls
        own = {common[index]: group.own for index, group in file.groups.items()}
        for number, counts in calls.items():
            self.collectives.add(number, own[number], counts)

    def _number(self, index: int, file: _RankFile) -> int:
        """Return the common number of a group of a file."""
        group = file.groups[index]
        number = self.number_of.setdefault(group.identity, len(self.names))
        if number == len(self.names):
            self.names.append("")
            self.inter.append(group.inter)
            self.sizes.append(group.size)
            self.ranks.append(None)
        self.names[number] = self.names[number] or group.name
        if index in file.ranks:
            self.ranks[number] = file.ranks[index]
        elif group.own == 0:  # the group of all ranks, in their order, has no list
            self.ranks[number] = list(range(file.n_ranks))
        return number

    def recording(self, n_ranks: int) -> tuple[Recording, list[str]]:
        """Return the recording, and warnings."""
        inside = [[rank for rank in ranks or [] if rank >= 0] for ranks in self.ranks]
        groups = [
            RankGroup(name, np.array(ranks, np.int32), inter, size)
            for name, ranks, inter, size in zip(self.names, inside, self.inter, self.sizes, strict=True)
        ]
        table = self.collectives.table()
        mixed = [n for n, ranks in enumerate(self.ranks) if len(ranks or []) > len(inside[n])]
        warnings = self.collectives.warnings(groups)
        if any(group.inter for group in groups):
            warnings.append("collectives of intercommunicators are counted, but no messages are made of them")
        if self.spawned:
            warnings.append(f"{self.spawned:,} processes that the job spawned are not recorded")
        if self.outside[0]:
            warnings.append(f"{self.outside[0]:,} messages went to processes outside of MPI_COMM_WORLD")
        if np.isin(table["group"], mixed).any():
            warnings.append("collectives with processes outside of MPI_COMM_WORLD are not recorded")
            table = table[~np.isin(table["group"], mixed)]
        direct = summed(np.concatenate(self.direct))
        outside = self.outside[0], self.outside[1]
        return Recording(n_ranks, self.library, groups, direct, table, outside), warnings
