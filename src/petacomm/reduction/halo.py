"""Halos: exchanges between the owners of rows, whom the caller names, and the ghosts of other ranks."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from petacomm.base.display import Displayed
from petacomm.base.typing import AnyArray, Int32Array, Int64Array
from petacomm.costs.options import ReductionOptions
from petacomm.mpi.agreement import agree, require_communicator, require_same_text
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.mpi.persistent import Transport
from petacomm.reduction.call_checks import ReductionCall, as_rows, check_call
from petacomm.reduction.call_steps import PendingCall
from petacomm.reduction.row_exchange import OwnerExchange, run_steps
from petacomm.sharing.given_owners import find_owners
from petacomm.sharing.index_map import ReductionError
from petacomm.sharing.sharing_graph import counting_sort

HaloVerb: TypeAlias = Literal["exchange", "reduce"]


class Halo(Displayed):
    """Exchange of rows with owners whom the caller names, as of the cells of a stencil. Collective on `comm`.

    The rows of a vector are those of the keys that this rank owns, followed by those of its ghosts, both in
    the order in which they are given. `ReductionPlan` is for keys whose owners do not matter.

    - ``exchange``: ghosts get the rows of their owners (forward scatter);
    - ``reduce``: rows of ghosts are reduced onto their owners, and do not change (reverse scatter).

    Values are of shape (n_owned + n_ghosts, ...), C-contiguous, of dtype int64, float64, float32 or uint8,
    with the same dtype and row shape on all ranks; calls work in place. Each call also exists in two halves,
    between which the caller computes. A halo has at most one pending call.

    Parameters
    ----------
    comm : Communicator
    owned_keys : int64 (n_owned,)
        Keys that this rank owns, and no other; non-negative, in any order. A rank may have none.
    ghost_keys : int64 (n_ghosts,)
        Distinct keys that other ranks own, in any order.
    n_threads : int
        Threads that copy rows.
    transport : str
        One of `TRANSPORTS`; "persistent" sends one message to each rank that shares a ghost with this one.

    Attributes
    ----------
    comm : Communicator
    n_owned, n_ghosts : int
    owners : int32 (n_ghosts,)
        Rank that owns each ghost.

    Raises
    ------
    ConfigError
        On all ranks, if an option is wrong.
    ReductionError
        On all ranks, if two ranks own a key, none owns a ghost, or a rank gives a key twice; in calls, if
        values do not fit. Calls are compared between ranks the first time that a kind of call (verb,
        operation, dtype and row shape) is made; a new kind on some ranks alone is a deadlock.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> halo = petacomm.Halo(petacomm.world(), np.array([7, 2]), np.array([], np.int64))
    >>> halo.exchange(np.array([0.5, 1.0]))  # a single process has no ghosts
    array([0.5, 1. ])
    """

    def __init__(
        self,
        comm: Communicator,
        owned_keys: Int64Array,
        ghost_keys: Int64Array,
        *,
        n_threads: int = 1,
        transport: Transport = "persistent",
    ) -> None:
        require_communicator(comm)
        self.comm = comm
        options = ReductionOptions(n_threads=n_threads, transport=transport)
        agree(comm, options.error())
        require_same_text(comm, f"halo by {transport}", ReductionError)
        self.owners, positions = find_owners(comm, owned_keys, ghost_keys)
        self.n_owned, self.n_ghosts = len(owned_keys), len(ghost_keys)
        self._exchanges = _owner_exchange(comm, self.n_owned, self.owners, positions, options)
        self._agreed: set[ReductionCall] = set()
        self._pending: PendingCall | None = None

    def _facts(self) -> dict[str, object]:
        return {"rank": self.comm.rank, "n_owned": self.n_owned, "n_ghosts": self.n_ghosts}

    def exchange(self, values: AnyArray) -> AnyArray:
        """Fill the rows of ghosts with those of their owners. Collective.

        Parameters
        ----------
        values : array (n_owned + n_ghosts, ...)
            Changed in place.

        Returns
        -------
        array (n_owned + n_ghosts, ...)
            `values`.
        """
        self.exchange_begin(values)
        return self.exchange_end()

    def exchange_begin(self, values: AnyArray) -> None:
        """Start an `exchange`. Collective.

        Parameters
        ----------
        values : array (n_owned + n_ghosts, ...)
            Before `exchange_end` all rows may be read, and none be written; those of ghosts are the old ones.
        """
        self._begin("exchange", values, "or")

    def exchange_end(self) -> AnyArray:
        """Finish the pending exchange. Collective.

        Returns
        -------
        array (n_owned + n_ghosts, ...)
            The values of `exchange_begin`.
        """
        return self._end("exchange")

    def reduce(self, values: AnyArray, op: Operation = "sum") -> AnyArray:
        """Reduce the rows of ghosts onto their owners' rows; those of ghosts do not change. Collective.

        Terms are added in the order of ranks, so that equal calls have equal bits.

        Parameters
        ----------
        values : array (n_owned + n_ghosts, ...)
            Changed in place.
        op : str
            "sum", "max", "min" or, of integers, "or".

        Returns
        -------
        array (n_owned + n_ghosts, ...)
            `values`.
        """
        self.reduce_begin(values, op)
        return self.reduce_end()

    def reduce_begin(self, values: AnyArray, op: Operation = "sum") -> None:
        """Start a `reduce`. Collective.

        Parameters
        ----------
        values : array (n_owned + n_ghosts, ...)
            Before `reduce_end` rows of ghosts must not be accessed; owned ones may be added to.
        op : str
            "sum", "max", "min" or, of integers, "or".
        """
        self._begin("reduce", values, op)

    def reduce_end(self) -> AnyArray:
        """Finish the pending reduction. Collective.

        Returns
        -------
        array (n_owned + n_ghosts, ...)
            The values of `reduce_begin`.
        """
        return self._end("reduce")

    def _begin(self, verb: HaloVerb, values: AnyArray, op: Operation) -> None:
        if self._pending is not None:
            raise ReductionError(
                f"{verb} begins before {self._pending.verb} has ended", mend="a halo makes one call at a time"
            )
        call = ReductionCall.on_values(verb, values, op)
        check_call(self.comm, call, values, self.n_owned + self.n_ghosts, self._agreed, n_threads=1)
        rows, exchanges = as_rows(values), self._exchanges
        steps = exchanges.broadcast(rows) if verb == "exchange" else exchanges.reduce(rows, op)
        next(steps)
        self._pending = PendingCall(verb, values, steps)

    def _end(self, verb: HaloVerb) -> AnyArray:
        pending = self._pending
        if pending is None or pending.verb != verb:
            raise ReductionError(f"{verb} ends, but has not begun", mend=f"call {verb}_begin before")
        self._pending = None
        run_steps(pending.steps)
        return pending.values


def _owner_exchange(
    comm: Communicator, n_owned: int, owners: Int32Array, positions: Int64Array, options: ReductionOptions
) -> OwnerExchange:
    """Return the exchanges of ghosts with these owners, and positions among their owners' rows."""
    by_position = np.argsort(positions, kind="stable")
    order, bounds = counting_sort(owners[by_position], comm.size)
    ghosts = by_position[order]
    to_owner_counts = np.diff(bounds)
    requested, to_ghost_counts = comm.sparse_alltoallv(positions[ghosts], to_owner_counts)
    ghost_rows, owned_rows = (n_owned + ghosts).astype(np.int32), requested.astype(np.int32)
    return OwnerExchange(comm, ghost_rows, to_owner_counts, owned_rows, to_ghost_counts, options)
