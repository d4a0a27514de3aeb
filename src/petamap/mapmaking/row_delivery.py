"""Delivery of rows with keys to the ranks that own the keys."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petacomm.mpi import Communicator
from petacomm.sharing.sharing_graph import hash_numbers


class RowDelivery:
    """Way of rows to the owners of their keys, whoever has them. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    keys : int64 (n_owned,)
        Keys that this rank owns, each of one rank alone. A third rank, chosen by a hash of the key, knows
        the owner and the position among its keys.
    """

    def __init__(self, comm: Communicator, keys: Int64Array) -> None:
        self.comm = comm
        homes = self._homes(keys)
        order = np.argsort(homes, kind="stable")
        counts = np.bincount(homes, minlength=comm.size)
        arrived, arrived_counts = comm.alltoallv(np.stack([keys[order], order], axis=1), counts)
        by_key = np.argsort(arrived[:, 0], kind="stable")
        self._keys: Int64Array = arrived[by_key, 0]
        owners = np.repeat(np.arange(comm.size), arrived_counts)
        self._places: Int64Array = np.stack([owners[by_key], arrived[by_key, 1]], axis=1)

    def deliver(self, keys: Int64Array, rows: FloatArray) -> tuple[Int64Array, FloatArray, bool]:
        """Send rows, (n, k), to the owners of their keys. Collective.

        Returns
        -------
        positions : int64 (n_arrived,)
            Among the keys of this rank.
        arrived : float64 (n_arrived, k)
        known : bool
            Whether all keys that this rank has sent have an owner; rows of others are dropped.
        """
        places = self._places_of(keys)
        known = places[:, 0] >= 0
        order = np.flatnonzero(known)[np.argsort(places[known, 0], kind="stable")]
        counts = np.bincount(places[order, 0], minlength=self.comm.size)
        positions, _ = self.comm.alltoallv(np.ascontiguousarray(places[order, 1]), counts)
        arrived, _ = self.comm.alltoallv(rows[order], counts)
        return positions, arrived, bool(known.all())

    def _places_of(self, keys: Int64Array) -> Int64Array:
        """Return owner and position of each key, -1 for those that no rank owns."""
        homes = self._homes(keys)
        order = np.argsort(homes, kind="stable")
        asked, counts = self.comm.alltoallv(keys[order], np.bincount(homes, minlength=self.comm.size))
        found = np.full((len(asked), 2), -1, np.int64)
        if len(self._keys):
            near = np.minimum(np.searchsorted(self._keys, asked), len(self._keys) - 1)
            same = self._keys[near] == asked
            found[same] = self._places[near[same]]
        answers, _ = self.comm.alltoallv(found, counts)
        places = np.empty_like(answers)
        places[order] = answers
        return places

    def _homes(self, keys: AnyArray) -> Int64Array:
        return (hash_numbers(keys) % np.uint64(self.comm.size)).astype(np.int64)
