"""Vectors that are stored by the owners of shared keys, and scatters between owners and ghosts."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from petacomm.base.arguments import require_arrays, require_instance
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

    A plan that is an all-reduce alone (`ReductionPlan.allreduce_only`), as "pairwise", gives sums to all
    holders at once. Who changes rows in the same way at all holders can then keep those of ghosts as well: a
    forward scatter of rows and ghosts sends nothing, and a reverse scatter is one all-reduce.

    Parameters
    ----------
    plan : ReductionPlan
    n_threads : int
        Threads that copy rows.

    Attributes
    ----------
    n_held, n_owned : int
        Number of keys that this rank holds, and owns.
    n_ghosts : int
        Number of ghosts of which it may keep rows: 0 unless the plan is an all-reduce alone.

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
        require_instance(plan, "plan", ReductionPlan)
        self.plan = plan
        self.n_threads = n_threads
        self.n_held = plan.index_map.n_keys
        # By the number of ranks, not of ghosts: `held_buffer` is collective.
        self._owned: RowLists | None = None
        self.n_owned = self.n_held
        if plan.comm.size > 1:
            self._owned = RowLists.from_positions(np.flatnonzero(plan.owned).astype(np.int32))
            self._ghosts = RowLists.from_positions(np.flatnonzero(~plan.owned).astype(np.int32))
            self.n_owned = self._owned.n_rows
        self._buffer: AnyArray | None = None
        self._row_bytes = 0
        self._pending = np.empty(0)  # values of a pending scatter
        self._sent: Literal["", "rows", "sums"] = ""  # what a pending scatter has sent

    @property
    def comm(self) -> Communicator:
        """Communicator of the plan."""
        return self.plan.comm

    @property
    def keys(self) -> Int64Array:
        """Keys that this rank owns, int64 (n_owned,)."""
        return self.select_owned(self.plan.index_map.keys)

    @property
    def n_ghosts(self) -> int:
        """Number of ghosts of which this rank may keep rows."""
        return self.n_held - self.n_owned if self.plan.allreduce_only else 0

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

    def select_ghosts(self, held: AnyArray) -> AnyArray:
        """Return the rows of the ghosts that may be kept, among held rows.

        Parameters
        ----------
        held : array (n_held, ...)

        Returns
        -------
        array (n_ghosts, ...)
            A copy.
        """
        require_arrays(held=held)
        rows = np.empty((self.n_ghosts, *held.shape[1:]), held.dtype)
        if self.plan.allreduce_only and self._owned is not None:
            self._ghosts.take(_flat(held), _flat(rows), self.n_threads)
        return rows

    def scatter_fwd(self, rows: AnyArray, ghosts: AnyArray | None = None) -> AnyArray:
        """Return the rows of all keys that this rank holds, from their owners. Collective.

        Parameters
        ----------
        rows : array (n_owned, ...)
            Owned rows.
        ghosts : array (n_ghosts, ...), optional
            Rows of ghosts, where they are kept: on all ranks or on none.

        Returns
        -------
        array (n_held, ...)
            Held rows, valid until the next call.
        """
        self.scatter_fwd_begin(rows, ghosts)
        return self.scatter_fwd_end()

    def scatter_fwd_begin(self, rows: AnyArray, ghosts: AnyArray | None = None) -> None:
        """Start a forward scatter; `rows` and `ghosts` may be overwritten when this returns.

        Parameters
        ----------
        rows : array (n_owned, ...)
            Owned rows.
        ghosts : array (n_ghosts, ...), optional
            Rows of ghosts, where they are kept: on all ranks or on none.
        """
        self._pending = self.held_buffer(rows)
        self._sent = ""
        if self._owned is None:
            return
        held = _flat(self._pending)
        self._owned.put(_flat(rows), held, self.n_threads)
        if not self.plan.allreduce_only:
            self._sent = "rows"
            self.plan.broadcast_begin(self._take_pending())
        elif ghosts is not None:
            self._ghosts.put(_flat(ghosts), held, self.n_threads)
        else:
            # The bits of the owner, and none of the others.
            self._ghosts.put(np.zeros((self._ghosts.n_rows, held.shape[1]), held.dtype), held, self.n_threads)
            self.plan.allreduce_begin(held.view(np.int64 if held.itemsize == 8 else np.uint8), "or")
            self._sent = "sums"

    def scatter_fwd_end(self) -> AnyArray:
        """Finish the forward scatter.

        Returns
        -------
        array (n_held, ...)
            Held rows, valid until the next call.
        """
        if self._sent == "rows":
            return self.plan.broadcast_end()
        if self._sent == "sums":
            self.plan.allreduce_end()
        return self._take_pending()

    def scatter_rev(
        self, held: AnyArray, out: AnyArray | None = None, ghosts: AnyArray | None = None
    ) -> AnyArray:
        """Return the sums over all holders of the rows of the keys that this rank owns. Collective.

        Parameters
        ----------
        held : array (n_held, ...)
            Held rows; overwritten.
        out : array (n_owned, ...), optional
            Memory for the sums; must be `held` in a single process.
        ghosts : array (n_ghosts, ...), optional
            Memory for the sums of ghosts, where they are kept.

        Returns
        -------
        array (n_owned, ...)
            `out` if it is given.
        """
        self.scatter_rev_begin(held)
        return self.scatter_rev_end(out, ghosts)

    def scatter_rev_begin(self, held: AnyArray) -> None:
        """Start a reverse scatter; `held` must not be accessed before `scatter_rev_end`.

        Parameters
        ----------
        held : array (n_held, ...)
            Held rows; overwritten.
        """
        if self._owned is None:
            self._pending = held
        elif self.plan.allreduce_only:
            self.plan.allreduce_begin(held)
        else:
            self.plan.reduce_begin(held)

    def scatter_rev_end(self, out: AnyArray | None = None, ghosts: AnyArray | None = None) -> AnyArray:
        """Finish the reverse scatter.

        Parameters
        ----------
        out : array (n_owned, ...), optional
            Memory for the sums.
        ghosts : array (n_ghosts, ...), optional
            Memory for the sums of ghosts, where they are kept.

        Returns
        -------
        array (n_owned, ...)
            `out` if it is given.
        """
        if self._owned is None:
            return self._take_pending()
        held = self.plan.allreduce_end() if self.plan.allreduce_only else self.plan.reduce_end()
        if ghosts is not None and self.plan.allreduce_only:
            self._ghosts.take(_flat(held), _flat(ghosts), self.n_threads)
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
