"""Numbers of runs of consecutive rows in the lists of messages, each of which must be located.

The same counts serve plans and forecasts: runs end at multiples of 64 keys, so that they can be counted in a
sample of blocks of 64 keys.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import BoolArray, Int64Array
from petacomm.sharing.sharing_graph import RUN_BITS, SharingGraph

Integers = npt.NDArray[np.integer]


def run_begins(lists: Integers, keys: Int64Array, rows: Integers) -> BoolArray:
    """Return whether a run begins at each entry of lists.

    Parameters
    ----------
    lists : integer (n,)
        List of each entry; entries of a list are consecutive.
    keys : int64 (n,)
        Key of each entry.
    rows : integer (n,)
        Row of each entry.
    """
    begins = np.ones(len(keys), np.bool_)
    block = keys >> RUN_BITS
    begins[1:] = (lists[1:] != lists[:-1]) | (rows[1:] != rows[:-1] + 1) | (block[1:] != block[:-1])
    return begins


def moved_run_begins(lists: Integers, keys: Int64Array, rows: Integers, target_rows: Integers) -> BoolArray:
    """Return whether a run begins at each entry that is moved between rows; runs are consecutive in both."""
    return run_begins(lists, keys, rows) | run_begins(lists, keys, target_rows)


class ListRuns(NamedTuple):
    """Number of runs that begin at each key of a rank: int64 (n,) each.

    Attributes
    ----------
    pairs, to_owners, to_ghosts
        In the lists of rows for all other holders, for owners, and for ghosts.
    """

    pairs: Int64Array
    to_owners: Int64Array
    to_ghosts: Int64Array


def list_runs(keys: Int64Array, owner: Integers, multiplicity: Integers, holder: Integers | int) -> ListRuns:
    """Return the runs of a rank's lists, estimated from owners and multiplicities.

    As many ranks as possible are assumed to hold both of two consecutive rows.

    Parameters
    ----------
    keys : int64 (n,)
        Keys of a rank, increasing; or of several ranks, one rank after the other.
    owner, multiplicity : integer (n,)
        Owner and multiplicity of each key.
    holder : int, or integer (n,)
        Rank that holds the key.
    """
    ranks = np.broadcast_to(np.asarray(holder), keys.shape)
    # Consecutive keys of a rank are in consecutive rows.
    block = keys >> RUN_BITS
    continues = np.zeros(len(keys), np.bool_)
    continues[1:] = (ranks[1:] == ranks[:-1]) & (block[1:] == block[:-1])
    others = multiplicity.astype(np.int64) - 1
    before = np.zeros_like(others)
    before[1:] = np.where(continues[1:], others[:-1], 0)
    new_holders = others - np.minimum(others, before)
    owned = owner == ranks
    same, was_owned = np.zeros_like(owned), np.zeros_like(owned)
    same[1:] = continues[1:] & (owner[1:] == owner[:-1])
    was_owned[1:] = owned[:-1]
    to_owners = (~owned & ~same).astype(np.int64)
    to_ghosts = np.where(owned, np.where(was_owned, new_holders, others), 0)
    return ListRuns(new_holders, to_owners, to_ghosts)


def graph_runs(graph: SharingGraph, keys: Int64Array, rank: int) -> tuple[float, float, float]:
    """Return the total runs of the lists of `rank`, which has this graph and these keys: see `ListRuns`."""
    pairs, to_owners, to_ghosts = list_runs(keys, graph.owner, graph.multiplicity, rank)
    return float(pairs.sum()), float(to_owners.sum()), float(to_ghosts.sum())
