"""Periodic lattices in blocks, one for each rank: even sites first in memory, then odd sites, then ghosts.

A site is even if the sum of its global coordinates is even. Sites of a parity are in C order of their
coordinates. Ghosts are the sites of neighbouring blocks that touch this one: those of a face and a parity are
contiguous and in the order of their owner, so that a face is received without a copy.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from petacomm.base.arguments import require_arrays, require_instance, require_integer
from petacomm.base.typing import AnyArray, BoolArray, Int32Array, Int64Array
from petacomm.redistribution.array_layout import ArrayLayout, DatatypeError

N_PARITIES = 2


@dataclass(frozen=True)
class LatticeDirection:
    """Direction of a neighbour: up or down an axis."""

    axis: int
    up: bool

    @property
    def number(self) -> int:
        """Number of the direction in the order 0+, 0-, 1+, 1- and so on."""
        return 2 * self.axis + (not self.up)


@dataclass(frozen=True)
class Lattice:
    """Block of a periodic lattice that a rank holds.

    Parameters
    ----------
    shape : tuple of int
        Global number of sites along each axis; even.
    grid : tuple of int
        Ranks along each axis, at most as many as sites.
    rank : int
        This rank.

    Raises
    ------
    DatatypeError
        If these do not fit each other.

    Examples
    --------
    >>> from petacomm import Lattice
    >>> lattice = Lattice((4, 4), (2, 1), rank=0)  # upper half of the lattice
    >>> lattice.n_sites, lattice.n_rows  # 8 sites, and two faces of 4 ghosts
    (8, 16)
    """

    shape: tuple[int, ...]
    grid: tuple[int, ...]
    rank: int

    def __post_init__(self) -> None:
        layout = ArrayLayout(self.shape, self.grid)
        object.__setattr__(self, "shape", layout.shape)
        object.__setattr__(self, "grid", layout.grid)
        object.__setattr__(self, "rank", require_integer(self.rank, "rank", 0, layout.n_ranks - 1))
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
    def layout(self) -> ArrayLayout:
        """Layout of the blocks of all ranks."""
        return ArrayLayout(self.shape, self.grid)

    @property
    def directions(self) -> list[LatticeDirection]:
        """All directions, two for each axis."""
        return [LatticeDirection(axis, up) for axis in range(len(self.shape)) for up in (True, False)]

    @property
    def remote_directions(self) -> list[LatticeDirection]:
        """Directions along axes that are distributed over ranks."""
        return [to for to in self.directions if self.grid[to.axis] > 1]

    def neighbour(self, to: LatticeDirection) -> int:
        """Return the neighbouring rank in a direction.

        Parameters
        ----------
        to : LatticeDirection

        Returns
        -------
        int
        """
        self._require_direction(to)
        at = list(np.unravel_index(self.rank, self.grid))
        at[to.axis] = (at[to.axis] + (1 if to.up else -1)) % self.grid[to.axis]
        return int(np.ravel_multi_index(at, self.grid))

    @functools.cached_property
    def parity(self) -> Int64Array:
        """Parity of each site, 0 for even and 1 for odd; int64, in the shape of the block."""
        box = self.layout.box(self.rank)
        sums = sum(np.ix_(*(np.arange(part.start, part.stop) for part in box)), np.zeros((), np.int64))
        return np.asarray(sums % 2, np.int64)

    @functools.cached_property
    def index(self) -> Int64Array:
        """Row of each site, int64, in the shape of the block."""
        rows = np.empty(self.parity.size, np.int64)
        rows[np.argsort(self.parity.reshape(-1), kind="stable")] = np.arange(self.parity.size)
        return rows.reshape(self.parity.shape)

    @property
    def n_sites(self) -> int:
        """Number of sites of this block."""
        return self.parity.size

    @functools.cached_property
    def n_even(self) -> int:
        """Number of even sites of this block."""
        return int(np.count_nonzero(self.parity == 0))

    def sites(self, parity: int) -> slice:
        """Return the rows of the sites of a parity.

        Parameters
        ----------
        parity : int
            0 for even sites, 1 for odd sites.

        Returns
        -------
        slice
        """
        require_integer(parity, "parity", 0, 1)
        return slice(0, self.n_even) if parity == 0 else slice(self.n_even, self.n_sites)

    def face(self, to: LatticeDirection, parity: int) -> Int64Array:
        """Return the rows of the sites of a parity that are ghosts of the rank in a direction.

        Parameters
        ----------
        to : LatticeDirection
        parity : int
            0 for even sites, 1 for odd sites.

        Returns
        -------
        int64 (n,)
            In the order of the ghosts.
        """
        self._require_direction(to)
        cut = self._face_slices(to)
        rows: Int64Array = self.index[cut][self.parity[cut] == parity]
        return rows

    def _require_direction(self, to: LatticeDirection) -> None:
        require_instance(to, "to", LatticeDirection, "give one of `directions`")
        require_integer(to.axis, "axis", 0, len(self.shape) - 1)

    def _face_slices(self, to: LatticeDirection) -> tuple[slice, ...]:
        return (slice(None),) * to.axis + (slice(-1, None) if to.up else slice(0, 1),)

    @functools.cached_property
    def ghosts(self) -> dict[tuple[int, int], slice]:
        """Rows of ghosts, by number of the direction and parity; those of a parity are contiguous."""
        ghosts, begin = {}, self.n_sites
        for parity in range(N_PARITIES):
            for to in self.remote_directions:
                n = int(np.count_nonzero(self._ghost_parity(to) == parity))
                ghosts[to.number, parity] = slice(begin, begin + n)
                begin += n
        return ghosts

    @property
    def n_rows(self) -> int:
        """Number of rows of a field: sites and ghosts."""
        return max((part.stop for part in self.ghosts.values()), default=self.n_sites)

    def _ghost_parity(self, to: LatticeDirection) -> Int64Array:
        """Return the parities of the sites just beyond a face."""
        return 1 - self.parity[self._face_slices(to)]

    @functools.cached_property
    def neighbours(self) -> Int32Array:
        """Rows of the neighbours of each site, int32 (n_sites, n_directions), by number of the direction."""
        table = np.empty((self.n_sites, len(self.directions)), np.int32)
        for to in self.directions:
            rows = np.roll(self.index, -1 if to.up else 1, to.axis)
            if self.grid[to.axis] > 1:
                face = rows[self._face_slices(to)]
                for parity in range(N_PARITIES):
                    ghosts = self.ghosts[to.number, parity]
                    face[self._ghost_parity(to) == parity] = np.arange(ghosts.start, ghosts.stop)
                rows[self._face_slices(to)] = face
            table[self.index.reshape(-1), to.number] = rows.reshape(-1)
        return table

    @functools.cached_property
    def is_boundary(self) -> BoolArray:
        """Whether a site has a ghost as neighbour, bool (n_sites,)."""
        return np.asarray((self.neighbours >= self.n_sites).any(axis=1))

    def inner(self, parity: int) -> Int32Array:
        """Return the rows of the sites of a parity that have no ghost as neighbour.

        Parameters
        ----------
        parity : int
            0 for even sites, 1 for odd sites.

        Returns
        -------
        int32 (n,)
        """
        return self._rows_where(~self.is_boundary, parity)

    def boundary(self, parity: int) -> Int32Array:
        """Return the rows of the sites of a parity that have a ghost as neighbour.

        Parameters
        ----------
        parity : int
            0 for even sites, 1 for odd sites.

        Returns
        -------
        int32 (n,)
        """
        return self._rows_where(self.is_boundary, parity)

    def _rows_where(self, selected: BoolArray, parity: int) -> Int32Array:
        part = self.sites(parity)
        rows: Int32Array = (part.start + np.flatnonzero(selected[part])).astype(np.int32)
        return rows

    def local_rows(self, values: AnyArray) -> AnyArray:
        """Return this rank's rows of values on the global lattice.

        Parameters
        ----------
        values : array (*shape, ...)
            Values on all sites.

        Returns
        -------
        array (n_rows, ...)
            Ghosts are zero.

        Raises
        ------
        DatatypeError
            If there are not values on all sites.
        """
        require_arrays(values=values)
        if values.shape[: len(self.shape)] != self.shape:
            raise DatatypeError(
                f"values of shape {values.shape} on a lattice of {self.shape}", mend="give all sites"
            )
        rows = np.zeros((self.n_rows, *values.shape[len(self.shape) :]), values.dtype)
        rows[self.index] = values[self.layout.box(self.rank)]
        return rows
