"""In how many runs of neighbouring rows the lists of messages lie: each run is found anew.

The same counts serve ranks that exist and those that do not: a run ends at a multiple of 64 keys, so that
a sample of such pieces tells it too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import BoolArray, Int64Array
from petacomm.sharing.sharing_graph import RUN_BITS, SharingGraph

Integers = npt.NDArray[np.integer]


def begins(lists: Integers, keys: Int64Array, places: Integers) -> BoolArray:
    """Return whether a run begins at each entry of lists.

    Parameters
    ----------
    lists : integer (n,)
        The list of each entry; those of a list stand together.
    keys : int64 (n,)
    places : integer (n,)
        The row of each entry.
    """
    found = np.ones(len(keys), np.bool_)
    block = keys >> RUN_BITS
    found[1:] = (lists[1:] != lists[:-1]) | (places[1:] != places[:-1] + 1) | (block[1:] != block[:-1])
    return found


def moved_begins(lists: Integers, keys: Int64Array, places: Integers, there: Integers) -> BoolArray:
    """Return whether a run begins at each entry that goes from one place to another: a run in both."""
    return begins(lists, keys, places) | begins(lists, keys, there)


class ListRuns(NamedTuple):
    """How many runs begin at each key of a rank: int64 (n,) each.

    Attributes
    ----------
    pairs, ghosts, asked
        In the lists of what goes to every other holder, to owners, and from owners back.
    """

    pairs: Int64Array
    ghosts: Int64Array
    asked: Int64Array


def list_runs(keys: Int64Array, owner: Integers, multiplicity: Integers, holder: Integers | int) -> ListRuns:
    """Return the runs in which a rank's lists lie, as far as owners and numbers of holders tell it.

    Of two neighbouring rows on m1 and m2 ranks, as many ranks as can be are taken to hold both.

    Parameters
    ----------
    keys : int64 (n,)
        Those of a rank, increasing; or of several, one rank after the other.
    owner, multiplicity : integer (n,)
        Of each key.
    holder : int, or integer (n,)
        The rank whose key it is.
    """
    ranks = np.broadcast_to(np.asarray(holder), keys.shape)
    # all keys of a rank are neighbours in its rows
    block = keys >> RUN_BITS
    goes_on = np.zeros(len(keys), np.bool_)
    goes_on[1:] = (ranks[1:] == ranks[:-1]) & (block[1:] == block[:-1])
    others = multiplicity.astype(np.int64) - 1
    before = np.zeros_like(others)
    before[1:] = np.where(goes_on[1:], others[:-1], 0)
    fresh = others - np.minimum(others, before)
    mine = owner == ranks
    same, was_mine = np.zeros_like(mine), np.zeros_like(mine)
    same[1:] = goes_on[1:] & (owner[1:] == owner[:-1])
    was_mine[1:] = mine[:-1]
    ghosts = (~mine & ~same).astype(np.int64)
    asked = np.where(mine, np.where(was_mine, fresh, others), 0)
    return ListRuns(fresh, ghosts, asked)


def graph_runs(graph: SharingGraph, keys: Int64Array, rank: int) -> tuple[float, float, float]:
    """Return the runs in which the lists of `rank` lie, whose keys and graph these are: as in `ListRuns`."""
    pairs, ghosts, asked = list_runs(keys, graph.owner, graph.multiplicity, rank)
    return float(pairs.sum()), float(ghosts.sum()), float(asked.sum())
