"""Profiles of IPM, as XML: the calls of each rank by size and partner."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TextIO

import numpy as np

from petacomm.base.errors import ConfigError, DataError, printable
from petacomm.base.files import require_file
from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.typing import Int64Array
from petacomm.recording.collective_calls import CollectiveCalls, CollectiveRow
from petacomm.recording.recording import CALLS, MESSAGES, RankGroup, Recording, size_class, summed

_NUMBER_OF = {name: number for number, name in enumerate(CALLS)}
_SENDS = ("send", "bsend", "ssend", "rsend", "sendrecv", "sendrecv_replace")
# IPM keeps the size of the block that a rank sends itself, by which blocks are taken to be equal.
_EQUAL = {"alltoallv": "alltoall", "alltoallw": "alltoall", "reduce_scatter": "reduce_scatter_block"}
_LONGEST = 1 << 16  # characters of a line
_NOBODY = 2**30 - 1  # partner of a message to MPI_PROC_NULL, in the key of an entry (IPM 2)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_KEY = re.compile(r"[0-9A-F]{32}$")
_EXACT_BITS = 3  # of the size of a message, unless IPM is built to keep all
_MEND = "run again with IPM_LOG=full"


class _Entry(NamedTuple):
    """An entry of the hash table of a rank."""

    phase: int
    call: str
    partner: int
    size: int
    calls: int


@dataclass
class _Calls:
    """What the ranks of a profile have called, so far."""

    n_ranks: int = 0
    version: str = ""
    seen: set[int] = field(default_factory=set)
    direct: list[tuple[int, ...]] = field(default_factory=list)
    collectives: CollectiveCalls = field(default_factory=CollectiveCalls)
    gathered: defaultdict[int, dict[int, list[int]]] = field(default_factory=lambda: defaultdict(dict))
    warnings: set[str] = field(default_factory=set)
    rounded: bool = True  # no size has more bits than IPM keeps of one

    def add(self, rank: int, entries: list[_Entry]) -> None:
        """Add all entries of a rank."""
        counts: Counter[CollectiveRow] = Counter()
        for entry in entries:
            name = _collective(entry.call)
            kept = (1 << _EXACT_BITS) - 1 << max(0, entry.size.bit_length() - _EXACT_BITS)
            self.rounded &= not entry.size & ~kept
            if _is_send(entry.call):
                self._message("send", entry, rank, entry.partner)
            elif name in ("gatherv", "scatterv"):
                ends = (rank, entry.partner) if name == "gatherv" else (entry.partner, rank)
                self._message(name, entry, *ends)
            elif name == "allgatherv":
                sums = self.gathered[entry.phase].setdefault(rank, [0, 0])
                sums[0] += entry.calls
                sums[1] += entry.calls * entry.size
            elif name:
                if name in _EQUAL:
                    self.warnings.add(
                        f"blocks of {name} are taken to be equal: IPM has but one of each rank's"
                    )
                call = _NUMBER_OF[_EQUAL.get(name, name)]
                counts[CollectiveRow(entry.phase, call, 0, entry.partner, 0, entry.size)] += entry.calls
            elif entry.call.endswith("send_init"):
                self.warnings.add("what persistent requests send is not counted: IPM does not tell it")
        self.collectives.add(0, rank, counts)

    def _message(self, call: str, entry: _Entry, source: int, target: int) -> None:
        if source != target or call == "send":
            bits = int(size_class(entry.size))
            ends = (source, target, bits, entry.calls, entry.calls * entry.size)
            self.direct.append((entry.phase, _NUMBER_OF[call], 0, *ends))

    def ring(self) -> list[tuple[int, ...]]:
        """Return rows of all-gathers round a ring: a rank gets all blocks but its own from the one before."""
        rows: list[tuple[int, ...]] = []
        for phase, of_rank in self.gathered.items():
            sums: Int64Array = np.array([of_rank.get(rank, (0, 0)) for rank in range(self.n_ranks)], np.int64)
            n_calls, total = int(sums[0, 0]), int(sums[:, 1].sum())
            if np.any(sums[:, 0] != n_calls):
                self.warnings.add("allgatherv is left out: ranks call it differently often")
                continue
            messages = n_calls * (self.n_ranks - 1)
            for rank in range(self.n_ranks if messages else 0):
                n_bytes = total - int(sums[rank, 1])
                ends = ((rank - 1) % self.n_ranks, rank, int(size_class(n_bytes // messages)))
                rows.append((phase, _NUMBER_OF["allgatherv"], 0, *ends, messages, n_bytes))
        return rows

    def recording(self, progress: Progress) -> Recording:
        """Return the recording; tell of what had to be assumed."""
        everyone = RankGroup("MPI_COMM_WORLD", np.arange(self.n_ranks, dtype=np.int32))
        direct = summed(np.array(self.direct + self.ring(), MESSAGES))
        table = self.collectives.table()
        if len(table) or self.gathered:
            self.warnings.add(
                "collectives are taken to be of MPI_COMM_WORLD: IPM does not tell communicators"
            )
        if self.rounded and (np.any(direct["bytes"] >= 8) or np.any(table["size"] >= 8)):
            self.warnings.add(
                "sizes may be rounded down, by up to 20 %: IPM keeps three bits of each unless it is built "
                "with -DKEEP_BYTES_ACCURACY"
            )
        for warning in (*sorted(self.warnings), *self.collectives.warnings([everyone])):
            progress.warn(warning)
        return Recording(self.n_ranks, f"IPM {self.version}", [everyone], direct, table)


def _is_send(call: str) -> bool:
    return call in _SENDS or (call[:1] == "i" and call[1:] in _SENDS)


def _collective(call: str) -> str:
    """Return the name of a collective, blocking or not, or an empty text."""
    name = call[1:] if call[:1] == "i" and call[1:] in _NUMBER_OF else call
    return name if name in _NUMBER_OF and name not in ("send", "put", "get", "accumulate") else ""


def read_ipm(path: str | os.PathLike[str], progress: Progress | None = None) -> Recording:
    """Read the profile of a job that IPM wrote with ``IPM_LOG=full``.

    Regions of the program are phases, with IPM's numbers, 0 outside of all. IPM does not tell the
    communicators of collectives, which are taken to be MPI_COMM_WORLD, and keeps three bits of sizes unless
    it is built otherwise. Where it keeps one of several sizes, blocks are taken to be equal.

    Parameters
    ----------
    path : path
        Of the XML (``*.ipm.xml``).
    progress : Progress, optional
        Is told of what had to be assumed.

    Returns
    -------
    Recording

    Raises
    ------
    ConfigError
        If there is no such file.
    DataError
        If it is none, is damaged, or has no entries by partner; the error names the line.
    """
    where = os.fspath(path)
    try:
        file = require_file(path).open(encoding="latin-1", newline="\n")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=where, mend=None) from None
    with file:
        return _Reader(where).read(file).recording(progress or SilentProgress())


@dataclass
class _Reader:
    """Reader of one line after another: IPM writes one element a line, and commands as they are, no XML."""

    file: str
    number: int = 0

    def error(self, what: str, mend: str | None = _MEND) -> DataError:
        return DataError(printable(what), where=f"{self.file}:{max(1, self.number)}", mend=mend)

    def lines(self, file: TextIO) -> Iterator[str]:
        while line := file.readline(_LONGEST):
            self.number += 1
            if len(line) == _LONGEST:
                raise self.error("a line is longer than IPM writes them", None)
            yield line.strip()

    def read(self, file: TextIO) -> _Calls:
        calls, rank, ended = _Calls(), -1, False
        entries: list[_Entry] = []
        for line in self.lines(file):
            if line.startswith("<task "):
                rank, entries = self.task(line, calls), []
            elif line.startswith("<hent ") and rank >= 0:
                entries += self.entry(line, calls.n_ranks)
            elif line == "</hash>" and rank >= 0:
                calls.add(rank, entries)
                calls.seen.add(rank)
                rank = -1
            elif line.startswith("<taskcopy "):
                raise self.error("ranks are copies of others", "build IPM without clustering")
            ended = line == "</ipm_job_profile>"
        if not calls.n_ranks:
            raise self.error("no profile of IPM: no <task>", "give the .ipm.xml that IPM wrote")
        if not ended:
            raise self.error("the profile ends too early", "is the disk full? run again")
        missing = calls.n_ranks - len(calls.seen)
        if missing:
            raise self.error(f"{missing} of {calls.n_ranks} ranks have no <hash> of calls by partner")
        return calls

    def task(self, line: str, calls: _Calls) -> int:
        """Return the rank of a task."""
        found = dict(_ATTRIBUTE.findall(line))
        try:
            rank, n_ranks = int(found["mpi_rank"]), int(found["mpi_size"])
        except (KeyError, ValueError):
            raise self.error("a <task> without mpi_rank and mpi_size") from None
        if not 0 <= rank < n_ranks < 2**31 or calls.n_ranks not in (0, n_ranks) or rank in calls.seen:
            raise self.error(f"rank {rank} of {n_ranks}, after {len(calls.seen)} of {calls.n_ranks}", None)
        calls.n_ranks, calls.version = n_ranks, found.get("ipm_version", "")
        return rank

    def entry(self, line: str, n_ranks: int) -> list[_Entry]:
        """Return the entry of a call that sends, or nothing."""
        found = dict(_ATTRIBUTE.findall(line))
        call = found.get("call", "")
        name = call[4:].lower()
        if not call.startswith("MPI_") or not (
            _is_send(name) or _collective(name) or name.endswith("send_init")
        ):
            return []
        try:
            phase, partner, size, n_calls = (int(found[key]) for key in ("region", "orank", "bytes", "count"))
        except (KeyError, ValueError):
            raise self.error(f"no call, region, orank, bytes and count: {line[:60]}", None) from None
        if _KEY.match(found.get("key", "")):  # it has what the attributes do not: 4 bytes of size, and nobody
            size, partner = int(found["key"][16:24], 16), int(found["key"][24:], 16) & _NOBODY
        if partner == _NOBODY:
            return []
        if not (0 <= partner < n_ranks and 0 <= size < 2**62 and 0 < n_calls < 2**62 and abs(phase) < 2**31):
            raise self.error(f"{n_calls} calls of {size} bytes with rank {partner} of {n_ranks}", None)
        if size * n_calls >= 2**62:
            raise self.error(f"{n_calls} calls of {size} bytes", None)
        return [_Entry(phase, name, partner, size, n_calls)]
