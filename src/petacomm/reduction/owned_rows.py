"""Vectors that are stored once, by the owners of shared keys, and scatters between owners and ghosts."""

from __future__ import annotations

import math

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.row_lists import RowLists
from petacomm.reduction.plan import ReductionPlan


class OwnedRows:
    """Rows of a plan's keys that this rank owns, and scatters between owners and all holders.

    A vector of owned rows has ``n_global / size`` rows per rank, has no copies that could differ, and sums
    over its rows count each key once. `scatter_fwd` copies the rows of owners to all holders, ghosts
    included; `scatter_rev` adds the rows of all holders onto the owners. Both also exist in two halves, so
    that messages of several plans overlap; a plan makes one call at a time. A single process owns all its
    keys: scatters then return their arguments.

    Parameters
    ----------
    plan : ReductionPlan
    n_threads : int
        Threads that copy rows.

    Attributes
    ----------
    n_held, n_owned : int
        Number of keys that this rank holds, and owns.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> keys = petacomm.IndexMap(petacomm.world(), np.array([2, 3, 5]))
    >>> rows = petacomm.OwnedRows(petacomm.ReductionPlan(keys))
    >>> rows.scatter_fwd(np.array([0.5, 1.0, 2.0]))
    array([0.5, 1. , 2. ])
    >>> rows.n_owned
    3
    """

    def __init__(self, plan: ReductionPlan, n_threads: int = 1) -> None:
        self.plan = plan
        self.n_threads = n_threads
        self.n_held = plan.index_map.n_keys
        # By the number of ranks, not of ghosts: `held_buffer` is collective.
        owned = None if plan.comm.size == 1 else np.flatnonzero(plan.owned).astype(np.int32)
        self._owned = None if owned is None else RowLists.from_positions(owned)
        self.n_owned = self.n_held if owned is None else len(owned)
        self._buffer: AnyArray | None = None
        self._row_bytes = 0
        self._pending = np.empty(0)  # values of a pending scatter

    @property
    def comm(self) -> Communicator:
        """Communicator of the plan."""
        return self.plan.comm

    @property
    def keys(self) -> Int64Array:
        """Keys that this rank owns, int64 (n_owned,)."""
        return self.select_owned(self.plan.index_map.keys)

    def select_owned(self, held: AnyArray) -> AnyArray:
        """Return the owned rows of held rows.

        Parameters
        ----------
        held : array (n_held, ...)

        Returns
        -------
        array (n_owned, ...)
            A copy; `held` itself in a single process.
        """
        if self._owned is None:
            return held
        rows = np.empty((self.n_owned, *held.shape[1:]), held.dtype)
        self._owned.take(_flat(held), _flat(rows), self.n_threads)
        return rows

    def held_buffer(self, rows: AnyArray) -> AnyArray:
        """Return memory for all rows that this rank holds. Collective.

        Parameters
        ----------
        rows : array (n_owned, ...)
            Owned rows, which give the shape and dtype of a row.

        Returns
        -------
        array (n_held, ...)
            The same memory in each call for rows of the same size, and that which `scatter_fwd` returns;
            `rows` itself in a single process.
        """
        if self._owned is None:
            return rows
        shape, row_bytes = (self.n_held, *rows.shape[1:]), rows.itemsize * math.prod(rows.shape[1:])
        if self._buffer is None or row_bytes != self._row_bytes:
            self._buffer, self._row_bytes = self.plan.empty(shape, rows.dtype), row_bytes
        return self._buffer.reshape(-1).view(rows.dtype).reshape(shape)

    def scatter_fwd(self, rows: AnyArray) -> AnyArray:
        """Return the rows of all keys that this rank holds, from their owners. Collective.

        Parameters
        ----------
        rows : array (n_owned, ...)
            Owned rows.

        Returns
        -------
        array (n_held, ...)
            Held rows, valid until the next call.
        """
        self.scatter_fwd_begin(rows)
        return self.scatter_fwd_end()

    def scatter_fwd_begin(self, rows: AnyArray) -> None:
        """Start a forward scatter; `rows` may be overwritten when this returns.

        Parameters
        ----------
        rows : array (n_owned, ...)
            Owned rows.
        """
        self._pending = self.held_buffer(rows)
        if self._owned is not None:
            self._owned.put(_flat(rows), _flat(self._pending), self.n_threads)
            self.plan.broadcast_begin(self._take_pending())

    def scatter_fwd_end(self) -> AnyArray:
        """Finish the forward scatter.

        Returns
        -------
        array (n_held, ...)
            Held rows, valid until the next call.
        """
        return self._take_pending() if self._owned is None else self.plan.broadcast_end()

    def scatter_rev(self, held: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return the sums over all holders of the rows of the keys that this rank owns. Collective.

        Parameters
        ----------
        held : array (n_held, ...)
            Held rows; overwritten.
        out : array (n_owned, ...), optional
            Memory for the sums; must be `held` in a single process.

        Returns
        -------
        array (n_owned, ...)
            `out` if it is given.
        """
        self.scatter_rev_begin(held)
        return self.scatter_rev_end(out)

    def scatter_rev_begin(self, held: AnyArray) -> None:
        """Start a reverse scatter; `held` must not be accessed before `scatter_rev_end`.

        Parameters
        ----------
        held : array (n_held, ...)
            Held rows; overwritten.
        """
        if self._owned is None:
            self._pending = held
        else:
            self.plan.reduce_begin(held)

    def scatter_rev_end(self, out: AnyArray | None = None) -> AnyArray:
        """Finish the reverse scatter.

        Parameters
        ----------
        out : array (n_owned, ...), optional
            Memory for the sums.

        Returns
        -------
        array (n_owned, ...)
            `out` if it is given.
        """
        if self._owned is None:
            return self._take_pending()
        held = self.plan.reduce_end()
        if out is None:
            return self.select_owned(held)
        self._owned.take(_flat(held), _flat(out), self.n_threads)
        return out

    def _take_pending(self) -> AnyArray:
        """Return the values of the pending scatter, and drop the reference to them: they may be large."""
        pending, self._pending = self._pending, np.empty(0)
        return pending


def _flat(rows: AnyArray) -> AnyArray:
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))
