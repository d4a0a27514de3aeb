"""Structured mapping: boxes of tasks cut into groups, mapped onto boxes of a network, and bent there.

After Rubik (Bhatele et al. 2012, LLNL-POST-563791), whose mapping scripts run with another import. Its
boxes take what is left over when a size does not divide; here that is an error. `tile`, `div`, `mod` and
`cut` part a box; `map` fills the groups of one box with those of another; `tilt`, `shear`, `zigzag`,
`zorder` and `transpose` move tasks within a box.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TextIO, TypeAlias

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError
from petacomm.base.files import replacing
from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mapping.placement import Placement
from petacomm.topology import Network, TopologyManager, Torus
from petacomm.topology.detect import detect

__all__ = ["Partition", "autobox", "box", "div", "mod"]

Slicer: TypeAlias = Callable[[int, int, int], slice]


def div(size: int, index: int, n: int) -> slice:
    """Return which of `size` coordinates are in contiguous group `index` of `n`."""
    return slice(index * (size // n), (index + 1) * (size // n))


def mod(size: int, index: int, n: int) -> slice:
    """Return which of `size` coordinates are in interleaved group `index` of `n`."""
    return slice(index, size, n)


_CONTIGUOUS: Slicer = div


def box(shape: Sequence[int]) -> Partition:
    """Return a box with task r at the place with number r, the last dimension fastest.

    Raises
    ------
    ConfigError
        If a size is not a whole number, 1 or more.
    """
    sizes = _whole(shape, "a box")
    return Partition(np.arange(math.prod(sizes), dtype=np.int64).reshape(sizes))


def autobox(
    tasks_per_node: int | None = None, num_tasks: int | None = None, manager: TopologyManager | None = None
) -> Partition:
    """Return the box of this job's allocation: its dimensions, and tasks of a node as a last one if several.

    Parameters
    ----------
    tasks_per_node : int, optional
        By default what the job has.
    num_tasks : int, optional
        What it should hold.
    manager : TopologyManager, optional
        By default what `detect` finds.

    Raises
    ------
    ConfigError
        If the allocation does not fill a box, or the box does not hold `num_tasks`.
    """
    where = detect() if manager is None else manager
    tasks = where.ranks_per_node if tasks_per_node is None else tasks_per_node
    if len(np.unique(where.nodes)) != math.prod(where.shape):
        raise ConfigError(
            f"{len(np.unique(where.nodes))} nodes do not fill a box of {_shown(where.shape)}",
            mend="give the shape: box([...])",
        )
    made = box(where.shape if tasks == 1 else (*where.shape, tasks))
    if num_tasks is not None and made.size != num_tasks:
        raise ConfigError(f"the allocation holds {made.size} tasks, not {num_tasks}", mend=None)
    made.manager = where
    return made


class Partition:
    """A box of tasks, or a group of one: a view on the root's array, and the groups it is cut into.

    Made by `box`, `autobox`, and by cutting these.

    Attributes
    ----------
    tasks : int64, n-dimensional
        The task at each place; a view on the tasks of the box that was cut.
    parent : Partition or None
    children : object array
        Groups, by their place among each other; empty before a cut.
    manager : TopologyManager or None
        The allocation that the box stands for, if it was asked for.
    """

    def __init__(self, tasks: Int64Array, parent: Partition | None = None) -> None:
        self.tasks = tasks
        self.parent = parent
        self.children: AnyArray = np.empty(0, object)
        self.manager: TopologyManager | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Places in each dimension."""
        return self.tasks.shape

    @property
    def size(self) -> int:
        """Places."""
        return self.tasks.size

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return self.tasks.ndim

    @property
    def root(self) -> Partition:
        """The box that all groups come from."""
        return self if self.parent is None else self.parent.root

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.children.flat)

    def __repr__(self) -> str:
        return f"{_shown(self.shape)} tasks in {sum(1 for _ in self.leaves())} groups\n{self.tasks}"

    def depth(self) -> int:
        """Return how many levels of groups there are, this one included."""
        return 1 + max((child.depth() for child in self), default=0)

    def leaves(self) -> Iterator[Partition]:
        """Iterate over the groups that are not cut, in order of their places, depth first."""
        if not self.children.size:
            yield self
        for child in self:
            yield from child.leaves()

    def div(self, divisors: Sequence[int]) -> None:
        """Cut into ``divisors[i]`` contiguous groups along each dimension i."""
        self.cut(divisors, div)

    def tile(self, sizes: Sequence[int]) -> None:
        """Cut into contiguous groups of this shape."""
        tiles = _whole(sizes, "a tile")
        self._fits(tiles, "a tile")
        self.cut([size // tile for size, tile in zip(self.shape, tiles, strict=True)], div)

    def mod(self, divisors: Sequence[int]) -> None:
        """Cut into ``divisors[i]`` interleaved groups along each dimension i."""
        self.cut(divisors, mod)

    def cut(self, divisors: Sequence[int], slicers: Slicer | Sequence[Slicer] = _CONTIGUOUS) -> None:
        """Cut into groups, contiguous (`div`) or interleaved (`mod`) along each dimension.

        Raises
        ------
        ConfigError
            If a divisor does not divide the size of its dimension, or there are not as many as dimensions.
        """
        counts = _whole(divisors, "a cut")
        self._fits(counts, "a cut")
        ways = [slicers] * self.ndim if callable(slicers) else list(slicers)
        if len(ways) != self.ndim:
            raise ConfigError(
                f"{len(ways)} ways to cut {self.ndim} dimensions", mend="give div or mod for each"
            )
        groups = np.empty(counts, object)
        for index in np.ndindex(counts):
            pieces = zip(ways, self.shape, index, counts, strict=True)
            view = self.tasks[tuple(way(size, place, count) for way, size, place, count in pieces)]
            groups[index] = Partition(view, self)
        self.children = groups

    def map(self, other: Partition) -> None:
        """Fill the groups of this box, in their order, with the tasks of the groups of another one.

        Raises
        ------
        ConfigError
            If the groups are not as many and as large, or both are parts of one box.
        """
        if other.root is self.root:
            raise ConfigError("a box is mapped onto itself", mend="make the application a box of its own")
        mine, theirs = list(self.leaves()), list(other.leaves())
        if len(mine) != len(theirs):
            raise ConfigError(
                f"{len(theirs)} groups are mapped onto {len(mine)}", mend="cut both boxes into as many"
            )
        for number, (leaf, group) in enumerate(zip(mine, theirs, strict=True)):
            if leaf.size != group.size:
                raise ConfigError(
                    f"group {number} of {group.size} tasks is mapped onto {leaf.size} places",
                    mend="cut both boxes into groups of one size",
                )
        for leaf, group in zip(mine, theirs, strict=True):
            leaf.tasks[...] = group.tasks.reshape(leaf.shape)

    def tilt(self, axis: int, direction: int, slope: int = 1) -> None:
        """Shift tasks along `axis` by their coordinate along `direction` times `slope`, round the box.

        So in three dimensions ``tilt(2, 0, 1)`` moves what is at (x, y, z) to (x, y, z + x).
        """
        self._roll(axis, direction, np.arange(self.shape[direction]) * slope)

    def shear(self, axis: int, direction: int, slope: int = 1) -> None:
        """Shift tasks along `direction` by their coordinate along `axis` times `slope`."""
        self._roll(direction, axis, np.arange(self.shape[axis]) * slope)

    def zigzag(self, axis: int, direction: int, depth: int = 1, stride: int = 1) -> None:
        """Shift tasks along `axis` by 0 to `depth` in `stride` steps along `direction`, and back."""
        if stride < 1:
            raise ConfigError(f"a stride of {stride}", mend="give 1 or more")
        away = np.abs(np.arange(self.shape[direction]) % (2 * stride) - stride)
        self._roll(axis, direction, depth - away * depth // stride)

    def zorder(self) -> None:
        """Move task i of the box to the i-th place of the Z curve: by bits of coordinates in turns."""
        places = np.indices(self.shape).reshape(self.ndim, -1)
        code = np.zeros(self.size, np.int64)
        for bit in range(max(size.bit_length() for size in self.shape)):
            for dimension, column in enumerate(places):
                code |= (column >> bit & 1) << bit * self.ndim + self.ndim - 1 - dimension
        moved = np.empty(self.size, np.int64)
        moved[np.argsort(code)] = self.tasks.ravel()
        self.tasks[...] = moved.reshape(self.shape)

    def transpose(self, axes: Sequence[int]) -> None:
        """Lay the tasks out in the order in which the box with permuted axes has them."""
        if sorted(axes) != list(range(self.ndim)):
            raise ConfigError(f"{list(axes)} are not the {self.ndim} axes", mend="name each once")
        self.tasks[...] = self.tasks.transpose(axes).copy().reshape(self.shape)

    def coordinates(self) -> Int64Array:
        """Return the place of each task in this box: int64 (size, ndim), by the tasks' numbers.

        Raises
        ------
        ConfigError
            If the box does not hold the tasks 0 to size - 1, each once.
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
        """Return where the tasks are, as ranks on nodes.

        Parameters
        ----------
        network : Torus, optional
            Its sizes divide those of the box; what is left is the ranks of a node, the last dimension
            fastest. Dimensions that it lacks are ranks of a node. By default the allocation's (`autobox`),
            else a torus of the box's shape.
        """
        if network is None and self.manager is not None:
            return self._on(self.manager)
        grid = Torus(self.shape) if network is None else network
        if not isinstance(grid, Torus):
            raise ConfigError("a box lies on a torus or a mesh", mend="give a Torus")
        nodes = (*grid.shape, *[1] * (self.ndim - grid.n_dimensions))
        if len(nodes) != self.ndim or any(size % n for size, n in zip(self.shape, nodes, strict=True)):
            raise ConfigError(
                f"a box of {_shown(self.shape)} does not lie on nodes of {_shown(grid.shape)}",
                mend="its sizes must be multiples of theirs",
            )
        each = np.array(self.shape) // nodes
        places = self.coordinates()
        slots = np.ravel_multi_index(tuple((places % each).T), tuple(each))
        on_grid = (places // each)[:, : grid.n_dimensions]
        return Placement(grid.rank_of(on_grid), slots, int(np.prod(each)), grid.n_nodes)

    def write_map_file(self, file: str | Path | TextIO | None = None) -> None:
        """Write the coordinates of each task in order, a line each: to a path, an open file, or stdout."""
        text = "".join(" ".join(map(str, row)) + "\n" for row in self.coordinates().tolist())
        if not isinstance(file, str | Path):
            (sys.stdout if file is None else file).write(text)
            return
        with replacing(file) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def _on(self, manager: TopologyManager) -> Placement:
        places = self.coordinates()
        n = len(manager.shape)
        slots = places[:, n] if self.ndim > n else np.zeros(self.size, np.int64)
        first = np.column_stack(
            [manager.rank_to_coordinates(np.arange(manager.n_ranks))[:, :n], manager.nodes]
        )
        at = np.ravel_multi_index(tuple(first[:, :n].T), manager.shape)
        node_at = np.empty(math.prod(manager.shape), np.int64)
        node_at[at] = first[:, n]
        nodes = node_at[np.ravel_multi_index(tuple(places[:, :n].T), manager.shape)]
        return Placement(nodes, slots, self.shape[n] if self.ndim > n else 1, manager.network.n_nodes)

    def _fits(self, sizes: tuple[int, ...], what: str) -> None:
        if len(sizes) != self.ndim:
            raise ConfigError(
                f"{what} of {len(sizes)} dimensions in a box of {_shown(self.shape)}",
                mend=f"give {self.ndim} numbers",
            )
        if any(size % part for size, part in zip(self.shape, sizes, strict=True)):
            raise ConfigError(
                f"{what} of {_shown(sizes)} does not divide a box of {_shown(self.shape)}",
                mend="each number must divide the size of its dimension",
            )

    def _roll(self, axis: int, direction: int, shifts: npt.NDArray[np.integer]) -> None:
        """Move the tasks of each hyperplane, given by its coordinate along `direction`, along `axis`."""
        if axis == direction:
            raise ConfigError(f"tasks cannot move along dimension {axis} by where they are in it", mend=None)
        planes = np.moveaxis(self.tasks, (direction, axis), (0, 1))
        for plane, shift in zip(planes, shifts.tolist(), strict=True):
            plane[...] = np.roll(plane, shift, 0)


def _whole(numbers: Sequence[int], what: str) -> tuple[int, ...]:
    sizes = tuple(numbers)
    if not sizes or not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
        raise ConfigError(f"{what} of {list(sizes)}", mend="give whole numbers, 1 or more")
    return tuple(int(size) for size in sizes)


def _shown(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
