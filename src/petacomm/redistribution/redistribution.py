"""Redistribution: an array goes from one layout to another, again and again."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import did_you_mean
from petacomm.base.typing import AnyArray
from petacomm.mpi.agreement import agree
from petacomm.mpi.autotuner import Choice, choose_fastest
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.agreement import agree_on_call, misfit, same_on_all
from petacomm.redistribution.array_layout import DatatypeError, Layout
from petacomm.redistribution.exchange_cost import Work
from petacomm.redistribution.exchanges import WAYS, Loan, Parts, Way


class Redistribution:
    """An array between two layouts: every element goes to the rank that holds it after. Collective on `comm`.

    Parameters
    ----------
    comm : Communicator
    before, after : Layout
        The same on all ranks, of the same shape.
    dtype : dtype
        Any of fixed size.
    way : str
        One of `WAYS`, or "auto": the clock chooses at the first call, and remembers.
    checks : str
        "every": ranks agree in each call that all arrays fit, so that no mistake waits for ever, for the time
        of one small all-reduce. "first": only in the first call; all ranks must change arrays together.

    Attributes
    ----------
    choice : Choice or None
        What "auto" chose, once it has.

    Raises
    ------
    DatatypeError
        On all ranks, if layouts do not fit each other or the communicator, or ranks ask for different things.
    """

    def __init__(
        self,
        comm: Communicator,
        before: Layout,
        after: Layout,
        dtype: npt.DTypeLike = np.float64,
        way: str = "auto",
        checks: Literal["every", "first"] = "every",
    ) -> None:
        self.comm, self.before, self.after = comm, before, after
        self.dtype, self.way, self.checks = np.dtype(dtype), way, checks
        agree(comm, self._fault())
        same_on_all(comm, f"{before} to {after}, {self.dtype.str}, {way}, checks {checks}")
        self.choice: Choice | None = None
        self._parts = Parts(comm, before, after)
        self._loan: Loan | None = None
        self._ways: dict[str, Way] = {}
        self._arrays: list[int] = []
        self._flying: Way | None = None
        self._checked = False

    def _fault(self) -> DatatypeError | None:
        for layout in (self.before, self.after):
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
        if self.way not in ("auto", *WAYS):
            return DatatypeError(f"no way '{self.way}'", mend=did_you_mean(self.way, ["auto", *WAYS]))
        return None

    def empty_source(self) -> AnyArray:
        """Return an uninitialised array of the layout before, from which "shared" need not copy. Collective.

        It is the same memory at each call.
        """
        return self._shared().part(self.before, self.comm.rank, self.dtype)

    def empty_target(self) -> AnyArray:
        """Return an uninitialised array of the layout after."""
        return self.after.empty(self.comm.rank, self.dtype)

    def run(self, source: AnyArray, target: AnyArray | None = None) -> AnyArray:
        """Fill `target` with this rank's part of the layout after, and return it. Collective.

        Parameters
        ----------
        source : array of the local shape before
            Contiguous in the order of its layout.
        target : array of the local shape after, optional
            Likewise. What MPI needs is kept for the last arrays: calls with the same ones are the quickest.

        Raises
        ------
        DatatypeError
            On all ranks, if an array of any rank does not fit; nothing has been sent then.
        """
        self.start(source, target)
        return self.wait()

    def start(self, source: AnyArray, target: AnyArray | None = None) -> None:
        """Start to send `source`, which must be left alone until `wait`; as in `run`. Collective."""
        target = self.empty_target() if target is None else target
        arrays = [array.__array_interface__["data"][0] for array in (source, target)
                  if isinstance(array, np.ndarray)]  # fmt: skip
        new = arrays != self._arrays
        if self.checks == "every" or not self._checked:
            new = agree_on_call(self.comm, self._fault_of_call(source, target), new)
            self._checked = True
        if new:
            self.free()
            self._arrays = arrays
        if self.chosen is None:
            self._choose(source, target)
        self._flying = self._made(str(self.chosen), source, target)
        self._flying.start()

    def wait(self) -> AnyArray:
        """Wait until the target is filled, and return it. Collective."""
        way, self._flying = self._flying, None
        if way is None:
            raise DatatypeError("nothing is under way", mend="`start` before")
        way.wait()
        return way.target

    @property
    def chosen(self) -> str | None:
        """The way that is taken; None while "auto" has not chosen."""
        return self.choice.name if self.choice is not None else None if self.way == "auto" else self.way

    def work(self) -> Work:
        """Return what this rank does in one call of the way that is taken; not collective.

        Raises
        ------
        DatatypeError
            If nothing has been redistributed yet.
        """
        if self.chosen not in self._ways:
            raise DatatypeError("no way is made yet", mend="`run` before")
        return self._ways[str(self.chosen)].work()

    def free(self) -> None:
        """Give back what MPI keeps for it, as its end does. Not collective."""
        for way in self._ways.values():
            way.free()
        self._ways, self._arrays = {}, []

    def _choose(self, source: AnyArray, target: AnyArray) -> None:
        def call(name: str) -> Callable[[], None]:
            def once() -> None:
                way = self._made(name, source, target)
                way.start()
                way.wait()

            return once

        in_window = self._loan is not None and self._loan.holds(source)
        what = (str(self.before), str(self.after), self.dtype.itemsize, in_window)
        self.choice = choose_fastest(self.comm, what, {name: call(name) for name in WAYS})
        for name in [name for name in self._ways if name != self.choice.name]:
            self._ways.pop(name).free()

    def _made(self, name: str, source: AnyArray, target: AnyArray) -> Way:
        if name not in self._ways:
            more = (self._shared(),) if name == "shared" else ()
            self._ways[name] = WAYS[name](self._parts, source, target, *more)
        return self._ways[name]

    def _shared(self) -> Loan:
        if self._loan is None:
            n_bytes = self.dtype.itemsize * math.prod(self.before.local_shape(self.comm.rank))
            self._loan = Loan(self.comm.shared(n_bytes))
        return self._loan

    def _fault_of_call(self, source: AnyArray, target: AnyArray) -> DatatypeError | None:
        if self._flying is not None:
            return DatatypeError("a call begins before the last one has ended", mend="`wait` before")
        for name, array, layout in (("source", source, self.before), ("target", target, self.after)):
            error = misfit(name, array, layout, self.dtype, self.comm.rank)
            if error is not None:
                return error
        if not target.flags.writeable or np.may_share_memory(source, target):
            return DatatypeError("target is read-only, or lies in the source", where=f"rank {self.comm.rank}")
        return None
