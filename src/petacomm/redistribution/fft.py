"""Fourier transforms of arrays that the ranks hold in slabs or pencils.

Every rank transforms the axes that it holds whole, by ducc0; between, the array goes to a layout in which the
next axis is whole. Where all ranks share a node it need not go anywhere: they work in one array that all see,
and each transform reads what others wrote, so that packing, messages and transposes are one with it.
"""

from __future__ import annotations

import abc
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import did_you_mean
from petacomm.base.typing import AnyArray
from petacomm.mpi.agreement import agree
from petacomm.mpi.autotuner import Choice, choose_fastest
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.agreement import agree_on_call, misfit, same_on_all
from petacomm.redistribution.array_layout import DatatypeError, Layout
from petacomm.redistribution.exchanges import WAYS
from petacomm.redistribution.line_transforms import complex_lines, from_real, to_real
from petacomm.redistribution.redistribution import Redistribution

_EXCHANGED, _IN_WINDOW = "exchanged", "in-window"
_COMPLEX = {"f": np.complex64, "d": np.complex128, "F": np.complex64, "D": np.complex128}


class ParallelFFT:
    """Forward and inverse transforms over all axes of an array. Collective on `comm`.

    ``Y[k] = sum over j of X[j] exp(-2 pi i sum over axes of j k / n)``; the inverse has the other sign and
    divides by the number of elements. Of real arrays, the last axis of the transform has n // 2 + 1 elements.
    The bits do not depend on ranks, grid or way.

    Parameters
    ----------
    comm : Communicator
    shape : tuple of int
        Of the whole array: two axes or more.
    dtype : dtype
        Of what is transformed: complex128, complex64, float64 or float32.
    grid : tuple of int, optional
        Ranks along the first axes, all but the last at most: ``(p,)``, slabs, by default; ``(p, q)`` pencils.
    way : str
        "auto": the clock chooses at the first call. "in-window": in one array, where all ranks share a node.
        "exchanged", or one of `WAYS`: the array goes from layout to layout, as `Redistribution` does it.
    n_threads : int
        Of each rank's transforms.
    checks : str
        As for a `Redistribution`.

    Attributes
    ----------
    before, after : Layout
        Of what is transformed, split along the first axes; and of its transform, whole along the first axis.
    choice : Choice or None
        What "auto" chose, once it has.

    Raises
    ------
    DatatypeError
        On all ranks, if these do not fit each other or the communicator.
    """

    def __init__(
        self,
        comm: Communicator,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike = np.complex128,
        grid: tuple[int, ...] | None = None,
        way: str = "auto",
        n_threads: int = 1,
        checks: Literal["every", "first"] = "every",
    ) -> None:
        self.comm, self.shape, self.dtype = comm, tuple(int(n) for n in shape), np.dtype(dtype)
        self.grid = (comm.size,) if grid is None else tuple(int(n) for n in grid)
        self.way, self.n_threads, self.checks = way, n_threads, checks
        agree(comm, self._fault())
        same_on_all(comm, f"transform of {self.shape} {self.dtype} on {self.grid}, {way}, checks {checks}")
        self.stages = _stages(self._transformed_shape, self.grid)
        self.before = Layout(self.shape, self.stages[0].grid)
        self.after = self.stages[-1]
        self.choice: Choice | None = None
        self._made: dict[str, _Steps] = {}
        self._checked = False

    @property
    def transformed_dtype(self) -> np.dtype[Any]:
        """The dtype of the transform."""
        return np.dtype(_COMPLEX[self.dtype.char])

    @property
    def is_real(self) -> bool:
        """Whether what is transformed is real."""
        return self.dtype.kind == "f"

    @property
    def chosen(self) -> str | None:
        """The way that is taken; None while "auto" has not chosen."""
        return self.choice.name if self.choice is not None else None if self.way == "auto" else self.way

    def forward(self, array: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return this rank's part of the transform, in the layout `after`. Collective.

        Parameters
        ----------
        array : array of the local shape of `before`
            C-contiguous.
        out : array of the local shape of `after`, optional
            C-contiguous, of the complex dtype.

        Raises
        ------
        DatatypeError
            On all ranks, if an array of any rank does not fit.
        """
        out = self.after.empty(self.comm.rank, self.transformed_dtype) if out is None else out
        return self._run("forward", (array, out))

    def inverse(self, array: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return this rank's part of what has this transform, in the layout `before`. Collective."""
        out = self.before.empty(self.comm.rank, self.dtype) if out is None else out
        return self._run("inverse", (array, out))

    def _run(self, verb: Literal["forward", "inverse"], arrays: tuple[AnyArray, AnyArray]) -> AnyArray:
        if self.checks == "every" or not self._checked:
            agree_on_call(self.comm, self._misfit(verb, arrays), False)
            self._checked = True
        if self.chosen is None:
            ways = [_EXCHANGED] + [_IN_WINDOW] * (self.comm.node().size == self.comm.size)
            calls = {name: lambda name=name: getattr(self._steps(name), verb)(*arrays) for name in ways}
            what = ("transform", self.shape, self.dtype.str, self.grid, self.n_threads)
            self.choice = choose_fastest(self.comm, what, calls)
            self._made = {name: steps for name, steps in self._made.items() if name == self.chosen}
        getattr(self._steps(str(self.chosen)), verb)(*arrays)
        return arrays[1]

    def _steps(self, name: str) -> _Steps:
        if name not in self._made:
            self._made[name] = (
                _InWindow(self)
                if name == _IN_WINDOW
                else _Exchanged(self, "auto" if name == _EXCHANGED else name)
            )
        return self._made[name]

    def _misfit(self, verb: str, arrays: tuple[AnyArray, AnyArray]) -> DatatypeError | None:
        held, transformed = arrays if verb == "forward" else arrays[::-1]
        rank = self.comm.rank
        return misfit("array", held, self.before, self.dtype, rank) or misfit(
            "transform", transformed, self.after, self.transformed_dtype, rank
        )

    @property
    def _transformed_shape(self) -> tuple[int, ...]:
        return (*self.shape[:-1], self.shape[-1] // 2 + 1) if self.is_real else self.shape

    def _fault(self) -> DatatypeError | None:
        if len(self.shape) < 2 or min(self.shape) < 1:
            return DatatypeError(f"a transform of shape {self.shape}", mend="two axes or more, none empty")
        if self.dtype.char not in _COMPLEX:
            return DatatypeError(f"a transform of {self.dtype}", mend="complex or float, of 4 or 8 bytes")
        if not 1 <= len(self.grid) < len(self.shape) or min(self.grid) < 1:
            return DatatypeError(
                f"a grid of {self.grid} ranks for {len(self.shape)} axes",
                mend=f"ranks along the first axes, at most {len(self.shape) - 1}",
            )
        if int(np.prod(self.grid)) != self.comm.size:
            return DatatypeError(f"a grid of {self.grid} ranks, and {self.comm.size} processes")
        known = ["auto", _EXCHANGED, _IN_WINDOW, *WAYS]
        if self.way not in known:
            return DatatypeError(f"no way '{self.way}'", mend=did_you_mean(self.way, known))
        if self.way == _IN_WINDOW and self.comm.node().size < self.comm.size:
            return DatatypeError("'in-window' where ranks do not share a node", mend="use 'exchanged'")
        return None


def _stages(shape: tuple[int, ...], grid: tuple[int, ...]) -> list[Layout]:
    """Return the layouts of a transform: in each, the next of the first axes is whole, from the last."""
    whole = [1] * (len(shape) - len(grid))
    return [
        Layout(shape, (*grid[:axis], 1, *grid[axis:], *whole[1:]) if axis < len(grid) else (*grid, *whole))
        for axis in range(len(grid), -1, -1)
    ]


class _Steps(abc.ABC):
    """One way to transform."""

    def __init__(self, fft: ParallelFFT) -> None:
        self._fft = fft
        n_split = len(fft.grid)
        self._axes = [
            tuple(range(n_split, len(fft.shape))),
            *((axis,) for axis in range(n_split - 1, -1, -1)),
        ]

    @abc.abstractmethod
    def forward(self, array: AnyArray, out: AnyArray) -> None:
        """Fill `out` with the transform."""

    @abc.abstractmethod
    def inverse(self, array: AnyArray, out: AnyArray) -> None:
        """Fill `out` with what has this transform."""

    def _transform(self, stage: int, array: AnyArray, out: AnyArray, forward: bool) -> None:
        axes, n_threads = self._axes[stage], self._fft.n_threads
        if stage or not self._fft.is_real:
            complex_lines(array, out, axes, forward, n_threads)
        elif forward:
            from_real(array, out, axes, n_threads)
        else:
            to_real(array, out, axes, n_threads)


class _Exchanged(_Steps):
    """The array goes from layout to layout."""

    def __init__(self, fft: ParallelFFT, way: str) -> None:
        super().__init__(fft)
        dtype, pairs = fft.transformed_dtype, list(zip(fft.stages[:-1], fft.stages[1:], strict=True))
        self._there = [Redistribution(fft.comm, a, b, dtype, way, "first") for a, b in pairs]
        self._back = [Redistribution(fft.comm, b, a, dtype, way, "first") for a, b in pairs]
        # Arrays of the plan's own: what MPI needs for them is kept.
        self._at = [(plan.empty_source(), plan.empty_target()) for plan in self._there]
        self._from = [(plan.empty_source(), plan.empty_target()) for plan in self._back]

    def forward(self, array: AnyArray, out: AnyArray) -> None:
        for stage, (plan, (source, target)) in enumerate(zip(self._there, self._at, strict=True)):
            self._transform(stage, array, source, True)
            array = plan.run(source, target)
        self._transform(len(self._there), array, out, True)

    def inverse(self, array: AnyArray, out: AnyArray) -> None:
        for stage in range(len(self._back), 0, -1):
            source, target = self._from[stage - 1]
            self._transform(stage, array, source, False)
            array = self._back[stage - 1].run(source, target)
        self._transform(0, array, out, False)


class _InWindow(_Steps):
    """All ranks work in one array that they share; each reads the boxes that it needs, whoever wrote them."""

    def __init__(self, fft: ParallelFFT) -> None:
        super().__init__(fft)
        shape, dtype, rank = fft.stages[0].shape, fft.transformed_dtype, fft.comm.rank
        n_bytes = int(np.prod(shape)) * dtype.itemsize
        self._window = fft.comm.shared(n_bytes if rank == 0 else 0)
        whole = self._window.bytes[:n_bytes].view(dtype).reshape(shape)
        self._boxes = [whole[layout.box(rank)] for layout in fft.stages]
        self._unread: int | None = None

    def forward(self, array: AnyArray, out: AnyArray) -> None:
        self._run(array, out, range(len(self._boxes)), True)

    def inverse(self, array: AnyArray, out: AnyArray) -> None:
        self._run(array, out, range(len(self._boxes) - 1, -1, -1), False)

    def _run(self, array: AnyArray, out: AnyArray, stages: range, forward: bool) -> None:
        if self._unread is not None:
            self._window.wait(self._unread)
        for stage in stages[:-1]:
            self._transform(stage, array, self._boxes[stage], forward)
            array = self._boxes[stages[stages.index(stage) + 1]]
            self._window.barrier()
        self._transform(stages[-1], array, out, forward)
        self._unread = self._window.arrive()
