"""A periodic lattice cut into blocks, a rank each: even sites first in memory, then odd ones, then ghosts.

A site is even where the sum of its coordinates in the whole lattice is. Sites of a parity stand in C order of
their coordinates. Ghosts are the sites of neighbouring blocks that touch this one: those of a face and a
parity lie together, in the order in which they lie at their owner: a face is received where it belongs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import AnyArray, BoolArray, Int32Array, Int64Array
from petacomm.redistribution.array_layout import DatatypeError, Layout

N_PARITIES = 2


@dataclass(frozen=True)
class Direction:
    """A step along an axis, up or down."""

    axis: int
    up: bool

    @property
    def number(self) -> int:
        """Its place among all directions: 0+, 0-, 1+, 1- and so on."""
        return 2 * self.axis + (not self.up)


@dataclass(frozen=True)
class Lattice:
    """A rank's block of a periodic lattice.

    Parameters
    ----------
    shape : tuple of int
        Sites along each axis, even numbers.
    grid : tuple of int
        Ranks along each axis; parts differ by one at most, and none is empty.
    rank : int

    Raises
    ------
    DatatypeError
        If these do not fit each other.
    """

    shape: tuple[int, ...]
    grid: tuple[int, ...]
    rank: int

    def __post_init__(self) -> None:
        layout = Layout(self.shape, self.grid)
        object.__setattr__(self, "shape", layout.shape)
        object.__setattr__(self, "grid", layout.grid)
        if any(n % 2 or n == 0 for n in self.shape):
            raise DatatypeError(
                f"a periodic lattice of {self.shape} sites",
                mend="even numbers: else a site has neighbours of its own parity",
            )
        if any(p > n for n, p in zip(self.shape, self.grid, strict=True)):
            raise DatatypeError(
                f"a lattice of {self.shape} sites on a grid of {self.grid} ranks: some have none"
            )

    @property
    def layout(self) -> Layout:
        """The blocks of all ranks."""
        return Layout(self.shape, self.grid)

    @property
    def directions(self) -> list[Direction]:
        """All directions, two an axis."""
        return [Direction(axis, up) for axis in range(len(self.shape)) for up in (True, False)]

    @property
    def crossing(self) -> list[Direction]:
        """The directions in which another rank is."""
        return [way for way in self.directions if self.grid[way.axis] > 1]

    def neighbour(self, way: Direction) -> int:
        """Return the rank in a direction."""
        at = list(np.unravel_index(self.rank, self.grid))
        at[way.axis] = (at[way.axis] + (1 if way.up else -1)) % self.grid[way.axis]
        return int(np.ravel_multi_index(at, self.grid))

    @functools.cached_property
    def parity(self) -> Int64Array:
        """0 of even sites and 1 of odd ones, int64, in the shape of the block."""
        box = self.layout.box(self.rank)
        sums = sum(np.ix_(*(np.arange(part.start, part.stop) for part in box)), np.zeros((), np.int64))
        return np.asarray(sums % 2, np.int64)

    @functools.cached_property
    def index(self) -> Int64Array:
        """The row of each site, int64, in the shape of the block."""
        rows = np.empty(self.parity.size, np.int64)
        rows[np.argsort(self.parity.reshape(-1), kind="stable")] = np.arange(self.parity.size)
        return rows.reshape(self.parity.shape)

    @property
    def n_sites(self) -> int:
        """Sites of this block."""
        return self.parity.size

    @functools.cached_property
    def n_even(self) -> int:
        """Even sites of this block."""
        return int(np.count_nonzero(self.parity == 0))

    def sites(self, parity: int) -> slice:
        """Return the rows of the sites of a parity."""
        return slice(0, self.n_even) if parity == 0 else slice(self.n_even, self.n_sites)

    def face(self, way: Direction, parity: int) -> Int64Array:
        """Return the rows of the sites of a parity that the rank in a direction sees, in order."""
        cut = self._last(way)
        rows: Int64Array = self.index[cut][self.parity[cut] == parity]
        return rows

    def _last(self, way: Direction) -> tuple[slice, ...]:
        return (slice(None),) * way.axis + (slice(-1, None) if way.up else slice(0, 1),)

    @functools.cached_property
    def ghosts(self) -> dict[tuple[int, int], slice]:
        """The rows of ghosts, by number of the direction and parity; those of a parity lie together."""
        found, begin = {}, self.n_sites
        for parity in range(N_PARITIES):
            for way in self.crossing:
                n = int(np.count_nonzero(self._beyond(way) == parity))
                found[way.number, parity] = slice(begin, begin + n)
                begin += n
        return found

    @property
    def n_rows(self) -> int:
        """Rows of a field: sites and ghosts."""
        return max((part.stop for part in self.ghosts.values()), default=self.n_sites)

    def _beyond(self, way: Direction) -> Int64Array:
        """The parities of the sites just beyond a face: the opposite ones."""
        return 1 - self.parity[self._last(way)]

    @functools.cached_property
    def neighbours(self) -> Int32Array:
        """The rows of the neighbours of each site, int32 (n_sites, n_directions), by their numbers."""
        table = np.empty((self.n_sites, len(self.directions)), np.int32)
        for way in self.directions:
            beside = np.roll(self.index, -1 if way.up else 1, way.axis)
            if self.grid[way.axis] > 1:
                face = beside[self._last(way)]
                for parity in range(N_PARITIES):
                    ghosts = self.ghosts[way.number, parity]
                    face[self._beyond(way) == parity] = np.arange(ghosts.start, ghosts.stop)
                beside[self._last(way)] = face
            table[self.index.reshape(-1), way.number] = beside.reshape(-1)
        return table

    @functools.cached_property
    def touching(self) -> BoolArray:
        """Whether a site has a ghost for a neighbour, bool (n_sites,)."""
        return np.asarray((self.neighbours >= self.n_sites).any(axis=1))

    def inner(self, parity: int) -> Int32Array:
        """Return the sites of a parity that have no ghost for a neighbour."""
        part = self.sites(parity)
        inner: Int32Array = (part.start + np.flatnonzero(~self.touching[part])).astype(np.int32)
        return inner

    def outer(self, parity: int) -> Int32Array:
        """Return the sites of a parity that have."""
        part = self.sites(parity)
        outer: Int32Array = (part.start + np.flatnonzero(self.touching[part])).astype(np.int32)
        return outer

    def take(self, whole: AnyArray) -> AnyArray:
        """Return this block of values on the whole lattice, (n_rows, ...): ghosts are zero."""
        rows = np.zeros((self.n_rows, *whole.shape[len(self.shape) :]), whole.dtype)
        rows[self.index] = whole[self.layout.box(self.rank)]
        return rows
