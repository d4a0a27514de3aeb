"""Index maps: the global keys of the local rows of a rank."""

from __future__ import annotations

import numpy as np

from petacomm.base.arguments import require_integer, whole_array
from petacomm.base.display import Displayed
from petacomm.base.errors import ConfigError, UserError
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.mpi.agreement import agree, require_communicator
from petacomm.mpi.communicator import Communicator
from petacomm.sharing._sharing import find_sorted

# Rows of a rank are int32.
_MOST_KEYS = 2**31 - 1
# The end of an interval of keys must be an int64, too.
_LARGEST_KEY = 2**63 - 2


class ReductionError(UserError, ValueError):
    """Keys or values of a reduction that are invalid or differ between ranks."""


class IndexMap(Displayed):
    """Global keys of the rows of this rank, such as the pixels hit by its samples. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
        Communicator of all ranks that share keys.
    keys : int64 (n_keys,)
        Non-negative, below 2^63 - 1, strictly increasing; a rank may have none. Not copied if contiguous.
    n_total : int, optional
        Upper bound of the keys, such as the number of pixels of the sky.

    Raises
    ------
    ReductionError
        On all ranks, if the keys of any rank are of another dtype or shape, out of range, repeated or
        unsorted.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> keys = petacomm.IndexMap(petacomm.world(), np.array([2, 3, 5]))
    >>> keys.global_to_local(np.array([5, 4]))
    array([ 2, -1], dtype=int32)
    """

    def _facts(self) -> dict[str, object]:
        return {"rank": self.comm.rank, "n_ranks": self.comm.size, "n_keys": self.n_keys}

    def __init__(self, comm: Communicator, keys: Int64Array, n_total: int | None = None) -> None:
        require_communicator(comm)
        agree(comm, key_error(comm.rank, keys, n_total))
        self.comm = comm
        self.keys = np.ascontiguousarray(keys)

    @property
    def n_keys(self) -> int:
        """Number of keys of this rank."""
        return len(self.keys)

    def global_to_local(self, keys: Int64Array) -> Int32Array:
        """Return the local row of each key, -1 for keys that this rank does not hold.

        Parameters
        ----------
        keys : int64 (n,)

        Returns
        -------
        int32 (n,)
        """
        return rows_of_keys(self.keys, whole_array(keys, "keys").ravel())


def rows_of_keys(sorted_keys: Int64Array, keys: Int64Array, n_threads: int = 1) -> Int32Array:
    """Return the position of each of `keys` in `sorted_keys`, int32 (n,); -1 if it is absent."""
    positions = np.empty(len(keys), np.int32)
    find_sorted(sorted_keys, np.ascontiguousarray(keys), positions, n_threads)
    return positions


def key_array_error(rank: int, keys: AnyArray) -> ReductionError | None:
    """Return the error of keys that are no array of such; None if they are."""
    if not isinstance(keys, np.ndarray):
        given = type(keys).__name__
    elif keys.dtype != np.int64 or keys.ndim != 1:
        given = f"{keys.dtype} of shape {keys.shape}"
    else:
        return None
    return ReductionError(
        f"keys must be a one-dimensional int64 array, not {given}",
        where=f"rank {rank}",
        mend="as numpy.asarray(keys, numpy.int64) is of whole numbers",
    )


def key_error(rank: int, keys: AnyArray, n_total: int | None = None) -> ReductionError | None:
    """Return the error of keys that are not as `IndexMap` takes them; None if they are."""
    where, error = f"rank {rank}", key_array_error(rank, keys)
    if error is not None:
        return error
    if n_total is not None:
        try:
            require_integer(n_total, "n_total", 0)
        except ConfigError as wrong:
            return ReductionError(wrong.what, where=wrong.where, mend=wrong.mend)
    if len(keys) > _MOST_KEYS:
        return ReductionError(
            f"{len(keys)} keys are too many for one rank", where=where, mend="use more ranks"
        )
    if len(keys) == 0:
        return None
    falls = keys[1:] <= keys[:-1]
    fall = int(np.argmax(falls)) if np.any(falls) else None
    least, most = (keys[0], keys[-1]) if fall is None else (keys.min(), keys.max())
    if least < 0:
        return ReductionError(f"key {least} is negative", where=where)
    if most > _LARGEST_KEY:
        return ReductionError(f"key {most} is too large", where=where, mend="keys below 2^63 - 1")
    if n_total is not None and most >= n_total:
        return ReductionError(f"key {most} is none of {n_total} keys", where=where)
    if fall is not None:
        key, after = keys[fall : fall + 2]
        fault = "is repeated" if key == after else f"comes before {after}"
        return ReductionError(
            f"key {key} at position {fall} {fault}", where=where, mend="keys must be sorted and distinct"
        )
    return None


def communicator_error(index_map: IndexMap, comm: Communicator) -> ReductionError | None:
    """Return the error of an index map on another communicator than that of its plan; None on the same."""
    require_communicator(comm)
    if index_map.comm is comm:
        return None
    return ReductionError(
        "the index map belongs to another communicator",
        where=f"rank {comm.rank}",
        mend="make an index map on the communicator of the plan",
    )
