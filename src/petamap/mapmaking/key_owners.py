"""Numbers of streams and detectors that several ranks hold a part of, put together on one rank each."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mpi import Communicator


class KeyOwners:
    """Owners of keys that ranks hold: each has a range of keys, and no rank a table of all. Collective.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n,)
        Held by this rank, increasing.
    n_keys : int
        Keys are below this.

    Attributes
    ----------
    owned : int64 (n_owned,)
        Keys of this rank's range that some rank holds, increasing.
    """

    def __init__(self, comm: Communicator, keys: Int64Array, n_keys: int) -> None:
        bounds = [n_keys * rank // comm.size for rank in range(comm.size + 1)]
        self._comm, self._counts = comm, np.diff(np.searchsorted(keys, bounds)).astype(np.int64)
        theirs, self._received = comm.alltoallv(keys, self._counts)
        self.owned, self._rows = np.unique(theirs, return_inverse=True)

    def sum(self, values: Int64Array) -> Int64Array:
        """Return the sums of the values of all holders, (n_owned,), of (n,). Collective."""
        sums = np.zeros(len(self.owned), np.int64)
        np.add.at(sums, self._rows, self._comm.alltoallv(values, self._counts)[0])
        return sums

    def largest(self, values: AnyArray) -> AnyArray:
        """Return the largest of the values of all holders for each key held, (n,). Collective."""
        theirs = self._comm.alltoallv(values, self._counts)[0]
        largest = np.zeros(len(self.owned), values.dtype)
        if len(theirs):
            largest[self._rows] = theirs
            np.maximum.at(largest, self._rows, theirs)
        return self._comm.alltoallv(largest[self._rows], self._received)[0]
