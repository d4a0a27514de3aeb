"""Layouts of n-dimensional arrays over ranks, each of which holds a box: slabs, pencils or blocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_arrays, require_dtype, require_integer, whole_numbers
from petacomm.base.errors import ConfigError
from petacomm.base.text import shape_text
from petacomm.base.typing import AnyArray

Box = tuple[slice, ...]


class DatatypeError(ConfigError):
    """Arguments of a redistribution, a transform or a halo that do not fit each other."""


@dataclass(frozen=True)
class ArrayLayout:
    """Layout of an array in boxes, one for each rank of a grid, whose ranks count in C order.

    Of n elements along an axis with p ranks, each rank gets n // p, and the first n % p ranks one more; parts
    may be empty.

    Parameters
    ----------
    shape : tuple of int
        Shape of the global array.
    grid : tuple of int
        Ranks along each axis: for slabs one entry is not 1, for pencils one entry is 1.
    order : tuple of int, optional
        Axes in the order of a rank's memory, slowest first. By default C order.

    Raises
    ------
    DatatypeError
        If these do not fit each other.

    Examples
    --------
    >>> from petacomm import ArrayLayout
    >>> slabs = ArrayLayout((6, 4), (2, 1))  # two ranks along the first axis
    >>> slabs.box(1), slabs.local_shape(1)
    ((slice(3, 6, None), slice(0, 4, None)), (3, 4))
    """

    shape: tuple[int, ...]
    grid: tuple[int, ...]
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        # Lists and NumPy integers are accepted, but layouts are compared and pickled.
        for name in ("shape", "grid", "order"):
            object.__setattr__(self, name, whole_numbers(getattr(self, name), name))
        object.__setattr__(self, "order", self.order or tuple(range(len(self.shape))))
        if not self.shape or min(self.shape) < 0:
            raise DatatypeError(f"an array of shape {self.shape}", mend="one axis or more, none negative")
        if len(self.grid) != len(self.shape) or min(self.grid) < 1:
            raise DatatypeError(
                f"a grid of {self.grid} ranks for an array of shape {self.shape}",
                mend="give the ranks along each axis, 1 or more",
            )
        if sorted(self.order) != list(range(len(self.shape))):
            raise DatatypeError(
                f"axes in the order {self.order}", mend=f"name each of {tuple(range(len(self.shape)))} once"
            )

    def __str__(self) -> str:
        order = "" if self.order == tuple(range(len(self.shape))) else f", axes in the order {self.order}"
        return f"{shape_text(self.shape)} on a grid of {shape_text(self.grid)}{order}"

    @property
    def n_ranks(self) -> int:
        """Number of ranks of the grid."""
        return math.prod(self.grid)

    def begins(self, axis: int) -> npt.NDArray[np.int64]:
        """Return the begins of the parts of an axis, and its end.

        Parameters
        ----------
        axis : int

        Returns
        -------
        int64 (ranks along the axis + 1,)
        """
        require_integer(axis, "axis", -len(self.shape), len(self.shape) - 1)
        n, p = self.shape[axis], self.grid[axis]
        part = np.arange(p + 1, dtype=np.int64)
        return part * (n // p) + np.minimum(part, n % p)

    def box(self, rank: int) -> Box:
        """Return the box of the global array that a rank holds.

        Parameters
        ----------
        rank : int

        Returns
        -------
        tuple of slice
        """
        at = np.unravel_index(require_integer(rank, "rank", 0, self.n_ranks - 1), self.grid)
        begins = [self.begins(axis) for axis in range(len(self.shape))]
        return tuple(slice(int(b[i]), int(b[i + 1])) for b, i in zip(begins, at, strict=True))

    def local_shape(self, rank: int) -> tuple[int, ...]:
        """Return the shape of the part of a rank.

        Parameters
        ----------
        rank : int

        Returns
        -------
        tuple of int
        """
        return tuple(part.stop - part.start for part in self.box(rank))

    def local_array(self, memory: AnyArray, rank: int) -> AnyArray:
        """Return flat memory as the part of a rank.

        Parameters
        ----------
        memory : array (n,)
            With at least as many elements as the part.
        rank : int

        Returns
        -------
        array
            View with the shape of the part, whose memory order is `order`.
        """
        require_arrays(memory=memory)
        shape = self.local_shape(rank)
        if memory.ndim != 1 or len(memory) < math.prod(shape):
            what = f"memory of shape {memory.shape} for a part of shape {shape}"
            raise DatatypeError(what, mend="flat, with as many elements or more")
        ordered = memory[: math.prod(shape)].reshape([shape[axis] for axis in self.order])
        return ordered.transpose(np.argsort(self.order))

    def empty(self, rank: int, dtype: npt.DTypeLike) -> AnyArray:
        """Return uninitialised memory for the part of a rank.

        Parameters
        ----------
        rank : int
        dtype : dtype

        Returns
        -------
        array
            With the shape of the part, whose memory order is `order`.
        """
        return self.local_array(np.empty(math.prod(self.local_shape(rank)), require_dtype(dtype)), rank)

    def in_memory_order(self, array: AnyArray) -> AnyArray:
        """Return a view of a rank's part with its axes in memory order.

        Parameters
        ----------
        array : array
            Part of a rank.

        Returns
        -------
        array
            C-contiguous.
        """
        require_arrays(array=array)
        if array.ndim != len(self.order):
            raise DatatypeError(
                f"an array of shape {array.shape}", mend=f"a part of one of shape {self.shape} has its axes"
            )
        return array.transpose(self.order)

    def overlaps(self, box: Box) -> Iterator[tuple[int, Box]]:
        """Yield each rank that holds elements of a box, and the box of these elements.

        Parameters
        ----------
        box : tuple of slice
            Box of the global array, a slice for each axis, as NumPy understands it.

        Yields
        ------
        rank : int
        common : tuple of slice
            Box of the global array.

        Raises
        ------
        DatatypeError
            If it is no such box.
        """
        box = self._global_box(box)
        cuts = [self.begins(axis) for axis in range(len(self.shape))]
        ranges = []
        for begins, part in zip(cuts, box, strict=True):
            first = int(np.searchsorted(begins, part.start, "right")) - 1
            last = int(np.searchsorted(begins, part.stop, "left"))
            ranges.append([i for i in range(first, last) if begins[i] < begins[i + 1]])
        if any(part.stop <= part.start for part in box):
            return
        for at in itertools.product(*ranges):
            common = tuple(
                slice(max(part.start, int(begins[i])), min(part.stop, int(begins[i + 1])))
                for begins, part, i in zip(cuts, box, at, strict=True)
            )
            yield int(np.ravel_multi_index(at, self.grid)), common

    def _global_box(self, box: Box) -> Box:
        """Return a box with its bounds written out."""
        try:
            bounds = [part.indices(n) for part, n in zip(box, self.shape, strict=True)]
        except (AttributeError, TypeError, ValueError):
            bounds = []
        if not bounds or any(step != 1 for _, _, step in bounds):
            raise DatatypeError(
                f"{box!r} is no box of an array of shape {self.shape}",
                mend="one slice for each axis, in steps of 1",
            )
        return tuple(slice(start, stop) for start, stop, _ in bounds)


def relative_box(box: Box, outer: Box) -> Box:
    """Return a box relative to the first corner of another one."""
    return tuple(slice(a.start - b.start, a.stop - b.start) for a, b in zip(box, outer, strict=True))
