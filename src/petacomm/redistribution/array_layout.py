"""How the ranks hold an n-dimensional array: each a box of it, in slabs, pencils or blocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.typing import AnyArray

Box = tuple[slice, ...]


class DatatypeError(ConfigError):
    """What was asked of a redistribution, a transform or a halo does not fit."""


@dataclass(frozen=True)
class Layout:
    """An array cut into boxes, one a rank; ranks count in C order over a grid.

    Of n elements on p ranks, each gets n // p, and the first n % p one more; parts may be empty.

    Parameters
    ----------
    shape : tuple of int
        Of the whole array.
    grid : tuple of int
        Ranks along each axis: slabs have one entry that is not 1, pencils one axis that is.
    order : tuple of int, optional
        The axes as they lie in a rank's memory, slowest first. By default C order.

    Raises
    ------
    DatatypeError
        If these do not fit each other.
    """

    shape: tuple[int, ...]
    grid: tuple[int, ...]
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        # Lists and NumPy integers are as good; layouts are compared, and travel.
        for name in ("shape", "grid", "order"):
            object.__setattr__(self, name, tuple(int(n) for n in getattr(self, name)))
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
        return f"{_x(self.shape)} on a grid of {_x(self.grid)}{order}"

    @property
    def n_ranks(self) -> int:
        """Ranks of the grid."""
        return math.prod(self.grid)

    def begins(self, axis: int) -> npt.NDArray[np.int64]:
        """Return where the parts of an axis begin, and its end: int64 (ranks along it + 1,)."""
        n, p = self.shape[axis], self.grid[axis]
        part = np.arange(p + 1, dtype=np.int64)
        return part * (n // p) + np.minimum(part, n % p)

    def box(self, rank: int) -> Box:
        """Return the part of the whole array that a rank holds."""
        at = np.unravel_index(rank, self.grid)
        begins = [self.begins(axis) for axis in range(len(self.shape))]
        return tuple(slice(int(b[i]), int(b[i + 1])) for b, i in zip(begins, at, strict=True))

    def local_shape(self, rank: int) -> tuple[int, ...]:
        """Return the shape of the part of a rank."""
        return tuple(part.stop - part.start for part in self.box(rank))

    def in_memory(self, memory: AnyArray, rank: int) -> AnyArray:
        """Return flat memory as the part of a rank: shaped as the box, lying in `order`."""
        shape = self.local_shape(rank)
        lying = memory[: math.prod(shape)].reshape([shape[axis] for axis in self.order])
        return lying.transpose(np.argsort(self.order))

    def empty(self, rank: int, dtype: npt.DTypeLike) -> AnyArray:
        """Return uninitialised memory for the part of a rank."""
        return self.in_memory(np.empty(math.prod(self.local_shape(rank)), dtype), rank)

    def lying(self, array: AnyArray) -> AnyArray:
        """Return a view of a rank's part with its axes as they lie in memory, C-contiguous."""
        return array.transpose(self.order)

    def overlaps(self, box: Box) -> Iterator[tuple[int, Box]]:
        """Iterate over the ranks that hold any of a box, and what they hold of it, in the whole array."""
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


def within(box: Box, outer: Box) -> Box:
    """Return a box as seen from the corner of another one."""
    return tuple(slice(a.start - b.start, a.stop - b.start) for a, b in zip(box, outer, strict=True))


def _x(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))
