"""Fourier transforms of arrays that are distributed in slabs or pencils.

Each rank transforms the axes that are not distributed, by ducc0; then the array is redistributed to a layout
in which the next axis is not distributed. Where all ranks share a node no redistribution is needed: they work
in one array in shared memory, and each transform reads what others wrote, which takes the place of packing,
messages and transposes.
"""

from __future__ import annotations

import abc
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_dtype, require_integer, whole_numbers
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
from petacomm.redistribution.exchanges import METHODS
from petacomm.redistribution.line_transforms import complex_lines, from_real, to_real
from petacomm.redistribution.redistribution import Redistribution

_EXCHANGED, _IN_WINDOW = "exchanged", "in-window"
_COMPLEX = {"f": np.complex64, "d": np.complex128, "F": np.complex64, "D": np.complex128}


class ParallelFFT(MethodChoice):
    """Plan of forward and inverse Fourier transforms over all axes of an array. Collective on `comm`.

    ``Y[k] = sum over j of X[j] exp(-2 pi i sum over axes of j k / n)``; the inverse has the other sign and
    divides by the number of elements. The last axis of the transform of a real array has n // 2 + 1 elements.
    The bits do not depend on the number of ranks, the grid or the method.

    Parameters
    ----------
    comm : Communicator
    shape : tuple of int
        Shape of the global array, of two axes or more.
    dtype : dtype
        Dtype of the array: complex128, complex64, float64 or float32.
    grid : tuple of int, optional
        Ranks along the first axes, of which there are fewer than axes: by default ``(p,)``, slabs; ``(p, q)``
        are pencils.
    method : str
        "auto": the fastest in the first call. "in-window": in one array in shared memory, if all ranks share
        a node. "exchanged", or one of `METHODS`: the array is redistributed by a `Redistribution`.
    n_threads : int
        Threads of the transforms of each rank.
    checks : str
        As for a `Redistribution`.

    Attributes
    ----------
    before, after : ArrayLayout
        Layout of the array, distributed along the first axes, and of its transform, not distributed along the
        first axis.
    choice : Choice or None
        Choice of "auto"; None before the first call.

    Raises
    ------
    DatatypeError
        On all ranks, if these do not fit each other or the communicator.

    Examples
    --------
    >>> import numpy as np
    >>> import petacomm
    >>> fft = petacomm.ParallelFFT(petacomm.world(), (4, 4))
    >>> transform = fft.forward(np.ones((4, 4), complex))
    >>> complex(transform[0, 0])
    (16+0j)
    >>> np.allclose(fft.inverse(transform), 1)
    True
    """

    def __init__(
        self,
        comm: Communicator,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike = np.complex128,
        grid: tuple[int, ...] | None = None,
        method: str = "auto",
        n_threads: int = 1,
        checks: Literal["every", "first"] = "every",
    ) -> None:
        require_communicator(comm)
        self.comm, self.method, self.checks = comm, method, checks
        with agree_on_errors(comm):
            self.shape, self.dtype = whole_numbers(shape, "shape"), require_dtype(dtype)
            self.grid = (comm.size,) if grid is None else whole_numbers(grid, "grid")
            self.n_threads = require_integer(n_threads, "n_threads", 1)
        agree(comm, self._argument_error())
        require_same_arguments(
            comm, f"transform of {self.shape} {self.dtype} on {self.grid}, {method}, checks {checks}"
        )
        self.stages = _stages(self._transformed_shape, self.grid)
        self.before = ArrayLayout(self.shape, self.stages[0].grid)
        self.after = self.stages[-1]
        self._transforms: dict[str, _Transform] = {}
        self._checked = False

    @property
    def transformed_dtype(self) -> np.dtype[Any]:
        """Dtype of the transform."""
        return np.dtype(_COMPLEX[self.dtype.char])

    @property
    def is_real(self) -> bool:
        """Whether the array is real."""
        return self.dtype.kind == "f"

    def forward(self, array: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return this rank's part of the transform of an array, in the layout `after`. Collective.

        Parameters
        ----------
        array : array of the local shape of `before`
            C-contiguous.
        out : array of the local shape of `after`, optional
            C-contiguous, of the complex dtype; by default a new array.

        Returns
        -------
        array of the local shape of `after`
            `out` if it is given.

        Raises
        ------
        DatatypeError
            On all ranks, if an array of any rank does not fit.
        """
        out = self.after.empty(self.comm.rank, self.transformed_dtype) if out is None else out
        return self._run("forward", (array, out))

    def inverse(self, array: AnyArray, out: AnyArray | None = None) -> AnyArray:
        """Return this rank's part of the inverse of a transform, in the layout `before`. Collective.

        Parameters
        ----------
        array : array of the local shape of `after`
            C-contiguous, of the complex dtype.
        out : array of the local shape of `before`, optional
            C-contiguous; by default a new array.

        Returns
        -------
        array of the local shape of `before`
            `out` if it is given.

        Raises
        ------
        DatatypeError
            On all ranks, if an array of any rank does not fit.
        """
        out = self.before.empty(self.comm.rank, self.dtype) if out is None else out
        return self._run("inverse", (array, out))

    def _run(self, verb: Literal["forward", "inverse"], arrays: tuple[AnyArray, AnyArray]) -> AnyArray:
        if self.checks == "every" or not self._checked:
            agree_on_call(self.comm, self._array_error(verb, arrays), False)
            self._checked = True
        if self.chosen is None:
            methods = [_EXCHANGED] + [_IN_WINDOW] * (self.comm.node().size == self.comm.size)
            calls = {
                name: lambda name=name: getattr(self._transform(name), verb)(*arrays) for name in methods
            }
            subject = ("transform", self.shape, self.dtype.str, self.grid, self.n_threads)
            self.choice = choose_fastest(self.comm, subject, calls)
            self._transforms = {
                name: transform for name, transform in self._transforms.items() if name == self.chosen
            }
        getattr(self._transform(str(self.chosen)), verb)(*arrays)
        return arrays[1]

    def _transform(self, name: str) -> _Transform:
        if name not in self._transforms:
            self._transforms[name] = (
                _InWindow(self)
                if name == _IN_WINDOW
                else _Exchanged(self, "auto" if name == _EXCHANGED else name)
            )
        return self._transforms[name]

    def _array_error(self, verb: str, arrays: tuple[AnyArray, AnyArray]) -> DatatypeError | None:
        array, transform = arrays if verb == "forward" else arrays[::-1]
        rank = self.comm.rank
        return array_error("array", array, self.before, self.dtype, rank) or array_error(
            "transform", transform, self.after, self.transformed_dtype, rank
        )

    @property
    def _transformed_shape(self) -> tuple[int, ...]:
        return (*self.shape[:-1], self.shape[-1] // 2 + 1) if self.is_real else self.shape

    def _argument_error(self) -> DatatypeError | None:
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
        error = method_error(self.method, [_EXCHANGED, _IN_WINDOW, *METHODS]) or checks_error(self.checks)
        if error is None and self.method == _IN_WINDOW and self.comm.node().size < self.comm.size:
            return DatatypeError("'in-window' where ranks do not share a node", mend="use 'exchanged'")
        return error


def _stages(shape: tuple[int, ...], grid: tuple[int, ...]) -> list[ArrayLayout]:
    """Return the layouts of a transform; in each, the previous one of the first axes is not distributed."""
    ones = [1] * (len(shape) - len(grid))
    return [
        ArrayLayout(shape, (*grid[:axis], 1, *grid[axis:], *ones[1:]) if axis < len(grid) else (*grid, *ones))
        for axis in range(len(grid), -1, -1)
    ]


class _Transform(abc.ABC):
    """Implementation of a transform."""

    def __init__(self, fft: ParallelFFT) -> None:
        self._fft = fft
        n_split = len(fft.grid)
        self._axes = [
            tuple(range(n_split, len(fft.shape))),
            *((axis,) for axis in range(n_split - 1, -1, -1)),
        ]

    @abc.abstractmethod
    def forward(self, array: AnyArray, out: AnyArray) -> None:
        """Write the transform of `array` to `out`."""

    @abc.abstractmethod
    def inverse(self, array: AnyArray, out: AnyArray) -> None:
        """Write the inverse of the transform `array` to `out`."""

    def _transform_stage(self, stage: int, array: AnyArray, out: AnyArray, forward: bool) -> None:
        axes, n_threads = self._axes[stage], self._fft.n_threads
        if stage or not self._fft.is_real:
            complex_lines(array, out, axes, forward, n_threads)
        elif forward:
            from_real(array, out, axes, n_threads)
        else:
            to_real(array, out, axes, n_threads)


class _Exchanged(_Transform):
    """Transform by redistributions between the stages."""

    def __init__(self, fft: ParallelFFT, method: str) -> None:
        super().__init__(fft)
        dtype, pairs = fft.transformed_dtype, list(zip(fft.stages[:-1], fft.stages[1:], strict=True))
        self._forward = [Redistribution(fft.comm, a, b, dtype, method, "first") for a, b in pairs]
        self._inverse = [Redistribution(fft.comm, b, a, dtype, method, "first") for a, b in pairs]
        # Always the same arrays, for which the plans keep their MPI objects.
        self._forward_arrays = [(plan.empty_source(), plan.empty_target()) for plan in self._forward]
        self._inverse_arrays = [(plan.empty_source(), plan.empty_target()) for plan in self._inverse]

    def forward(self, array: AnyArray, out: AnyArray) -> None:
        for stage, (plan, (source, target)) in enumerate(
            zip(self._forward, self._forward_arrays, strict=True)
        ):
            self._transform_stage(stage, array, source, True)
            array = plan.run(source, target)
        self._transform_stage(len(self._forward), array, out, True)

    def inverse(self, array: AnyArray, out: AnyArray) -> None:
        for stage in range(len(self._inverse), 0, -1):
            source, target = self._inverse_arrays[stage - 1]
            self._transform_stage(stage, array, source, False)
            array = self._inverse[stage - 1].run(source, target)
        self._transform_stage(0, array, out, False)


class _InWindow(_Transform):
    """Transform in one array in shared memory, in which each rank reads the boxes that it needs."""

    def __init__(self, fft: ParallelFFT) -> None:
        super().__init__(fft)
        shape, dtype, rank = fft.stages[0].shape, fft.transformed_dtype, fft.comm.rank
        n_bytes = int(np.prod(shape)) * dtype.itemsize
        self._window = fft.comm.shared_window(n_bytes if rank == 0 else 0)
        array = self._window.bytes[:n_bytes].view(dtype).reshape(shape)
        self._boxes = [array[layout.box(rank)] for layout in fft.stages]
        self._read_ticket: int | None = None

    def forward(self, array: AnyArray, out: AnyArray) -> None:
        self._run(array, out, range(len(self._boxes)), True)

    def inverse(self, array: AnyArray, out: AnyArray) -> None:
        self._run(array, out, range(len(self._boxes) - 1, -1, -1), False)

    def _run(self, array: AnyArray, out: AnyArray, stages: range, forward: bool) -> None:
        if self._read_ticket is not None:
            self._window.wait(self._read_ticket)
        for stage in stages[:-1]:
            self._transform_stage(stage, array, self._boxes[stage], forward)
            array = self._boxes[stages[stages.index(stage) + 1]]
            self._window.barrier()
        self._transform_stage(stages[-1], array, out, forward)
        self._read_ticket = self._window.arrive()
