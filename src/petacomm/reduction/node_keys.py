"""A rank's range of the keys of its node, key by key, and the tables made of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.reduction.node_union import NodeUnion
from petacomm.reduction.row_runs import RowRuns, UInt32Array, chosen
from petacomm.sharing.sharing_graph import offsets_of


@dataclass(frozen=True)
class Slots:
    """Slots of keys, some or none for each; all int64 (n,).

    Attributes
    ----------
    key : int64
        The key, counted among those of a table.
    place : int64
        Before the rows of the key, from the lowest on, if it is negative; else after them.
    slot : int64
    """

    key: Int64Array
    place: Int64Array
    slot: Int64Array


@dataclass(frozen=True)
class NodeKeys:
    """The keys of a rank's range of its node that anybody else holds as well.

    Attributes
    ----------
    key : int64 (n,)
        Sorted.
    group : int64 (n,)
    counts : int64 (n,)
        Ranks of the node that hold each.
    rows : uint32 (sum of counts,)
        Their rows.
    n_rows : int
        The slots are numbered after so many rows.
    """

    key: Int64Array
    group: Int64Array
    counts: Int64Array
    rows: UInt32Array
    n_rows: int

    @classmethod
    def of(cls, union: NodeUnion, n_rows: int) -> NodeKeys:
        """Take the runs of a union apart."""
        run = np.repeat(np.arange(len(union.runs)), union.length)
        within = np.arange(len(run)) - offsets_of(union.length)[run]
        counts, rows = chosen(run, union.n_holders, union.rows)
        rows = (rows + np.repeat(within, counts)).astype(np.uint32)
        return cls(union.key[run] + within, union.group[run], counts, rows, n_rows)

    def table(self, which: Int64Array, slots: Slots | None = None) -> RowRuns:
        """Return the table of some keys, given by position, with their slots."""
        counts, rows = chosen(which, self.counts, self.rows)
        if slots is None:
            return RowRuns.of(np.ones(len(which), np.int64), counts, rows)
        key = np.concatenate([np.repeat(np.arange(len(which)), counts), slots.key])
        place = np.concatenate([np.zeros(len(rows), np.int64), slots.place])
        entries = np.concatenate([rows.astype(np.int64), self.n_rows + slots.slot])
        entries = entries[np.lexsort([place, key])].astype(np.uint32)
        counts = counts + np.bincount(slots.key, minlength=len(which))
        return RowRuns.of(np.ones(len(which), np.int64), counts, entries)
