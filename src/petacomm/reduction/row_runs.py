"""Rows of several ranks of a node that belong to the same keys, as runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import AnyArray, Int64Array, UInt8Array
from petacomm.mpi.communicator import Operation
from petacomm.redistribution.row_lists import OPERATIONS
from petacomm.reduction._reduction import RUNS_PER_BLOCK, Flow, join_runs, reduce_runs
from petacomm.sharing.sharing_graph import offsets_of

UInt32Array = npt.NDArray[np.uint32]
UInt16Array = npt.NDArray[np.uint16]

_LONGEST = 2**16 - 1


@dataclass(frozen=True)
class Values:
    """Where the values are that a call works on; all rows have k values of one dtype.

    Attributes
    ----------
    rows : array (n_rows + 1, k)
        Those of all ranks of the node; the last one is of no key.
    owned : uint8 (n_rows + 1,)
        Whether the row's rank owns its key.
    """

    rows: AnyArray
    owned: UInt8Array


@dataclass(frozen=True)
class RowRuns:
    """Runs of keys with the same holders, 4 bytes each, and 4 bytes for each of their entries.

    Attributes
    ----------
    lengths, counts : uint16 (n_runs,)
        Keys of each run, and its entries.
    entries : uint32 (sum of counts,)
        For each run, the rows of its first key, in rank order; then its slots, numbered after all rows.
    first_entries : int64
        The first entry of every 1024th run.
    """

    lengths: UInt16Array
    counts: UInt16Array
    entries: UInt32Array
    first_entries: Int64Array

    @classmethod
    def of(cls, lengths: Int64Array, counts: Int64Array, entries: UInt32Array) -> RowRuns:
        """Make the smallest table of these runs, whose keys may be neighbours."""
        if len(lengths) and lengths.max() > _LONGEST:
            lengths, counts, entries = _cut(lengths, counts, entries)
        short, few = lengths.astype(np.uint16), counts.astype(np.uint16)
        n_runs = join_runs(short, few, entries)
        short, few = short[:n_runs].copy(), few[:n_runs].copy()
        offsets = offsets_of(few)
        return cls(short, few, entries[: offsets[-1]].copy(), offsets[:-1:RUNS_PER_BLOCK].copy())

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return sum(array.nbytes for array in vars(self).values())

    @property
    def n_rows(self) -> int:
        """Rows and slots that a reduction reads or writes."""
        return int(np.dot(self.lengths.astype(np.int64), self.counts.astype(np.int64)))

    def run(
        self,
        flow: Flow,
        values: Values,
        op: Operation,
        n_threads: int,
        in_slots: AnyArray | None = None,
        out_slots: AnyArray | None = None,
    ) -> None:
        """Reduce each key over the entries that `flow` reads, onto those that it writes."""
        reduce_runs(
            self.lengths,
            self.counts,
            self.entries,
            self.first_entries,
            values.rows,
            values.owned,
            in_slots,
            out_slots,
            OPERATIONS[op],
            flow,
            n_threads,
        )


def chosen(
    choice: npt.NDArray[np.intp], counts: Int64Array, entries: UInt32Array
) -> tuple[Int64Array, UInt32Array]:
    """Return counts and entries of the chosen runs."""
    begins, few = offsets_of(counts)[choice], counts[choice]
    return few, entries[np.repeat(begins - offsets_of(few)[:-1], few) + np.arange(few.sum())]


def _cut(
    lengths: Int64Array, counts: Int64Array, entries: UInt32Array
) -> tuple[Int64Array, Int64Array, UInt32Array]:
    """Cut runs that are too long for the table."""
    n_pieces = -(-lengths // _LONGEST)
    run = np.repeat(np.arange(len(lengths)), n_pieces)
    begin = (np.arange(len(run)) - offsets_of(n_pieces)[run]) * _LONGEST
    few, rows = chosen(run, counts, entries)
    rows = (rows + np.repeat(begin, few)).astype(np.uint32)
    return np.minimum(lengths[run] - begin, _LONGEST), few, rows
