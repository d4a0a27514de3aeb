"""Reports of mpiP: what each rank sent by which calls, not to whom."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.display import Displayed
from petacomm.base.errors import DataError, printable
from petacomm.base.files import read_text
from petacomm.base.typing import FloatArray

# Persistent sends are counted once, when they are prepared.
POINT_TO_POINT = frozenset(
    (
        *("Send", "Bsend", "Ssend", "Rsend", "Isend", "Ibsend", "Issend", "Irsend"),
        *("Sendrecv", "Sendrecv_replace", "Isendrecv", "Isendrecv_replace"),
        *("Send_init", "Bsend_init", "Ssend_init", "Rsend_init", "Psend_init"),
    )
)
SITES = np.dtype(
    [("call", np.int32), ("site", np.int64), ("rank", np.int32), ("calls", np.int64)]
    + [(name, np.float64) for name in ("least", "most", "bytes")]
)
_SENT, _BY_SITE = (
    "Callsite Message Sent statistics (all, sent bytes)",
    "Callsite Message Sent statistics (all callsites",
)
_SIZES = "Aggregate Point-To-Point Sent"
_MEND = "run with MPIP='-y -p', and neither -c nor -d"
_HISTOGRAM = re.compile(r"(\w+) +([\d.e+-]+) +(\d+) - +(\d+) +(\d+) - +(\d+)$")
_ASSIGNED = re.compile(r"@ MPI Task Assignment +: (\d{1,9}) ")


@dataclass(frozen=True)
class SizeShare:
    """A class of messages between two ranks, of one call.

    Attributes
    ----------
    call : str
    share : float
        Part of the bytes that all calls sent, those of collectives included.
    communicator, size : tuple of int
        Least and most ranks of the communicator, and bytes of a message.
    """

    call: str
    share: float
    communicator: tuple[int, int]
    size: tuple[int, int]


@dataclass(frozen=True, repr=False)
class MpipReport(Displayed):
    """What the ranks of a job sent, as mpiP reports it: sums, without partners.

    Attributes
    ----------
    n_ranks : int
    version : str
        Of mpiP.
    calls : sequence of str
        Names of calls, without ``MPI_``.
    sites : structured array (n,)
        A row for each rank and place in the program that sent: index of the call, number of the place, rank,
        number of calls, least and most bytes of one, and bytes of all. mpiP writes bytes with four digits;
        sums are exact where all calls sent the same number below 10,000, or with its option ``-e``.
    sizes : sequence of SizeShare
        The twenty largest classes of messages by call, communicator and size, of the option ``-p``.
    """

    n_ranks: int
    version: str
    calls: Sequence[str]
    sites: npt.NDArray[Any]
    sizes: Sequence[SizeShare]

    def _facts(self) -> dict[str, object]:
        return {"ranks": self.n_ranks, "mpiP": self.version, "bytes": f"{self.sites['bytes'].sum():.4g}"}

    @property
    def between_ranks(self) -> npt.NDArray[np.bool_]:
        """Whether each row of `sites` is of a call that sends to one rank: bool (n,)."""
        named = np.array([call in POINT_TO_POINT for call in self.calls], np.bool_)
        return np.asarray(named[self.sites["call"]])

    def sent_by_rank(self) -> tuple[FloatArray, FloatArray]:
        """Return the bytes that each rank sent to single ranks, and to collectives: float64 (n_ranks,)."""
        sums: FloatArray = np.zeros((2, self.n_ranks))
        np.add.at(sums, (np.where(self.between_ranks, 0, 1), self.sites["rank"]), self.sites["bytes"])
        return sums[0], sums[1]


def read_mpip(path: str | os.PathLike[str]) -> MpipReport:
    """Read a text report of mpiP.

    Parameters
    ----------
    path : path
        Of a report (``*.mpiP``) that has the callsite statistics of each rank.

    Returns
    -------
    MpipReport

    Raises
    ------
    ConfigError
        If there is no such file.
    DataError
        If it is none, is damaged, or has no bytes by rank, as concise reports; the error names the line.
    """
    reader = _Reader(os.fspath(path), read_text(path).splitlines())
    return reader.report()


@dataclass
class _Reader:
    file: str
    lines: list[str]
    calls: dict[str, int] = field(default_factory=dict)

    def error(self, number: int, what: str, mend: str | None = _MEND) -> DataError:
        return DataError(printable(what), where=f"{self.file}:{number + 1}", mend=mend)

    def report(self) -> MpipReport:
        if not self.lines or self.lines[0].strip() != "@ mpiP":
            raise self.error(0, "no report of mpiP: the first line is not '@ mpiP'")
        version = [line.partition(":")[2].strip() for line in self.lines if line.startswith("@ Version")]
        if not any(line.startswith("@--- End of Report") for line in self.lines):
            raise self.error(len(self.lines) - 1, "the report ends too early", "is the disk full? run again")
        numbers = self.sent_lines()
        ranks = {int(found[1]) for line in self.lines if (found := _ASSIGNED.match(line))}
        if not ranks or max(ranks) != len(ranks) - 1:
            raise self.error(
                0, f"{len(ranks)} ranks have a task assignment, or some have none", "is the file whole?"
            )
        rows = [row for number in numbers if (row := self.site(number, len(ranks)))]
        sizes = [share for number in self.section(_SIZES) if (share := self.size_share(number))]
        table = np.array(rows, SITES)
        return MpipReport(len(ranks), version[0] if version else "", tuple(self.calls), table, sizes)

    def section(self, heading: str) -> range:
        """Return the numbers of the lines of a section, after its heading; empty if there is none."""
        begin = next((i for i, line in enumerate(self.lines) if line.startswith(f"@--- {heading}")), None)
        if begin is None:
            return range(0)
        begin += 2  # the rule below the heading
        end = next(
            (i for i in range(begin, len(self.lines)) if self.lines[i].startswith("-----")), len(self.lines)
        )
        return range(begin, end)

    def sent_lines(self) -> range:
        """Return the numbers of the lines with what each rank sent."""
        numbers = self.section(_SENT)
        if not numbers:
            concise = bool(self.section(_BY_SITE))
            what = "a concise report has no bytes by rank" if concise else f"no section '{_SENT}'"
            raise self.error(len(self.lines) - 1, what)
        return numbers[1:]  # after the names of the columns

    def site(self, number: int, n_ranks: int) -> tuple[float, ...] | None:
        """Return the row of `SITES` of a line, or None of a sum over ranks."""
        words = self.lines[number].split()
        if not words or (len(words) == 8 and words[2] == "*"):
            return None
        try:
            name, site, rank, calls = words[0], int(words[1]), int(words[2]), int(words[3])
            most, _, least, total = map(float, words[4:])
        except (ValueError, IndexError):
            raise self.error(
                number, f"'{self.lines[number][:60]}' is no row of call, site, rank and bytes", None
            ) from None
        if not (
            0 <= rank < n_ranks
            and 0 < calls < 2**62
            and 0 <= site < 2**31
            and 0 <= least <= most <= total < 2**62
        ):
            raise self.error(
                number,
                f"rank {rank} of {n_ranks}, {calls} calls, {least:g} to {most:g} of {total:g} bytes",
                None,
            )
        exact = least == most and most == round(most)
        n_bytes = calls * most if exact else total
        return self.calls.setdefault(name, len(self.calls)), site, rank, calls, least, most, n_bytes

    def size_share(self, number: int) -> SizeShare | None:
        found = _HISTOGRAM.match(self.lines[number].strip())
        if not found:
            return None
        try:
            share = float(found[2])
        except ValueError:
            raise self.error(number, f"'{found[2]}' is not a share in percent", None) from None
        ranks, size = (int(found[3]), int(found[4])), (int(found[5]), int(found[6]))
        return SizeShare(found[1], share / 100, ranks, size)
