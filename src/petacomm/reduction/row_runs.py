"""Tables of the rows of the ranks of a node that have the same keys, as runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import AnyArray, Int64Array, UInt8Array
from petacomm.mpi.communicator import Operation
from petacomm.reduction._reduction import RUNS_PER_BLOCK, RunTable, join_runs, reduce_runs
from petacomm.sharing.sharing_graph import offsets_from_counts

UInt32Array = npt.NDArray[np.uint32]
UInt16Array = npt.NDArray[np.uint16]
# Which entries of a key a reduction reads, and which it writes.
Flow: TypeAlias = Literal[
    "everywhere", "onto_owners", "from_owners", "onto_slots", "from_slots", "in_node_order"
]

_LONGEST = 2**16 - 1


@dataclass(frozen=True)
class NodeValues:
    """Values of all ranks of a node.

    Attributes
    ----------
    rows : array (n_rows + 1, k)
        Rows of all ranks of the node, and one that belongs to no key.
    owned : uint8 (n_rows + 1,)
        Whether the rank of the row owns its key.
    """

    rows: AnyArray
    owned: UInt8Array


@dataclass(frozen=True)
class RowRuns:
    """Table of runs of keys with the same holders, in 4 bytes for each run and each of its entries.

    Attributes
    ----------
    lengths, counts : uint16 (n_runs,)
        Number of keys of each run, and of its entries.
    entries : uint32 (sum of counts,)
        For each run, the rows of its first key in rank order, and its message slots, numbered after all rows.
    first_entries : int64
        First entry of each 1024th run.
    """

    lengths: UInt16Array
    counts: UInt16Array
    entries: UInt32Array
    first_entries: Int64Array

    @classmethod
    def from_runs(cls, lengths: Int64Array, counts: Int64Array, entries: UInt32Array) -> RowRuns:
        """Return the table of these runs, in which adjacent runs are joined if possible."""
        if len(lengths) and lengths.max() > _LONGEST:
            lengths, counts, entries = _split_long_runs(lengths, counts, entries)
        run_lengths, run_counts = lengths.astype(np.uint16), counts.astype(np.uint16)
        n_runs = join_runs(run_lengths, run_counts, entries)
        run_lengths, run_counts = run_lengths[:n_runs].copy(), run_counts[:n_runs].copy()
        offsets = offsets_from_counts(run_counts)
        return cls(run_lengths, run_counts, entries[: offsets[-1]].copy(), offsets[:-1:RUNS_PER_BLOCK].copy())

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        arrays = self.lengths, self.counts, self.entries, self.first_entries
        return sum(array.nbytes for array in arrays)

    @cached_property
    def _checked(self) -> RunTable:
        """The table as the kernels take it."""
        return RunTable(self.lengths, self.counts, self.entries, self.first_entries)

    @property
    def n_rows(self) -> int:
        """Number of rows and slots that a reduction reads or writes."""
        return int(np.dot(self.lengths.astype(np.int64), self.counts.astype(np.int64)))

    def reduce(
        self,
        flow: Flow,
        values: NodeValues,
        op: Operation,
        n_threads: int,
        in_slots: AnyArray | None = None,
        out_slots: AnyArray | None = None,
    ) -> None:
        """Reduce each key over the entries that `flow` reads, into the entries that it writes."""
        reduce_runs(
            self._checked,
            values.rows,
            values.owned,
            in_slots,
            out_slots,
            op,
            flow,
            n_threads,
        )


def select_runs(
    selected: npt.NDArray[np.intp], counts: Int64Array, entries: UInt32Array
) -> tuple[Int64Array, UInt32Array]:
    """Return the counts and the entries of the selected runs."""
    begins, new_counts = offsets_from_counts(counts)[selected], counts[selected]
    shifts = np.repeat(begins - offsets_from_counts(new_counts)[:-1], new_counts)
    return new_counts, entries[shifts + np.arange(new_counts.sum())]


def _split_long_runs(
    lengths: Int64Array, counts: Int64Array, entries: UInt32Array
) -> tuple[Int64Array, Int64Array, UInt32Array]:
    """Split runs that are too long for the table."""
    n_pieces = -(-lengths // _LONGEST)
    run = np.repeat(np.arange(len(lengths)), n_pieces)
    begin = (np.arange(len(run)) - offsets_from_counts(n_pieces)[run]) * _LONGEST
    new_counts, rows = select_runs(run, counts, entries)
    rows = (rows + np.repeat(begin, new_counts)).astype(np.uint32)
    return np.minimum(lengths[run] - begin, _LONGEST), new_counts, rows
