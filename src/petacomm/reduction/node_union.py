"""The keys of a node: what its ranks hold, merged without a message.

Each rank writes its keys, as intervals of consecutive keys, into memory that the node shares, and merges what
all of them hold in one range of keys. The ranges hold about the same number of (key, holder) pairs.
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
    spread_runs,
)
from petacomm.sharing.sharing_graph import offsets_of

# Rows of a node, and slots of its messages, are counted in uint32.
_MOST_ROWS = 2**32
# Above every key.
_END = 2**63 - 1


class NodeUnion:
    """The keys of all ranks of a node: this rank's range of them, as runs. Collective on `comm`.

    A *row* is a key of a rank: those of the node's ranks are numbered one rank after the other. A *run* is
    consecutive keys of one group that the same ranks hold.

    Parameters
    ----------
    comm : Communicator
        All ranks, of all nodes.
    keys : int64 (n_keys,)
        Sorted and distinct.
    groups : int32 (n_keys,), optional
        The group of each key, the same on all ranks that hold it; keys of negative groups are left out. By
        default all are of group 0.

    Attributes
    ----------
    row_offsets : int64 (n_node + 1,)
        The first row of each rank of the node, and the end.
    low, high : int
        This rank's range of keys, ``low <= key < high``.
    runs : int64 (n_runs, RUN_WORDS)
        In the order of keys; read them by `key`, `length`, `n_holders` and `group`.
    rows : uint32 (sum of n_holders,)
        For each run, the row of its first key in each rank that holds it, in rank order.
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
        self.row_offsets = offsets_of(sizes[:, 0])
        if self.row_offsets[-1] >= _MOST_ROWS:
            raise ResourceError(
                f"the ranks of a node hold {self.row_offsets[-1]} values",
                mend="use the reduction 'owner', or more nodes",
            )
        self.lists = offsets_of(sizes[:, 1])
        self.intervals = self._share(keys, groups)
        self.low, self.high = self._range()
        self.runs, self.rows = merged(self.intervals, self.lists, self.low, self.high)

    def _share(self, keys: Int64Array, groups: Int32Array | None) -> Int64Array:
        """Return the intervals of all ranks of the node, one rank after the other."""
        node = self.comm.node()
        n_bytes = int(self.lists[-1]) * INTERVAL_WORDS * 8
        window = self.comm.shared(n_bytes if node.rank == 0 else 0)
        intervals = window.bytes[:n_bytes].view(np.int64).reshape(-1, INTERVAL_WORDS)
        mine = intervals[self.lists[node.rank] : self.lists[node.rank + 1]]
        cut_intervals(keys, groups, int(self.row_offsets[node.rank]), mine)
        window.barrier()
        return intervals

    def _range(self) -> tuple[int, int]:
        """Return this rank's range of keys: about an equal share of all (key, holder) pairs."""
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
        """The first key of each run, int64 (n_runs,)."""
        return self.runs[:, 0]

    @property
    def length(self) -> Int64Array:
        """How many consecutive keys each run has, int64 (n_runs,)."""
        return self.runs[:, 1]

    @property
    def n_holders(self) -> Int64Array:
        """How many ranks of the node hold each run, int64 (n_runs,)."""
        return self.runs[:, 2]

    @property
    def group(self) -> Int64Array:
        """The group of each run, int64 (n_runs,)."""
        return self.runs[:, 3]

    def spread(self, values: Int32Array) -> Int32Array:
        """Give every holder the values of its keys. Collective on `comm`.

        Parameters
        ----------
        values : int32 (n_runs, k)
            Of each run of this rank's range; the same k on all ranks.

        Returns
        -------
        int32 (n_keys, k)
            Of each of this rank's keys.
        """
        node, k = self.comm.node(), values.shape[1]
        n_bytes = int(self.row_offsets[-1]) * k * 4
        window = self.comm.shared(n_bytes if node.rank == 0 else 0)
        everywhere = window.bytes[:n_bytes].view(np.int32).reshape(-1, k)
        spread_runs(values, self.runs, self.rows, everywhere)
        window.barrier()
        return everywhere[self.row_offsets[node.rank] : self.row_offsets[node.rank + 1]].copy()


def merged(
    intervals: Int64Array, lists: Int64Array, low: int, high: int
) -> tuple[Int64Array, npt.NDArray[np.uint32]]:
    """Merge the intervals of several lists in a range of keys; return runs and their rows."""
    n_runs, n_rows = merge_runs(intervals, lists, low, high, None, None)
    runs, rows = np.empty((n_runs, RUN_WORDS), np.int64), np.empty(n_rows, np.uint32)
    merge_runs(intervals, lists, low, high, runs, rows)
    return runs, rows
