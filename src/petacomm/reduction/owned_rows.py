"""Vectors that live at the owners of shared keys, each row once in the run, and are lent to all holders."""

from __future__ import annotations

import math

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.row_lists import RowLists
from petacomm.reduction.plan import ReductionPlan


class OwnedRows:
    """The rows of a plan's keys that this rank owns, and the ways between owners and holders.

    A vector at its owners takes ``n_global / size`` rows a rank, its copies cannot drift apart, and sums over
    its rows count each once. Both ways exist in halves too, so that messages of several plans travel
    together; one call of a plan at a time. Alone, a process owns what it holds, and nothing is done at all.

    Parameters
    ----------
    plan : ReductionPlan
    n_threads : int
        Threads that copy rows.

    Attributes
    ----------
    n_held, n_owned : int
        Rows of this rank.
    """

    def __init__(self, plan: ReductionPlan, n_threads: int = 1) -> None:
        self.plan = plan
        self.n_threads = n_threads
        self.n_held = plan.index_map.n_keys
        # decided for all ranks alike: room is made by all together
        owned = None if plan.comm.size == 1 else np.flatnonzero(plan.owned).astype(np.int32)
        self._owned = None if owned is None else RowLists.of(owned)
        self.n_owned = self.n_held if owned is None else len(owned)
        self._room: AnyArray | None = None
        self._row_bytes = 0
        self._moving = np.empty(0)  # alone, what a plan would keep between a call's halves

    @property
    def comm(self) -> Communicator:
        """The ranks that share the keys."""
        return self.plan.comm

    @property
    def keys(self) -> Int64Array:
        """The keys that this rank owns, int64 (n_owned,)."""
        return self.pick(self.plan.index_map.keys)

    def pick(self, held: AnyArray) -> AnyArray:
        """Return the rows that this rank owns, (n_owned, ...), of those that it holds: a copy, but alone."""
        if self._owned is None:
            return held
        rows = np.empty((self.n_owned, *held.shape[1:]), held.dtype)
        self._owned.take(_flat(held), _flat(rows), self.n_threads)
        return rows

    def room(self, rows: AnyArray) -> AnyArray:
        """Return memory for all rows that this rank holds, (n_held, ...), shaped as `rows`. Collective.

        It is the same memory at each call for rows as long, and that which `to_holders` lends; alone, it is
        `rows`.
        """
        if self._owned is None:
            return rows
        shape, row_bytes = (self.n_held, *rows.shape[1:]), rows.itemsize * math.prod(rows.shape[1:])
        if self._room is None or row_bytes != self._row_bytes:
            self._room, self._row_bytes = self.plan.empty(shape, rows.dtype), row_bytes
        return self._room.reshape(-1).view(rows.dtype).reshape(shape)

    def to_holders(self, rows: AnyArray) -> AnyArray:
        """Return the rows of all keys that this rank holds, valid until the next call. Collective.

        Parameters
        ----------
        rows : (n_owned, ...)
            At the owners.
        """
        self.to_holders_begin(rows)
        return self.to_holders_end()

    def to_holders_begin(self, rows: AnyArray) -> None:
        """Start to lend; `rows` may change again."""
        self._moving = self.room(rows)
        if self._owned is not None:
            self._owned.put(_flat(rows), _flat(self._moving), self.n_threads)
            self.plan.broadcast_begin(self._moved())

    def to_holders_end(self) -> AnyArray:
        """Return what was lent."""
        return self._moved() if self._owned is None else self.plan.broadcast_end()

    def to_owners(self, held: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return the sums of all holders' rows at the owners, (n_owned, ...). Collective.

        Parameters
        ----------
        held : (n_held, ...)
            Overwritten.
        out : (n_owned, ...), optional
            Where to write them; alone, it must be `held`.
        """
        self.to_owners_begin(held)
        return self.to_owners_end(out)

    def to_owners_begin(self, held: AnyArray) -> None:
        """Start to add up; `held` must be left alone until the end."""
        if self._owned is None:
            self._moving = held
        else:
            self.plan.reduce_begin(held)

    def to_owners_end(self, out: AnyArray | None = None) -> AnyArray:
        """Return the sums, in `out` if it is given."""
        if self._owned is None:
            return self._moved()
        held = self.plan.reduce_end()
        if out is None:
            return self.pick(held)
        self._owned.take(_flat(held), _flat(out), self.n_threads)
        return out

    def _moved(self) -> AnyArray:
        """Return what was moved, and keep no hold of it: it may be large."""
        moved, self._moving = self._moving, np.empty(0)
        return moved


def _flat(rows: AnyArray) -> AnyArray:
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))
