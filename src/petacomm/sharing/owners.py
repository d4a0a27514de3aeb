"""Who owns a key: one of its holders, such that all ranks send about as much as each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int32Array, Int64Array
from petacomm.sharing import _sharing

# Weights start here and stay within a factor of four.
_WEIGHT = 1 << 12
_ROUNDS = 8
# The largest load is even enough if it is this far above the mean, or if the last correction did not lower it
# to this part of what it was.
_TOLERANCE, _WORTHWHILE = 1.2, 0.98
# Of so few keys, nobody minds.
_FEW_KEYS = 1024


@dataclass(frozen=True)
class Tally:
    """What a choice of owners means for each rank; all int64 (n_ranks,).

    Attributes
    ----------
    held, owned, shared : int64
        Keys that the rank holds, owns, and holds with others.
    extra : int64
        Sum over owned keys on m > 1 ranks of m - 2.
    """

    held: Int64Array
    owned: Int64Array
    shared: Int64Array
    extra: Int64Array

    @property
    def sent(self) -> Int64Array:
        """Rows that each rank sends in an all-reduce through owners: one a ghost, m - 1 an owned key."""
        return self.shared + self.extra

    @property
    def n_keys(self) -> int:
        """Distinct keys on all ranks."""
        return int(self.owned.sum())

    def is_even(self, before: Tally | None) -> bool:
        """Whether another choice, after this one and the one `before`, would not be much better.

        It is if some rank sends more than twice the most keys that any rank holds.
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
) -> tuple[Int32Array, Tally]:
    """Choose one holder for each key: runs of neighbours have one owner, and all ranks send alike.

    The holders of a key have arcs of a circle, and the key a place on it. Places go round once in 256 keys,
    so that keys with the same holders are owned in runs, by ranks of the same node one after the other; and
    each round begins further on by the golden section, so that a rank's share comes out almost exactly
    where neighbours have similar holders. Where it does not, and some rank would send more than twice the
    most keys that any rank holds, or much more than the others, arcs are made longer or shorter by what each
    rank sent too little or too much, and the choice is made anew.

    Parameters
    ----------
    keys : int64 (n,)
    offsets : int64 (n + 1,)
        ``holders[offsets[i]:offsets[i + 1]]`` are the ranks that hold key i, in the order of (node, rank).
    holders : int32 (offsets[n],)
    n_ranks : int
    add : callable
        Adds tallies, int64 (n_ranks, 4), of keys that are elsewhere, where these are not all of them: the
        choice depends on all keys. Each key is to be counted once for each of its holders.

    Returns
    -------
    owners : int32 (n,)
    tally : Tally
        Of all keys.
    """
    weights = np.full(n_ranks, _WEIGHT, np.int32)
    owners = np.empty(len(keys), np.int32)
    before = None
    for i in range(_ROUNDS):
        _sharing.choose_owners(keys, offsets, holders, weights, owners)
        tallies = np.zeros((n_ranks, 4), np.int64)
        _sharing.tally_owners(offsets, holders, owners, tallies)
        tally = Tally(*np.ascontiguousarray(add(tallies).T))
        if tally.is_even(before):
            break
        weights, before = _corrected(weights, tally, i), tally
    return owners, tally


def _corrected(weights: Int32Array, tally: Tally, n_corrected: int) -> Int32Array:
    """Return weights that let all ranks send the same, if what a rank owns changes as its weight does.

    After the first time only half of that: the others' changes move its keys as well.
    """
    # In integers, so that all ranks get the same.
    mean = int(tally.sent.sum()) // len(weights)
    part, extra = np.maximum(mean - tally.shared, 0) + 1, tally.extra + 1
    half = min(n_corrected, 1)
    wanted = weights * (part + half * extra) // ((1 + half) * extra)
    return np.clip(wanted, _WEIGHT // 4, 4 * _WEIGHT).astype(np.int32)
