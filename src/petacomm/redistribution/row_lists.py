"""Lists of rows of a vector, kept as runs of neighbours: who gets which of them, in 5 bytes a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import AnyArray, BoolArray, Int32Array, Int64Array, UInt8Array
from petacomm.mpi.communicator import Operation
from petacomm.redistribution._redistribution import Operation as KernelOperation
from petacomm.redistribution._redistribution import combine_lists, cut_lists, move_rows
from petacomm.sharing.sharing_graph import offsets_of

OPERATIONS = {
    "sum": KernelOperation.sum,
    "max": KernelOperation.max,
    "min": KernelOperation.min,
    "or": KernelOperation.bit_or,
}


@dataclass(frozen=True)
class RowLists:
    """Rows of a vector, list after list; a list may be what one other rank gets.

    Attributes
    ----------
    starts : int32 (n_runs,)
        The first row of each run.
    lengths : uint8 (n_runs,)
        Rows of each run.
    bounds : int64 (n_lists + 1,)
        The runs of each list.
    n_rows : int
    """

    starts: Int32Array
    lengths: UInt8Array
    bounds: Int64Array
    n_rows: int

    @classmethod
    def of(cls, positions: Int32Array, counts: Int64Array | None = None) -> RowLists:
        """Return lists of rows at `positions`, of so many each; by default one list of all."""
        offsets = offsets_of(np.array([len(positions)]) if counts is None else counts)
        bounds = np.empty(len(offsets), np.int64)
        n_runs = cut_lists(positions, offsets, None, None, bounds)
        starts, lengths = np.empty(n_runs, np.int32), np.empty(n_runs, np.uint8)
        cut_lists(positions, offsets, starts, lengths, bounds)
        return cls(starts, lengths, bounds, len(positions))

    @property
    def nbytes(self) -> int:
        """Bytes that the lists take."""
        return self.starts.nbytes + self.lengths.nbytes + self.bounds.nbytes

    def part(self, number: int) -> RowLists:
        """Return one of the lists."""
        runs = slice(self.bounds[number], self.bounds[number + 1])
        starts, lengths = self.starts[runs], self.lengths[runs]
        return RowLists(starts, lengths, np.array([0, len(starts)]), int(lengths.sum(dtype=np.int64)))

    def take(self, values: AnyArray, out: AnyArray, n_threads: int) -> None:
        """Copy these rows of `values` (any, k) to `out` (n_rows, k)."""
        move_rows(values, self.starts, self.lengths, out, None, None, self.n_rows, n_threads)

    def put(self, rows: AnyArray, values: AnyArray, n_threads: int) -> None:
        """Copy `rows` (n_rows, k) to these rows of `values` (any, k)."""
        move_rows(rows, None, None, values, self.starts, self.lengths, self.n_rows, n_threads)

    def move(self, source: AnyArray, target: AnyArray, there: RowLists, n_threads: int) -> None:
        """Copy these rows of `source` to those that `there` names of `target`, in order."""
        if self.n_rows != there.n_rows:
            raise ValueError(f"{self.n_rows} rows to the places of {there.n_rows}")
        move_rows(
            source, self.starts, self.lengths, target, there.starts, there.lengths, self.n_rows, n_threads
        )

    def combine(
        self,
        received: AnyArray,
        own_list: int,
        op: Operation,
        values: AnyArray,
        n_threads: int,
        own: BoolArray | None = None,
    ) -> None:
        """Reduce rows received (n_rows, k) into these rows of `values` (any, k), in the order of the lists.

        Rows of a list increase. The own value of a row takes the turn of the list `own_list`, which is empty;
        where it has none, by `own`, the first that comes is taken as it is.
        """
        combine_lists(
            received,
            self.starts,
            self.lengths,
            self.bounds,
            own_list,
            None if own is None else own.view(np.uint8),
            OPERATIONS[op],
            values,
            n_threads,
        )
