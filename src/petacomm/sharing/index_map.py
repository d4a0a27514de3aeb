"""The keys that this rank holds."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import UserError
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.mpi.agreement import agree
from petacomm.mpi.communicator import Communicator
from petacomm.sharing._sharing import find_sorted

# Positions of keys on a rank are int32.
_MOST_KEYS = 2**31 - 1
# The end of an interval of keys must be an int64 too.
_LARGEST_KEY = 2**63 - 2


class ReductionError(UserError, ValueError):
    """A reduction was given keys or values that do not fit, on this rank or between ranks."""


class IndexMap:
    """The global keys of this rank's values, e.g. the sky pixels that its samples hit. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
        All ranks that share keys.
    keys : int64 (n_keys,)
        Non-negative, below 2^63 - 1, strictly increasing; any rank may have none. Kept, and not copied where
        contiguous.
    n_total : int, optional
        Keys must be below this, e.g. the number of pixels of the sky.

    Raises
    ------
    ReductionError
        On all ranks, if the keys of any rank are of another dtype or shape, out of range, repeated or
        unsorted.
    """

    def __init__(self, comm: Communicator, keys: Int64Array, n_total: int | None = None) -> None:
        agree(comm, _fault(comm.rank, keys, n_total))
        self.comm = comm
        self.keys = np.ascontiguousarray(keys)

    @property
    def n_keys(self) -> int:
        """How many keys this rank holds."""
        return len(self.keys)

    def find(self, keys: Int64Array) -> Int32Array:
        """Return the local position of each key, -1 where this rank does not hold it."""
        return find(self.keys, keys)


def find(sorted_keys: Int64Array, keys: Int64Array, n_threads: int = 1) -> Int32Array:
    """Return the position of each of `keys` in `sorted_keys`, -1 where it is absent."""
    positions = np.empty(len(keys), np.int32)
    find_sorted(sorted_keys, np.ascontiguousarray(keys), positions, n_threads)
    return positions


def _fault(rank: int, keys: AnyArray, n_total: int | None) -> ReductionError | None:
    where = f"rank {rank}"
    if not isinstance(keys, np.ndarray) or keys.dtype != np.int64 or keys.ndim != 1:
        return ReductionError("keys must be a one-dimensional int64 array", where=where)
    if len(keys) > _MOST_KEYS:
        return ReductionError(
            f"{len(keys)} keys are too many for one rank", where=where, mend="use more ranks"
        )
    if len(keys) and keys.min() < 0:
        return ReductionError(f"key {keys.min()} is negative", where=where)
    if len(keys) and keys.max() > _LARGEST_KEY:
        return ReductionError(f"key {keys.max()} is too large", where=where, mend="keys below 2^63 - 1")
    if len(keys) and n_total is not None and keys.max() >= n_total:
        return ReductionError(f"key {keys.max()} is none of {n_total} keys", where=where)
    steps = np.diff(keys)
    if np.any(steps <= 0):
        i = int(np.argmax(steps <= 0))
        fault = "is repeated" if steps[i] == 0 else f"comes before {keys[i + 1]}"
        return ReductionError(
            f"key {keys[i]} at position {i} {fault}", where=where, mend="keys must be sorted and distinct"
        )
    return None
