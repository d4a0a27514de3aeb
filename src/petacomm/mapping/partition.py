"""Structured mapping after Rubik: boxes of tasks are partitioned, mapped onto boxes of nodes, and permuted.

Rubik's mapping scripts (Bhatele et al. 2012, LLNL-POST-563791) run with a different import. Where a size is
not divisible, Rubik's boxes take the remainder; here that is an error. `tile`, `div`, `mod` and `cut`
partition a box; `map` fills the groups of one box with those of another; `tilt`, `shear`, `zigzag`, `zorder`
and `transpose` permute the tasks within a box.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO, TypeAlias

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_instance, require_integer, whole_numbers
from petacomm.base.errors import ConfigError
from petacomm.base.files import write_text
from petacomm.base.text import shape_text
from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mapping.placement import Placement
from petacomm.topology import Network, TopologyManager, Torus
from petacomm.topology.detect import detect_allocation

__all__ = ["Partition", "autobox", "box", "div", "mod"]

Slicer: TypeAlias = Callable[[int, int, int], slice]


def div(size: int, index: int, n: int) -> slice:
    """Return the slice of `size` coordinates in contiguous group `index` of `n`."""
    return slice(index * (size // n), (index + 1) * (size // n))


def mod(size: int, index: int, n: int) -> slice:
    """Return the slice of `size` coordinates in interleaved group `index` of `n`."""
    return slice(index, size, n)


_CONTIGUOUS: Slicer = div
_STEPS = -(2**31), 2**31  # of shifts, so that none is too large for 64 bits


def box(shape: Sequence[int]) -> Partition:
    """Return a box of tasks numbered in C order, the last dimension fastest.

    Parameters
    ----------
    shape : sequence of int

    Returns
    -------
    Partition

    Raises
    ------
    ConfigError
        If a size is not a positive integer.

    Examples
    --------
    >>> import petacomm
    >>> machine = petacomm.box([4, 4])
    >>> machine.tile([2, 2])
    >>> machine.shape
    (4, 4)
    """
    sizes = _checked_sizes(shape, "a box")
    return Partition(np.arange(math.prod(sizes), dtype=np.int64).reshape(sizes))


def autobox(
    tasks_per_node: int | None = None, num_tasks: int | None = None, manager: TopologyManager | None = None
) -> Partition:
    """Return the box of this job's allocation; several tasks per node are the last dimension.

    Parameters
    ----------
    tasks_per_node : int, optional
        By default that of the job.
    num_tasks : int, optional
        Expected number of tasks.
    manager : TopologyManager, optional
        By default that of `detect_allocation`.

    Raises
    ------
    ConfigError
        If the allocation does not fill a box, or the box does not have `num_tasks`.
    """
    allocation = detect_allocation() if manager is None else manager
    tasks = allocation.ranks_per_node if tasks_per_node is None else tasks_per_node
    n_nodes = len(np.unique(allocation.nodes))
    if n_nodes != math.prod(allocation.shape):
        raise ConfigError(
            f"{n_nodes} nodes do not fill a box of {shape_text(allocation.shape)}",
            mend="give the shape: box([...])",
        )
    partition = box(allocation.shape if tasks == 1 else (*allocation.shape, tasks))
    if num_tasks is not None and partition.size != num_tasks:
        raise ConfigError(f"the allocation holds {partition.size} tasks, not {num_tasks}", mend=None)
    partition.manager = allocation
    return partition


class Partition:
    """A box of tasks, or a group of a box: a view of the root's array, and its own groups.

    Created by `box` and `autobox`, and by partitioning a box.

    Attributes
    ----------
    tasks : int64, n-dimensional
        Task at each position; a view of the tasks of the parent.
    parent : Partition or None
    children : object array
        Groups, by their position; empty before a cut.
    manager : TopologyManager or None
        Allocation of a box made by `autobox`.
    """

    def __init__(self, tasks: Int64Array, parent: Partition | None = None) -> None:
        self.tasks = tasks
        self.parent = parent
        self.children: AnyArray = np.empty(0, object)
        self.manager: TopologyManager | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of positions in each dimension."""
        return self.tasks.shape

    @property
    def size(self) -> int:
        """Number of positions."""
        return self.tasks.size

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.tasks.ndim

    @property
    def root(self) -> Partition:
        """The box of which this is a group, or the box itself."""
        return self if self.parent is None else self.parent.root

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.children.flat)

    def __repr__(self) -> str:
        return f"{shape_text(self.shape)} tasks in {sum(1 for _ in self.leaves())} groups\n{self.tasks}"

    def depth(self) -> int:
        """Return the number of levels of the hierarchy of groups, including this one."""
        return 1 + max((child.depth() for child in self), default=0)

    def leaves(self) -> Iterator[Partition]:
        """Iterate over the groups without children, depth first, in order of their positions."""
        if not self.children.size:
            yield self
        for child in self:
            yield from child.leaves()

    def div(self, divisors: Sequence[int]) -> None:
        """Partition into ``divisors[i]`` contiguous groups along each dimension i."""
        self.cut(divisors, div)

    def tile(self, sizes: Sequence[int]) -> None:
        """Partition into contiguous groups of the given shape."""
        tiles = _checked_sizes(sizes, "a tile")
        self._check_divides(tiles, "a tile")
        self.cut([size // tile for size, tile in zip(self.shape, tiles, strict=True)], div)

    def mod(self, divisors: Sequence[int]) -> None:
        """Partition into ``divisors[i]`` interleaved groups along each dimension i."""
        self.cut(divisors, mod)

    def cut(self, divisors: Sequence[int], slicers: Slicer | Sequence[Slicer] = _CONTIGUOUS) -> None:
        """Partition into groups, contiguous (`div`) or interleaved (`mod`) along each dimension.

        Raises
        ------
        ConfigError
            If a divisor does not divide the size of its dimension, or there is not one for each dimension.
        """
        counts = _checked_sizes(divisors, "a cut")
        self._check_divides(counts, "a cut")
        methods = [slicers] * self.ndim if callable(slicers) else list(slicers)
        if len(methods) != self.ndim:
            raise ConfigError(
                f"{len(methods)} ways to cut {self.ndim} dimensions", mend="give div or mod for each"
            )
        groups = np.empty(counts, object)
        for index in np.ndindex(counts):
            dimensions = zip(methods, self.shape, index, counts, strict=True)
            view = self.tasks[tuple(slicer(size, i, n) for slicer, size, i, n in dimensions)]
            groups[index] = Partition(view, self)
        self.children = groups

    def map(self, other: Partition) -> None:
        """Fill the groups of this box, in order, with the tasks of the groups of another box.

        Raises
        ------
        ConfigError
            If the groups differ in number or size, or both boxes have the same root.
        """
        require_instance(other, "other", Partition, "give a box")
        if other.root is self.root:
            raise ConfigError("a box is mapped onto itself", mend="make the application a box of its own")
        leaves, groups = list(self.leaves()), list(other.leaves())
        if len(leaves) != len(groups):
            raise ConfigError(
                f"{len(groups)} groups are mapped onto {len(leaves)}", mend="cut both boxes into as many"
            )
        for number, (leaf, group) in enumerate(zip(leaves, groups, strict=True)):
            if leaf.size != group.size:
                raise ConfigError(
                    f"group {number} of {group.size} tasks is mapped onto {leaf.size} places",
                    mend="cut both boxes into groups of one size",
                )
        for leaf, group in zip(leaves, groups, strict=True):
            leaf.tasks[...] = group.tasks.reshape(leaf.shape)

    def tilt(self, axis: int, direction: int, slope: int = 1) -> None:
        """Shift tasks cyclically along `axis` by their coordinate along `direction` times `slope`.

        In three dimensions ``tilt(2, 0, 1)`` moves the task at (x, y, z) to (x, y, z + x).
        """
        self._check_axes(axis, direction)
        self._roll(
            axis, direction, np.arange(self.shape[direction]) * require_integer(slope, "slope", *_STEPS)
        )

    def shear(self, axis: int, direction: int, slope: int = 1) -> None:
        """Shift tasks cyclically along `direction` by their coordinate along `axis` times `slope`."""
        self._check_axes(axis, direction)
        self._roll(direction, axis, np.arange(self.shape[axis]) * require_integer(slope, "slope", *_STEPS))

    def zigzag(self, axis: int, direction: int, depth: int = 1, stride: int = 1) -> None:
        """Shift tasks along `axis` by 0 to `depth` in `stride` steps along `direction`, and back to 0."""
        self._check_axes(axis, direction)
        if require_integer(stride, "stride", *_STEPS) < 1:
            raise ConfigError(f"a stride of {stride}", mend="give 1 or more")
        require_integer(depth, "depth", *_STEPS)
        distance = np.abs(np.arange(self.shape[direction]) % (2 * stride) - stride)
        self._roll(axis, direction, depth - distance * depth // stride)

    def zorder(self) -> None:
        """Move task i of the box to the i-th position of the Z-order curve."""
        positions = np.indices(self.shape).reshape(self.ndim, -1)
        code = np.zeros(self.size, np.int64)
        for bit in range(max(size.bit_length() for size in self.shape)):
            for dimension, column in enumerate(positions):
                code |= (column >> bit & 1) << bit * self.ndim + self.ndim - 1 - dimension
        moved = np.empty(self.size, np.int64)
        moved[np.argsort(code)] = self.tasks.ravel()
        self.tasks[...] = moved.reshape(self.shape)

    def transpose(self, axes: Sequence[int]) -> None:
        """Rearrange the tasks in the order of the box with permuted axes."""
        if sorted(whole_numbers(axes, "axes")) != list(range(self.ndim)):
            raise ConfigError(f"{list(axes)} are not the {self.ndim} axes", mend="name each once")
        self.tasks[...] = self.tasks.transpose(axes).copy().reshape(self.shape)

    def coordinates(self) -> Int64Array:
        """Return the position of each task in this box: int64 (size, ndim), in the order of the tasks.

        Raises
        ------
        ConfigError
            If the box does not contain the tasks 0 to size - 1, each once.
        """
        flat = self.tasks.ravel()
        order = np.argsort(flat, kind="stable")
        wrong = np.flatnonzero(flat[order] != np.arange(self.size))
        if len(wrong):
            task = int(flat[order][wrong[0]])
            what = f"task {wrong[0]} is nowhere" if task > wrong[0] else f"task {task} is at two places"
            raise ConfigError(f"{what} of the box", mend="map onto all of it, once")
        return np.stack(np.unravel_index(order, self.shape), -1).astype(np.int64)

    def placement(self, network: Network | None = None) -> Placement:
        """Return the placement of the tasks, as ranks, on nodes.

        Parameters
        ----------
        network : Torus, optional
            Its sizes must divide those of the box; the quotients are the ranks of a node, the last dimension
            fastest. Additional dimensions of the box are ranks of a node. By default the network of the
            allocation (`autobox`), else a torus of the box's shape.
        """
        if network is None and self.manager is not None:
            return self._placement_in_allocation(self.manager)
        grid = Torus(self.shape) if network is None else network
        if not isinstance(grid, Torus):
            raise ConfigError("a box lies on a torus or a mesh", mend="give a Torus")
        nodes = (*grid.shape, *[1] * (self.ndim - grid.n_dimensions))
        if len(nodes) != self.ndim or any(size % n for size, n in zip(self.shape, nodes, strict=True)):
            raise ConfigError(
                f"a box of {shape_text(self.shape)} does not lie on nodes of {shape_text(grid.shape)}",
                mend="its sizes must be multiples of theirs",
            )
        block = np.array(self.shape) // nodes
        positions = self.coordinates()
        slots = np.ravel_multi_index(tuple((positions % block).T), tuple(block))
        coordinates = (positions // block)[:, : grid.n_dimensions]
        return Placement(grid.node_at(coordinates), slots, int(np.prod(block)), grid.n_nodes)

    def write_map_file(self, file: str | Path | TextIO | None = None) -> None:
        """Write one line with the coordinates of each task, to a path, an open file, or stdout."""
        text = "".join(" ".join(map(str, row)) + "\n" for row in self.coordinates().tolist())
        if isinstance(file, str | Path):
            write_text(file, text)
        else:
            (sys.stdout if file is None else file).write(text)

    def _placement_in_allocation(self, manager: TopologyManager) -> Placement:
        positions = self.coordinates()
        n = len(manager.shape)
        slots = positions[:, n] if self.ndim > n else np.zeros(self.size, np.int64)
        coordinates = manager.rank_to_coordinates(np.arange(manager.n_ranks))[:, :n]
        node_at = np.empty(math.prod(manager.shape), np.int64)
        node_at[np.ravel_multi_index(tuple(coordinates.T), manager.shape)] = manager.nodes
        nodes = node_at[np.ravel_multi_index(tuple(positions[:, :n].T), manager.shape)]
        return Placement(nodes, slots, self.shape[n] if self.ndim > n else 1, manager.network.n_nodes)

    def _check_divides(self, sizes: tuple[int, ...], what: str) -> None:
        if len(sizes) != self.ndim:
            raise ConfigError(
                f"{what} of {len(sizes)} dimensions in a box of {shape_text(self.shape)}",
                mend=f"give {self.ndim} numbers",
            )
        if any(size % part for size, part in zip(self.shape, sizes, strict=True)):
            raise ConfigError(
                f"{what} of {shape_text(sizes)} does not divide a box of {shape_text(self.shape)}",
                mend="each number must divide the size of its dimension",
            )

    def _check_axes(self, axis: int, direction: int) -> None:
        for name, value in (("axis", axis), ("direction", direction)):
            if require_integer(value, name, *_STEPS) not in range(self.ndim):
                what = f"{value} is none of the {self.ndim} dimensions of a box of {shape_text(self.shape)}"
                raise ConfigError(what, where=name, mend=f"give 0 to {self.ndim - 1}")
        if axis == direction:
            raise ConfigError(f"tasks cannot move along dimension {axis} by where they are in it", mend=None)

    def _roll(self, axis: int, direction: int, shifts: npt.NDArray[np.integer]) -> None:
        """Shift the tasks of each hyperplane normal to `direction` cyclically along `axis`."""
        planes = np.moveaxis(self.tasks, (direction, axis), (0, 1))
        for plane, shift in zip(planes, shifts.tolist(), strict=True):
            plane[...] = np.roll(plane, shift, 0)


def _checked_sizes(numbers: Sequence[int], what: str) -> tuple[int, ...]:
    try:
        sizes = tuple(numbers)
    except TypeError:
        raise ConfigError(f"{what} of {numbers!r:.60}", mend="give whole numbers, 1 or more") from None
    if not sizes or not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
        raise ConfigError(f"{what} of {list(sizes)}", mend="give whole numbers, 1 or more")
    return tuple(int(size) for size in sizes)
