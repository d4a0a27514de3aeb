"""What a communication asks of its ranks and nodes, counted in rows, before any machine prices it.

A row is the values of one key: their number and size are known only when the load is priced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import FloatArray, Int32Array

Count: TypeAlias = float | npt.NDArray[np.number]


class Share(NamedTuple):
    """What one rank does in one phase, or, of arrays (size,), what every rank does.

    Attributes
    ----------
    messages : float
        Messages that it sends.
    rows : float
        Rows in them.
    off_node_rows : float
        Those of them that go to other nodes.
    moved : float
        Rows that it packs, unpacks or adds to others in its memory.
    barriers : float
        Times that it waits for others, beside the wait for the messages of the phase.
    runs : float
        Runs of neighbouring rows among those moved, each of which is to be found anew.
    """

    messages: Count = 0.0
    rows: Count = 0.0
    off_node_rows: Count = 0.0
    moved: Count = 0.0
    barriers: Count = 0.0
    runs: Count = 0.0


@dataclass(frozen=True)
class Phase:
    """What one phase asks of the busiest rank and of the busiest node.

    A phase is what happens between two waits: each rank does its share, and all have done theirs before any
    goes on. The busiest rank is another for each of the counts.

    Attributes
    ----------
    messages, rows, moved, barriers, runs : float
        The largest of each count of `Share` over all ranks.
    off_node_rows : float
        Rows that the ranks of one node send to other nodes, the largest over nodes; 0 on a single node.
    node_messages, node_rows, node_moved, node_runs : float
        Sums over the ranks of one node, the largest over nodes.
    """

    messages: float = 0.0
    rows: float = 0.0
    off_node_rows: float = 0.0
    moved: float = 0.0
    barriers: float = 0.0
    node_messages: float = 0.0
    node_rows: float = 0.0
    node_moved: float = 0.0
    runs: float = 0.0
    node_runs: float = 0.0


Load: TypeAlias = tuple[Phase, ...]


def busiest(shares: Sequence[Share], node_of: Int32Array) -> Load:
    """Return what the phases ask of the busiest rank and the busiest node.

    Parameters
    ----------
    shares : sequence of Share
        A phase each; counts of shape (size,), or one number where all ranks do the same.
    node_of : int32 (size,)
        The node of each rank, counted from 0.
    """
    return tuple(_busiest(share, node_of) for share in shares)


def _busiest(share: Share, node_of: Int32Array) -> Phase:
    counts = [np.broadcast_to(np.asarray(count, np.float64), node_of.shape) for count in share]
    messages, rows, off_node_rows, moved, barriers, runs = counts
    return Phase(
        messages=float(messages.max()),
        rows=float(rows.max()),
        off_node_rows=_node_sum(off_node_rows, node_of),
        moved=float(moved.max()),
        barriers=float(barriers.max()),
        node_messages=_node_sum(messages, node_of),
        node_rows=_node_sum(rows, node_of),
        node_moved=_node_sum(moved, node_of),
        runs=float(runs.max()),
        node_runs=_node_sum(runs, node_of),
    )


def _node_sum(counts: FloatArray, node_of: Int32Array) -> float:
    return float(np.bincount(node_of, counts).max())
