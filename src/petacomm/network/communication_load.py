"""Communication load of ranks and nodes, in messages and rows, independent of a machine.

A row is the values of one key; their number and size enter only in
`petacomm.network.alpha_beta.predict_seconds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import FloatArray, Int32Array

Count: TypeAlias = float | npt.NDArray[np.number]


class RankLoad(NamedTuple):
    """Load of one rank in one phase; with arrays (size,), that of all ranks.

    Attributes
    ----------
    messages : float
        Messages sent.
    rows : float
        Rows sent in them.
    off_node_rows : float
        Rows sent to other nodes.
    moved : float
        Rows packed, unpacked or added in memory.
    barriers : float
        Number of barriers, not counting the wait for the messages of the phase.
    runs : float
        Runs of neighbouring rows among those moved, each of which must be located.
    """

    messages: Count = 0.0
    rows: Count = 0.0
    off_node_rows: Count = 0.0
    moved: Count = 0.0
    barriers: Count = 0.0
    runs: Count = 0.0


@dataclass(frozen=True)
class LoadPhase:
    """Load of the busiest rank and of the busiest node in one phase.

    A phase is the work between two synchronisations of all ranks. The busiest rank may differ between counts.

    Attributes
    ----------
    messages, rows, moved, barriers, runs : float
        Maximum of each count of `RankLoad` over all ranks.
    off_node_rows : float
        Rows that the ranks of one node send to other nodes, maximum over nodes; 0 on a single node.
    node_messages, node_rows, node_moved, node_runs : float
        Sums over the ranks of one node, maximum over nodes.
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


Load: TypeAlias = tuple[LoadPhase, ...]


def busiest_load(rank_loads: Sequence[RankLoad], node_of: Int32Array) -> Load:
    """Return the load of the busiest rank and the busiest node in each phase.

    Parameters
    ----------
    rank_loads : sequence of RankLoad
        Loads of all ranks in each phase: counts of shape (size,), or one number if they are equal.
    node_of : int32 (size,)
        Node of each rank, counted from 0.
    """
    return tuple(_busiest_phase(loads, node_of) for loads in rank_loads)


def _busiest_phase(loads: RankLoad, node_of: Int32Array) -> LoadPhase:
    counts = {
        name: np.broadcast_to(np.asarray(count, np.float64), node_of.shape)
        for name, count in loads._asdict().items()
    }
    off_node_rows = _node_sum(counts.pop("off_node_rows"), node_of)
    most = {name: float(count.max()) for name, count in counts.items()}
    del counts["barriers"]
    of_nodes = {f"node_{name}": _node_sum(count, node_of) for name, count in counts.items()}
    return LoadPhase(off_node_rows=off_node_rows, **most, **of_nodes)


def _node_sum(counts: FloatArray, node_of: Int32Array) -> float:
    return float(np.bincount(node_of, counts).max())
