"""Keys in a rank's range of its node, and tables of their rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.reduction.node_union import NodeUnion
from petacomm.reduction.row_runs import RowRuns, UInt32Array, select_runs
from petacomm.sharing.sharing_graph import offsets_from_counts


@dataclass(frozen=True)
class KeySlots:
    """Message slots of keys, any number for each; all int64 (n,).

    Attributes
    ----------
    key : int64
        Position of the key in a table.
    place : int64
        Position of the slot among the entries of the key: before its rows if negative, else after them.
    slot : int64
        Number of the slot.
    """

    key: Int64Array
    place: Int64Array
    slot: Int64Array


@dataclass(frozen=True)
class NodeKeys:
    """Shared keys in a rank's range of its node.

    Attributes
    ----------
    key : int64 (n,)
        Sorted keys.
    group : int64 (n,)
        Group of each key.
    counts : int64 (n,)
        Number of ranks of the node that hold each key.
    rows : uint32 (sum of counts,)
        Rows of each key.
    n_rows : int
        Number of rows of the node, after which slots are numbered.
    """

    key: Int64Array
    group: Int64Array
    counts: Int64Array
    rows: UInt32Array
    n_rows: int

    @classmethod
    def from_union(cls, union: NodeUnion, n_rows: int) -> NodeKeys:
        """Return the keys of the runs of a union."""
        run = np.repeat(np.arange(len(union.runs)), union.length)
        within = np.arange(len(run)) - offsets_from_counts(union.length)[run]
        counts, rows = select_runs(run, union.n_holders, union.rows)
        rows = (rows + np.repeat(within, counts)).astype(np.uint32)
        return cls(union.key[run] + within, union.group[run], counts, rows, n_rows)

    def table(self, selected: Int64Array, slots: KeySlots | None = None) -> RowRuns:
        """Return the table of the keys at the positions `selected`, with their slots."""
        counts, rows = select_runs(selected, self.counts, self.rows)
        if slots is None:
            return RowRuns.from_runs(np.ones(len(selected), np.int64), counts, rows)
        key = np.concatenate([np.repeat(np.arange(len(selected)), counts), slots.key])
        place = np.concatenate([np.zeros(len(rows), np.int64), slots.place])
        entries = np.concatenate([rows.astype(np.int64), self.n_rows + slots.slot])
        entries = entries[np.lexsort([place, key])].astype(np.uint32)
        counts = counts + np.bincount(slots.key, minlength=len(selected))
        return RowRuns.from_runs(np.ones(len(selected), np.int64), counts, entries)
