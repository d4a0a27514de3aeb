"""Union of the keys of the ranks of a node, merged in shared memory.

Each rank writes its keys, as intervals of consecutive keys, to shared memory, and merges the intervals of all
ranks in its range of keys. The ranges have about the same number of pairs of a key and a holder.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ResourceError
from petacomm.base.typing import Int32Array, Int64Array
from petacomm.mpi.communicator import Communicator
from petacomm.reduction._reduction import (
    INTERVAL_WORDS,
    RUN_WORDS,
    cut_intervals,
    merge_runs,
    split_key,
)
from petacomm.sharing.sharing_graph import offsets_from_counts

# Rows of a node, and slots of its messages, are counted in uint32.
_MOST_ROWS = 2**32
# Larger than all keys.
_END = 2**63 - 1


class NodeUnion:
    """Union of the keys of the ranks of a node, of which each rank has a range. Collective on `comm`.

    A *row* is a key of a rank; the rows of the node are numbered rank by rank. A *run* is consecutive keys of
    one group that the same ranks hold.

    Parameters
    ----------
    comm : Communicator
        Communicator of all ranks of all nodes.
    keys : int64 (n_keys,)
        Keys of this rank, sorted and distinct.
    groups : int32 (n_keys,), optional
        Group of each key, the same on all ranks that hold it; keys of negative groups are left out. By
        default all keys are of group 0.

    Attributes
    ----------
    row_offsets : int64 (n_node + 1,)
        First row of each rank of the node, and the end.
    low, high : int
        Range of keys of this rank, ``low <= key < high``.
    runs : int64 (n_runs, RUN_WORDS)
        Runs in the order of keys; their columns are `key`, `length`, `n_holders` and `group`.
    rows : uint32 (sum of n_holders,)
        For each run, the row of its first key in each of its ranks, in rank order.
    """

    def __init__(
        self,
        comm: Communicator,
        keys: Int64Array,
        groups: Int32Array | None = None,
    ) -> None:
        self.comm = comm
        node = comm.node()
        n_intervals = cut_intervals(keys, groups, 0, None)
        sizes = np.zeros((node.size, 2), np.int64)
        sizes[node.rank] = len(keys), n_intervals
        sizes = node.allreduce(sizes)
        self.row_offsets = offsets_from_counts(sizes[:, 0])
        if self.row_offsets[-1] >= _MOST_ROWS:
            raise ResourceError(
                f"the ranks of a node hold {self.row_offsets[-1]} values",
                mend="use the reduction 'owner', or more nodes",
            )
        self.lists = offsets_from_counts(sizes[:, 1])
        self.intervals = self._share(keys, groups)
        self.low, self.high = self._range()
        self.runs, self.rows = merge_intervals(self.intervals, self.lists, self.low, self.high)

    def _share(self, keys: Int64Array, groups: Int32Array | None) -> Int64Array:
        """Return the intervals of all ranks of the node, one rank after the other."""
        node = self.comm.node()
        n_bytes = int(self.lists[-1]) * INTERVAL_WORDS * 8
        window = self.comm.shared_window(n_bytes if node.rank == 0 else 0)
        intervals = window.bytes[:n_bytes].view(np.int64).reshape(-1, INTERVAL_WORDS)
        mine = intervals[self.lists[node.rank] : self.lists[node.rank + 1]]
        cut_intervals(keys, groups, int(self.row_offsets[node.rank]), mine)
        window.barrier()
        return intervals

    def _range(self) -> tuple[int, int]:
        """Return the range of keys of this rank, with about an equal share of all (key, holder) pairs."""
        node = self.comm.node()
        last = self.intervals[self.lists[1:][np.diff(self.lists) > 0] - 1]
        n_pairs = int(np.sum(last[:, 1] + last[:, 3]))
        low, high = (
            split_key(self.intervals, self.lists, n_pairs * rank // node.size)
            for rank in (node.rank, node.rank + 1)
        )
        return low, _END if node.rank == node.size - 1 else high

    @property
    def key(self) -> Int64Array:
        """First key of each run, int64 (n_runs,)."""
        return self.runs[:, 0]

    @property
    def length(self) -> Int64Array:
        """Number of consecutive keys of each run, int64 (n_runs,)."""
        return self.runs[:, 1]

    @property
    def n_holders(self) -> Int64Array:
        """Number of ranks of the node that hold each run, int64 (n_runs,)."""
        return self.runs[:, 2]

    @property
    def group(self) -> Int64Array:
        """Group of each run, int64 (n_runs,)."""
        return self.runs[:, 3]


def merge_intervals(
    intervals: Int64Array, lists: Int64Array, low: int, high: int
) -> tuple[Int64Array, npt.NDArray[np.uint32]]:
    """Return the runs of the union of lists of intervals in a range of keys, and their rows."""
    n_runs, n_rows = merge_runs(intervals, lists, low, high, None, None)
    runs, rows = np.empty((n_runs, RUN_WORDS), np.int64), np.empty(n_rows, np.uint32)
    merge_runs(intervals, lists, low, high, runs, rows)
    return runs, rows
