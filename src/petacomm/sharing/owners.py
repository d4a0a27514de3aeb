"""Choice of the owners of keys among their holders, such that all ranks send about as many rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.sharing import _sharing

# Initial weight of a rank; weights change by at most a factor of four.
_WEIGHT = 1 << 12
_ROUNDS = 8
# A choice is balanced if the largest load is at most this factor above the mean, or if the last correction
# did not lower it below this fraction of the load before.
_TOLERANCE, _WORTHWHILE = 1.2, 0.98
# Number of keys of a rank below which imbalance does not matter.
_FEW_KEYS = 1024


@dataclass(frozen=True)
class OwnerTally:
    """Counts of keys of each rank for a choice of owners; all int64 (n_ranks,).

    Attributes
    ----------
    held, owned, shared : int64
        Keys that the rank holds, owns, and shares with other ranks.
    extra : int64
        Sum of m - 2 over owned keys that m > 1 ranks hold.
    """

    held: Int64Array
    owned: Int64Array
    shared: Int64Array
    extra: Int64Array

    @property
    def sent(self) -> Int64Array:
        """Rows that each rank sends in an all-reduce by owners: 1 for a ghost, m - 1 for an owned key."""
        return self.shared + self.extra

    @property
    def n_keys(self) -> int:
        """Number of distinct keys on all ranks."""
        return int(self.owned.sum())

    def is_balanced(self, before: OwnerTally | None) -> bool:
        """Return whether a further correction would not improve the choice much.

        It would if some rank sends more than twice as many rows as any rank holds keys.

        Parameters
        ----------
        before : OwnerTally or None
            Tally of the choice before.
        """
        largest, most = int(self.sent.max()), int(self.held.max())
        if most < _FEW_KEYS:
            return True
        if largest > 2 * most:
            return False
        lowered = before is None or largest <= _WORTHWHILE * int(before.sent.max())
        return largest <= _TOLERANCE * self.sent.mean() or not lowered


def choose_owners(
    keys: Int64Array,
    offsets: Int64Array,
    holders: Int32Array,
    n_ranks: int,
    add: Callable[[Int64Array], Int64Array] = lambda tallies: tallies,
) -> tuple[Int32Array, OwnerTally]:
    """Choose one of the holders of each key as its owner, in runs of keys and balanced over ranks.

    The holders of a key have arcs of a circle, and the key a point on it. The point goes round once in 256
    keys, so that keys with the same holders are owned in runs, by the ranks of one node after the other. Each
    round begins at an offset that grows by the golden section, so that a rank's share is almost exact where
    consecutive keys have similar holders. If some rank would send more than twice as many rows as any rank
    holds keys, or much more than the others, the arcs are lengthened or shortened by what each rank sends too
    little or too much, and the choice is repeated.

    Parameters
    ----------
    keys : int64 (n,)
    offsets : int64 (n + 1,)
        ``holders[offsets[i]:offsets[i + 1]]`` are the ranks that hold key i, in the order of (node, rank).
    holders : int32 (offsets[n],)
    n_ranks : int
    add : callable
        Adds the tallies, int64 (n_ranks, 4), of keys of other ranks if `keys` are not all keys: the choice
        depends on all of them. Each key must be counted once for each of its holders.

    Returns
    -------
    owners : int32 (n,)
    tally : OwnerTally
        Tally of all keys.
    """
    weights = np.full(n_ranks, _WEIGHT, np.int32)
    owners = np.empty(len(keys), np.int32)
    before = None
    for i in range(_ROUNDS):
        _sharing.choose_owners(keys, offsets, holders, weights, owners)
        tallies = np.zeros((n_ranks, 4), np.int64)
        _sharing.tally_owners(offsets, holders, owners, tallies)
        tally = OwnerTally(*np.ascontiguousarray(add(tallies).T))
        if tally.is_balanced(before):
            break
        weights, before = _corrected(weights, tally, i), tally
    return owners, tally


def _corrected(weights: Int32Array, tally: OwnerTally, n_corrected: int) -> Int32Array:
    """Return weights for which all ranks would send the same if owned keys were proportional to weights.

    After the first correction only half of the change is made, since changes of other weights move keys, too.
    """
    # In integers, so that all ranks get the same result.
    mean = int(tally.sent.sum()) // len(weights)
    part, extra = np.maximum(mean - tally.shared, 0) + 1, tally.extra + 1
    half = min(n_corrected, 1)
    wanted = weights * (part + half * extra) // ((1 + half) * extra)
    return np.clip(wanted, _WEIGHT // 4, 4 * _WEIGHT).astype(np.int32)
