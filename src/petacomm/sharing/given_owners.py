"""Owners of ghosts where each rank says which keys it owns."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.mpi.agreement import agree
from petacomm.mpi.communicator import Communicator
from petacomm.sharing.index_map import ReductionError, key_array_error, key_error, rows_of_keys
from petacomm.sharing.sharing_graph import counting_sort, hash_runs, ranks_from_counts


def find_owners(
    comm: Communicator, owned_keys: Int64Array, ghost_keys: Int64Array
) -> tuple[Int32Array, Int64Array]:
    """Return the rank that owns each ghost, and the ghost's position among that rank's keys. Collective.

    A third rank, chosen by a hash of the key, learns who owns it, and is asked.

    Parameters
    ----------
    comm : Communicator
    owned_keys : int64 (n_owned,)
        Keys of this rank, in any order; each is owned by one rank alone.
    ghost_keys : int64 (n_ghosts,)
        Distinct keys that other ranks own, in any order.

    Returns
    -------
    owners : int32 (n_ghosts,)
    positions : int64 (n_ghosts,)

    Raises
    ------
    ReductionError
        On all ranks, if keys are no such arrays, a key is owned twice or given twice, or a ghost has no
        owner; rank and key are named.
    """
    agree(comm, _argument_error(comm.rank, owned_keys, ghost_keys))
    order, bounds = counting_sort(_homes(owned_keys, comm.size), comm.size)
    sent = np.stack([owned_keys[order], order], axis=1)
    arrived, counts = comm.sparse_alltoallv(sent, np.diff(bounds))
    by_key = np.argsort(arrived[:, 0], kind="stable")
    keys, ranks = np.ascontiguousarray(arrived[by_key, 0]), ranks_from_counts(counts)[by_key]
    agree(comm, _double_error(keys, ranks))
    order, bounds = counting_sort(_homes(ghost_keys, comm.size), comm.size)
    asked, counts = comm.sparse_alltoallv(ghost_keys[order], np.diff(bounds))
    rows = rows_of_keys(keys, asked)
    answers = np.full((len(asked), 2), -1, np.int64)
    answers[rows >= 0, 0] = ranks[rows[rows >= 0]]
    answers[rows >= 0, 1] = arrived[by_key[rows[rows >= 0]], 1]
    replies, _ = comm.sparse_alltoallv(answers, counts)
    places = np.empty_like(replies)
    places[order] = replies
    agree(comm, _unowned_error(comm.rank, ghost_keys, places))
    return places[:, 0].astype(np.int32), np.ascontiguousarray(places[:, 1])


def _homes(keys: Int64Array, size: int) -> Int32Array:
    return (hash_runs(keys) % np.uint64(size)).astype(np.int32)


def _argument_error(rank: int, owned_keys: AnyArray, ghost_keys: AnyArray) -> ReductionError | None:
    where = f"rank {rank}"
    for keys in (owned_keys, ghost_keys):
        error = key_array_error(rank, keys)
        if error is not None:
            return error
    both = np.concatenate([owned_keys, ghost_keys])
    order = np.argsort(both, kind="stable")
    in_order = both[order]
    repeated = np.flatnonzero(in_order[1:] == in_order[:-1])
    if not len(repeated):
        return key_error(rank, in_order)
    key = in_order[repeated[0]]
    first, second = order[repeated[0] : repeated[0] + 2] >= len(owned_keys)
    if not second:
        return ReductionError(f"key {key} is twice among the rank's own", where=where, mend="give it once")
    if first:
        return ReductionError(f"ghost {key} is given twice", where=where, mend="give it once")
    return ReductionError(f"ghost {key} is the rank's own key", where=where, mend="leave it out of ghosts")


def _double_error(keys: Int64Array, ranks: Int32Array) -> ReductionError | None:
    """Return the error of a key that two ranks own; `keys` are sorted."""
    repeated = np.flatnonzero(keys[1:] == keys[:-1])
    if not len(repeated):
        return None
    first = int(repeated[0])
    return ReductionError(
        f"key {keys[first]} is owned by ranks {ranks[first]} and {ranks[first + 1]}",
        mend="let one rank own it, and the other have it as a ghost",
    )


def _unowned_error(rank: int, ghost_keys: Int64Array, places: Int64Array) -> ReductionError | None:
    unowned = np.flatnonzero(places[:, 0] < 0)
    if not len(unowned):
        return None
    others = f" and {len(unowned) - 1} others" if len(unowned) > 1 else ""
    return ReductionError(
        f"no rank owns ghost {ghost_keys[unowned[0]]}{others}",
        where=f"rank {rank}",
        mend="give it to the keys of a rank",
    )
