"""Lists of rows of a vector, stored as runs of consecutive rows in 5 bytes a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.typing import AnyArray, BoolArray, Int32Array, Int64Array, UInt8Array
from petacomm.mpi.communicator import Operation
from petacomm.redistribution._redistribution import RunLists, combine_lists, cut_lists, move_rows
from petacomm.sharing.sharing_graph import offsets_from_counts


@dataclass(frozen=True)
class RowLists:
    """Lists of rows of a vector, for example one list for each other rank.

    Attributes
    ----------
    starts : int32 (n_runs,)
        First row of each run.
    lengths : uint8 (n_runs,)
        Number of rows of each run.
    bounds : int64 (n_lists + 1,)
        Begin of the runs of each list, and the end.
    n_rows : int
        Number of rows of all lists.
    """

    starts: Int32Array
    lengths: UInt8Array
    bounds: Int64Array
    n_rows: int

    @classmethod
    def from_positions(cls, positions: Int32Array, counts: Int64Array | None = None) -> RowLists:
        """Return the lists of rows `positions`, with `counts` rows each; by default one list."""
        offsets = offsets_from_counts(np.array([len(positions)]) if counts is None else counts)
        bounds = np.empty(len(offsets), np.int64)
        n_runs = cut_lists(positions, offsets, None, None, bounds)
        starts, lengths = np.empty(n_runs, np.int32), np.empty(n_runs, np.uint8)
        cut_lists(positions, offsets, starts, lengths, bounds)
        return cls(starts, lengths, bounds, len(positions))

    @property
    def nbytes(self) -> int:
        """Bytes of the lists."""
        return self.starts.nbytes + self.lengths.nbytes + self.bounds.nbytes

    @cached_property
    def _checked(self) -> RunLists:
        """The runs as the kernels take them."""
        return RunLists(self.starts, self.lengths, self.bounds)

    def part(self, number: int) -> RowLists:
        """Return the list of a number as lists of its own."""
        runs = slice(self.bounds[number], self.bounds[number + 1])
        starts, lengths = self.starts[runs], self.lengths[runs]
        return RowLists(starts, lengths, np.array([0, len(starts)]), int(lengths.sum(dtype=np.int64)))

    def take(self, values: AnyArray, out: AnyArray, n_threads: int) -> None:
        """Copy these rows of `values` (any, k) to `out` (n_rows, k)."""
        move_rows(values, self._checked, out, None, self.n_rows, n_threads)

    def put(self, rows: AnyArray, values: AnyArray, n_threads: int) -> None:
        """Copy `rows` (n_rows, k) to these rows of `values` (any, k)."""
        move_rows(rows, None, values, self._checked, self.n_rows, n_threads)

    def move(self, source: AnyArray, target: AnyArray, target_rows: RowLists, n_threads: int) -> None:
        """Copy these rows of `source` to the rows `target_rows` of `target`, in order."""
        if self.n_rows != target_rows.n_rows:
            raise ValueError(f"{self.n_rows} rows to the places of {target_rows.n_rows}")
        move_rows(source, self._checked, target, target_rows._checked, self.n_rows, n_threads)

    def combine(
        self,
        received: AnyArray,
        own_list: int,
        op: Operation,
        values: AnyArray,
        n_threads: int,
        own: BoolArray | None = None,
    ) -> None:
        """Reduce received rows (n_rows, k) into these rows of `values` (any, k), in the order of the lists.

        Parameters
        ----------
        received : array (n_rows, k)
        own_list : int
            Number of the empty list in whose place the present row of `values` is a term.
        op : str
        values : array (any, k)
        n_threads : int
        own : bool (any,), optional
            Whether a row of `values` is a term; by default all are. A row that is none is overwritten.

        Notes
        -----
        The rows of each list must increase.
        """
        combine_lists(
            received,
            self._checked,
            own_list,
            None if own is None else own.view(np.uint8),
            op,
            values,
            n_threads,
        )
