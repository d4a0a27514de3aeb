"""Plans of redistributions of an array from one layout to another."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import instance_error, require_dtype
from petacomm.base.errors import ConfigError
from petacomm.base.typing import AnyArray
from petacomm.mpi.agreement import agree, agree_on_errors, require_communicator
from petacomm.mpi.autotuner import MethodChoice, choose_fastest
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.argument_checks import (
    agree_on_call,
    array_error,
    checks_error,
    method_error,
    require_same_arguments,
)
from petacomm.redistribution.array_layout import ArrayLayout, DatatypeError
from petacomm.redistribution.exchange_cost import ExchangeWork
from petacomm.redistribution.exchanges import (
    METHODS,
    LayoutOverlaps,
    RedistributionExchange,
    SourceWindow,
)


class Redistribution(MethodChoice):
    """Plan of the redistribution of an array between two layouts. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    before, after : ArrayLayout
        Layouts of the same shape; the same on all ranks.
    dtype : dtype
        Any of fixed size.
    method : str
        One of `METHODS`, or "auto": the fastest, timed in the first call and kept in the user's cache.
    checks : str
        "every": ranks agree in each call that all arrays fit, by one small all-reduce, so that an error does
        not become a deadlock. "first": only in the first call; all ranks must change arrays in the same call.

    Attributes
    ----------
    choice : Choice or None
        Choice of "auto"; None before the first call.

    Raises
    ------
    DatatypeError
        On all ranks, if layouts do not fit each other or the communicator, or arguments differ between ranks.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> comm = petacomm.world()
    >>> rows = petacomm.ArrayLayout((2, 3), (comm.size, 1))
    >>> columns = petacomm.ArrayLayout((2, 3), (1, comm.size), order=(1, 0))
    >>> plan = petacomm.Redistribution(comm, rows, columns, np.int64)
    >>> target = plan.run(np.arange(6).reshape(2, 3))
    >>> target.tolist(), target.flags.f_contiguous
    ([[0, 1, 2], [3, 4, 5]], True)
    """

    def __init__(
        self,
        comm: Communicator,
        before: ArrayLayout,
        after: ArrayLayout,
        dtype: npt.DTypeLike = np.float64,
        method: str = "auto",
        checks: Literal["every", "first"] = "every",
    ) -> None:
        require_communicator(comm)
        self.comm, self.before, self.after = comm, before, after
        self.method, self.checks = method, checks
        with agree_on_errors(comm):
            self.dtype = require_dtype(dtype)
        agree(comm, self._argument_error())
        require_same_arguments(comm, f"{before} to {after}, {self.dtype.str}, {method}, checks {checks}")
        self._overlaps = LayoutOverlaps(comm, before, after)
        self._source_window: SourceWindow | None = None
        self._exchanges: dict[str, RedistributionExchange] = {}
        self._addresses: list[int] = []
        self._pending: RedistributionExchange | None = None
        self._checked = False

    def _argument_error(self) -> ConfigError | None:
        for name, layout in (("before", self.before), ("after", self.after)):
            error = instance_error(layout, name, ArrayLayout, "give ArrayLayout(shape, grid)")
            if error is not None:
                return error
            if layout.n_ranks != self.comm.size:
                return DatatypeError(
                    f"a grid of {layout.n_ranks} ranks, and {self.comm.size} processes",
                    where=f"layout {layout}",
                    mend="their number must be the same",
                )
        if self.before.shape != self.after.shape:
            return DatatypeError(f"layouts of two arrays: {self.before}, and {self.after}")
        if self.dtype.hasobject or self.dtype.itemsize == 0:
            return DatatypeError(f"elements of dtype {self.dtype}", mend="any of fixed size, without objects")
        return method_error(self.method, METHODS) or checks_error(self.checks)

    def empty_source(self) -> AnyArray:
        """Return an uninitialised array of the layout before that "shared" does not copy. Collective.

        Returns
        -------
        array of the local shape before
            The same memory in each call.
        """
        return self._window().array(self.before, self.comm.rank, self.dtype)

    def empty_target(self) -> AnyArray:
        """Return an uninitialised array of the layout after.

        Returns
        -------
        array of the local shape after
        """
        return self.after.empty(self.comm.rank, self.dtype)

    def run(self, source: AnyArray, target: AnyArray | None = None) -> AnyArray:
        """Redistribute `source` into `target`, and return `target`. Collective.

        Parameters
        ----------
        source : array of the local shape before
            Contiguous in the memory order of its layout.
        target : array of the local shape after, optional
            Likewise; by default a new array. MPI objects are kept for the last arrays, so calls with the same
            arrays are the fastest.

        Returns
        -------
        array of the local shape after
            `target`.

        Raises
        ------
        DatatypeError
            On all ranks, if an array of any rank does not fit, before anything is sent.
        """
        self.start(source, target)
        return self.wait()

    def start(self, source: AnyArray, target: AnyArray | None = None) -> None:
        """Start a redistribution; `source` must not change before `wait`. Collective.

        Parameters
        ----------
        source, target : array
            As in `run`.
        """
        target = self.empty_target() if target is None else target
        addresses = [array.__array_interface__["data"][0] for array in (source, target)
                     if isinstance(array, np.ndarray)]  # fmt: skip
        new = addresses != self._addresses
        if self.checks == "every" or not self._checked:
            new = agree_on_call(self.comm, self._call_error(source, target), new)
            self._checked = True
        if new:
            self.free()
            self._addresses = addresses
        if self.chosen is None:
            self._choose(source, target)
        self._pending = self._exchange(str(self.chosen), source, target)
        self._pending.start()

    def wait(self) -> AnyArray:
        """Wait until the target is filled. Collective.

        Returns
        -------
        array of the local shape after
            Target of the pending redistribution.
        """
        exchange, self._pending = self._pending, None
        if exchange is None:
            raise DatatypeError("no redistribution is pending", mend="`start` before")
        exchange.wait()
        return exchange.target

    def work(self) -> ExchangeWork:
        """Return the work of this rank in one call by the method in use. Not collective.

        Returns
        -------
        ExchangeWork

        Raises
        ------
        DatatypeError
            If nothing has been redistributed yet.
        """
        if self.chosen not in self._exchanges:
            raise DatatypeError("no exchange is set up yet", mend="`run` before")
        return self._exchanges[str(self.chosen)].work()

    def free(self) -> None:
        """Free the MPI objects of the plan, as its deletion does. Not collective."""
        for exchange in self._exchanges.values():
            exchange.free()
        self._exchanges, self._addresses = {}, []

    def _choose(self, source: AnyArray, target: AnyArray) -> None:
        in_window = self._source_window is not None and self._source_window.contains(source)
        subject = (str(self.before), str(self.after), self.dtype.itemsize, in_window)
        calls = {name: lambda name=name: self._exchange(name, source, target).run() for name in METHODS}
        self.choice = choose_fastest(self.comm, subject, calls)
        for name in [name for name in self._exchanges if name != self.choice.name]:
            self._exchanges.pop(name).free()

    def _exchange(self, name: str, source: AnyArray, target: AnyArray) -> RedistributionExchange:
        if name not in self._exchanges:
            window = (self._window(),) if name == "shared" else ()
            self._exchanges[name] = METHODS[name](self._overlaps, source, target, *window)
        return self._exchanges[name]

    def _window(self) -> SourceWindow:
        if self._source_window is None:
            n_bytes = self.dtype.itemsize * math.prod(self.before.local_shape(self.comm.rank))
            self._source_window = SourceWindow(self.comm.shared_window(n_bytes))
        return self._source_window

    def _call_error(self, source: AnyArray, target: AnyArray) -> DatatypeError | None:
        if self._pending is not None:
            return DatatypeError("a call begins before the last one has ended", mend="`wait` before")
        for name, array, layout in (("source", source, self.before), ("target", target, self.after)):
            error = array_error(name, array, layout, self.dtype, self.comm.rank)
            if error is not None:
                return error
        if not target.flags.writeable or np.may_share_memory(source, target):
            return DatatypeError("target is read-only, or lies in the source", where=f"rank {self.comm.rank}")
        return None
