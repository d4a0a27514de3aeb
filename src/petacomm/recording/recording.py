"""A recording: messages by pair, call, group and size class, and collectives by their exact size."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.display import Displayed
from petacomm.base.errors import DataError
from petacomm.base.files import atomic_write
from petacomm.base.npz import read_arrays
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.recording.collective_messages import (
    CollectiveKey,
    Messages,
    default_algorithm,
    expand_collective,
    require_algorithms,
)

# In the order of interposer.c.
CALLS = (
    *("send", "put", "get", "accumulate"),
    *("barrier", "bcast", "reduce", "allreduce", "gather", "gatherv", "scatter", "scatterv"),
    *("allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"),
    *("reduce_scatter", "reduce_scatter_block", "scan", "exscan"),
    *("neighbor_allgather", "neighbor_alltoall"),
)
_FORMAT = 1
_MESSAGE_COLUMNS = [
    *(("phase", np.int32), ("call", np.int32), ("group", np.int32)),
    *(("source", np.int32), ("target", np.int32), ("size_class", np.int32)),
    *(("messages", np.int64), ("bytes", np.int64)),
]
_COLLECTIVE_COLUMNS = [
    *(("phase", np.int32), ("call", np.int32), ("group", np.int32), ("root", np.int32), ("item", np.int32)),
    *(("size", np.int64), ("calls", np.int64)),
]
MESSAGES, COLLECTIVES = np.dtype(_MESSAGE_COLUMNS), np.dtype(_COLLECTIVE_COLUMNS)
_COMMON = ("phase", "call", "group")  # columns of both tables
_BETWEEN = ("source", "target", "size_class")
_MOST_KEPT = 1 << 18  # rows of a collective's messages that are kept for further calls
_MEND = "record again: petacomm record --out FILE -- mpiexec -n N ./program"


@dataclass(frozen=True)
class RankGroup:
    """Ranks of one or more communicators or windows.

    Attributes
    ----------
    name : str
        That which the program gave to one of these communicators; empty if it gave none.
    ranks : int32 (n,)
        Ranks of MPI_COMM_WORLD, in the order of the communicator; none if they are not known, as its first
        rank sent nothing in it.
    inter : bool
        Whether it is a side of an intercommunicator.
    size : int, optional
        Number of its processes, by default that of `ranks`.
    """

    name: str
    ranks: Int32Array
    inter: bool = False
    size: int = -1

    def __post_init__(self) -> None:
        if self.size < 0:
            object.__setattr__(self, "size", len(self.ranks))


@dataclass(frozen=True, repr=False)
class Recording(Displayed):
    """What the ranks of a job sent.

    Attributes
    ----------
    n_ranks : int
    library : str
        Version of the MPI library, as it says itself.
    groups : sequence of RankGroup
    direct : structured array (n,)
        Messages between ranks that the program named, a row for each phase, call (index into `CALLS`), group,
        source, target and size class (bits of the size: class c has sizes from 2^(c-1) to 2^c - 1).
    collectives : structured array (m,)
        Calls of other collectives: phase, call, group, root in the group, bytes of an element where they are
        combined, bytes of the vector or of a block, and number of calls.
    outside : tuple of int
        Messages and bytes to processes outside of MPI_COMM_WORLD, which are in no row.
    """

    n_ranks: int
    library: str
    groups: Sequence[RankGroup]
    direct: npt.NDArray[Any]
    collectives: npt.NDArray[Any]
    outside: tuple[int, int] = (0, 0)
    _expanded: dict[Any, npt.NDArray[Any]] = field(default_factory=dict, repr=False)

    def _facts(self) -> dict[str, object]:
        return {
            "ranks": self.n_ranks,
            "library": self.library,
            "groups": len(self.groups),
            "phases": self.phases.tolist(),
            "calls_of_collectives": int(self.collectives["calls"].sum()),
        }

    @property
    def phases(self) -> Int64Array:
        """Numbers of the phases in which something was sent, in increasing order: int64 (n,)."""
        both = np.append(self.direct["phase"], self.collectives["phase"])
        return np.unique(both).astype(np.int64)

    def of_phase(self, phase: int) -> Recording:
        """Return what was sent in one phase."""
        direct, collectives = (table[table["phase"] == phase] for table in (self.direct, self.collectives))
        return replace(self, direct=direct, collectives=collectives)

    def messages(self, algorithms: Mapping[str, str] | None = None) -> npt.NDArray[Any]:
        """Return all messages, those of collectives by their schedules.

        Parameters
        ----------
        algorithms : mapping of str to str, optional
            Algorithm of a collective, such as ``{"allreduce": "ring"}``; by default MPICH's choice by size.

        Returns
        -------
        structured array (n,)
            As `direct`. Calls of a collective whose sizes are of one class, by one algorithm, are in the same
            rows.

        Raises
        ------
        ConfigError
            If there is no such collective or algorithm, or it does not serve a call.
        """
        chosen = algorithms or {}
        require_algorithms(chosen)
        made: dict[tuple[Any, ...], npt.NDArray[Any]] = {}
        for row in self.collectives:
            if self.groups[row["group"]].inter:
                continue
            key = self._key_of(row)
            algorithm = chosen.get(key.call) or default_algorithm(key)
            rows = self._rows_of(row, key, algorithm)
            alike = (*(int(row[name]) for name in _COMMON), algorithm, int(size_class(row["size"])))
            made[alike] = _added(made[alike], rows) if alike in made else rows
        return np.concatenate([self.direct, *made.values()])

    def _key_of(self, row: Any) -> CollectiveKey:
        n_ranks = len(self.groups[row["group"]].ranks)
        return CollectiveKey(
            CALLS[row["call"]], n_ranks, int(row["root"]), int(row["size"]), int(row["item"])
        )

    def _rows_of(self, row: Any, key: CollectiveKey, algorithm: str) -> npt.NDArray[Any]:
        ranks, found = self.groups[row["group"]].ranks, self._expanded.get((key, algorithm))
        if found is None:
            found = summed(_pair_rows(expand_collective(key, algorithm)), _BETWEEN)
        rows = found
        if len(found) <= _MOST_KEPT:
            self._expanded[key, algorithm], rows = found, found.copy()
        for name in _COMMON:
            rows[name] = row[name]
        for name in ("source", "target"):
            rows[name] = ranks[rows[name]]
        for name in ("messages", "bytes"):
            rows[name] *= row["calls"]
        return rows

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording as a compressed ``.npz``.

        Raises
        ------
        ResourceError
            If it cannot be written.
        """
        sizes = [len(group.ranks) for group in self.groups]
        ranks = [group.ranks for group in self.groups] or [np.empty(0, np.int32)]
        with atomic_write(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(
                file,
                petacomm_recording=np.int64(_FORMAT),
                n_ranks=np.int64(self.n_ranks),
                library=np.str_(self.library),
                names=np.array([group.name for group in self.groups], np.str_),
                sizes=np.array(sizes, np.int64),
                ranks=np.concatenate(ranks),
                inter=np.array([group.inter for group in self.groups], np.bool_),
                processes=np.array([group.size for group in self.groups], np.int64),
                direct=self.direct,
                collectives=self.collectives,
                outside=np.array(self.outside, np.int64),
            )


def load_recording(path: str | os.PathLike[str]) -> Recording:
    """Return the recording in a file that `petacomm record` wrote.

    Parameters
    ----------
    path : path

    Returns
    -------
    Recording

    Raises
    ------
    ConfigError
        If there is no such file.
    DataError
        If it is none, or damaged.
    """
    arrays = read_arrays(path, "recording", _MEND)
    try:
        return _checked(arrays)
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise DataError(f"no recording: {what}", where=os.fspath(path), mend=_MEND) from None


def _checked(file: Mapping[str, AnyArray]) -> Recording:
    """Return the recording in arrays; raise a ValueError if they do not fit each other."""
    if int(file["petacomm_recording"]) != _FORMAT:
        raise ValueError(f"format {file['petacomm_recording']}, not {_FORMAT}")
    n_ranks, sizes, ranks = int(file["n_ranks"]), file["sizes"], file["ranks"].astype(np.int32)
    direct, collectives = file["direct"], file["collectives"]
    if direct.dtype != MESSAGES or collectives.dtype != COLLECTIVES or np.any(sizes < 0):
        raise ValueError("unknown columns")
    if n_ranks < 1 or direct.ndim != 1 or collectives.ndim != 1:
        raise ValueError(f"{n_ranks} ranks, rows of shape {direct.shape} and {collectives.shape}")
    if sizes.sum() != len(ranks) or not len(sizes) == len(file["names"]) == len(file["inter"]):
        raise ValueError("groups are not as long as they say")
    lists = np.split(ranks, np.cumsum(sizes)[:-1]) if len(sizes) else []
    processes = file.get("processes", sizes)  # not of earlier versions
    parts = zip(file["names"], lists, file["inter"], processes, strict=True)
    groups = [RankGroup(str(name), part, bool(inter), int(n)) for name, part, inter, n in parts]
    for numbers, end in (
        *((table[name], end) for table in (direct, collectives) for name, end in
          (("call", len(CALLS)), ("group", len(groups)))),
        *((numbers, n_ranks) for numbers in (direct["source"], direct["target"], ranks)),
        *((direct[name], 2**62) for name in ("messages", "bytes")),
        *((collectives[name], 2**62) for name in ("size", "calls")),
    ):  # fmt: skip
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= end):
            raise ValueError(f"{numbers.min()} to {numbers.max()} are not within 0 to {end - 1}")
    outside = int(file["outside"][0]), int(file["outside"][1])
    return Recording(n_ranks, str(file["library"]), groups, direct, collectives, outside)


def _added(rows: npt.NDArray[Any], more: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows of a collective with more of it, added in place if both have messages of the same pairs."""
    if len(rows) == len(more) and all(np.array_equal(rows[name], more[name]) for name in _BETWEEN):
        for name in ("messages", "bytes"):
            rows[name] += more[name]
        return rows
    return summed(np.concatenate([rows, more]), _BETWEEN)


def _pair_rows(messages: Messages) -> npt.NDArray[Any]:
    """Return a row for messages of one size between two ranks."""
    rows = np.zeros(len(messages.source), MESSAGES)
    rows["source"], rows["target"], rows["messages"] = messages.source, messages.target, messages.number
    rows["bytes"], rows["size_class"] = messages.n_bytes * messages.number, size_class(messages.n_bytes)
    return rows


def size_class(n_bytes: npt.ArrayLike) -> Int64Array:
    """Return the size class of messages: the number of bits of their bytes."""
    return np.frexp(np.asarray(n_bytes, np.float64))[1].astype(np.int64)


def summed(rows: npt.NDArray[Any], by: Sequence[str] = MESSAGES.names[:6]) -> npt.NDArray[Any]:  # type: ignore[index]
    """Return rows with messages and bytes added over those that agree in some columns, in their order."""
    order = np.lexsort([rows[name] for name in reversed(by)]) if len(rows) else np.empty(0, np.int64)
    rows = rows[order]
    new = np.ones(len(rows), np.bool_)
    if len(rows):
        new[1:] = np.any([rows[name][1:] != rows[name][:-1] for name in by], axis=0)
    begins = np.flatnonzero(new)
    sums = rows[begins].copy()
    for name in ("messages", "bytes"):
        sums[name] = np.add.reduceat(rows[name], begins) if len(begins) else rows[name]
    return sums
