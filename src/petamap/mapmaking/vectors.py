"""Vectors of the solver: unknowns on pixels and gaps, each row stored at its owner alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.pages import zero_pages
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator
from petacomm.reduction import OwnedRows

_CACHE_LINE = 64
_OWN_PAGES = 1 << 18  # bytes
_NOTHING: FloatArray = np.zeros(0)

# Vectors that the kernels take side by side: as many as fit into a register.
MAX_WIDTH = 8


def width_for(n: int) -> int:
    """Return the width of the kernels, a power of two, that n vectors take."""
    return 1 << max(n - 1, 0).bit_length()


def largest_sizes(values: FloatArray, n_threads: int = 1) -> FloatArray:
    """Return the largest |value| of each of several vectors side by side, (..., width), as (width,).

    Of a vector with a value that is infinite or none it is not a number.
    """
    found = np.empty(values.shape[-1])
    rows = np.ascontiguousarray(values).reshape(-1, values.shape[-1])
    _mapmaking.largest_sizes(rows, found, n_threads)
    return found


def aligned_zeros(*shape: int) -> Int64Array:
    """Return int64 zeros that begin at a cache line, so that few rows lie in two.

    Large ones have pages of their own, which go back to the system where they are freed: what a thread frees
    otherwise stays with it, and with what comes after it in its turn.
    """
    n = math.prod(shape)
    if 8 * n >= _OWN_PAGES:
        return zero_pages(8 * n).reshape(shape)
    memory = np.zeros(n + _CACHE_LINE // 8, np.int64)
    first = -memory.ctypes.data % _CACHE_LINE // 8
    return memory[first : first + n].reshape(shape)


@dataclass
class Unknowns:
    """A vector of the solver, or several side by side, at the owners of their rows or at all holders.

    Side by side, the values of all vectors for a row lie in the same cache lines and in one register.
    Where pixels are summed by an all-reduce, ranks keep rows of their ghosts as well, on which they do the
    same operations as the owners; sums over rows leave them out. A vector iterates over its four parts.

    Parameters
    ----------
    pixels : float64 (n, n_stokes) or (n, n_stokes, width)
        The map, on pixels that samples of this rank fall into.
    gaps : float64 (n_gaps, 1) or (n_gaps, 1, width)
        Values of samples that must not enter the map.
    pixel_ghosts, gap_ghosts : float64, optional
        Rows that other ranks own.

    Examples
    --------
    >>> import petamap
    >>> b = petamap.Unknowns.zeros(n_pixels=12, n_stokes=3, n_gaps=0)
    >>> b.pixels.shape, b.gaps.shape
    ((12, 3), (0, 1))
    """

    pixels: FloatArray
    gaps: FloatArray
    pixel_ghosts: FloatArray = field(default_factory=lambda: _NOTHING)
    gap_ghosts: FloatArray = field(default_factory=lambda: _NOTHING)

    def __post_init__(self) -> None:
        if self.pixel_ghosts is _NOTHING:
            self.pixel_ghosts, self.gap_ghosts = self.pixels[:0], self.gaps[:0]

    @staticmethod
    def zeros(n_pixels: int, n_stokes: int, n_gaps: int) -> Unknowns:
        """Return a vector of zeros.

        Parameters
        ----------
        n_pixels, n_stokes, n_gaps : int

        Returns
        -------
        Unknowns
        """
        return Unknowns(np.zeros((n_pixels, n_stokes)), np.zeros((n_gaps, 1)))

    @property
    def width(self) -> int:
        """Number of vectors side by side."""
        return int(self.pixels.shape[2])

    def column(self, number: int) -> Unknowns:
        """Return a copy of one of several vectors.

        Parameters
        ----------
        number : int

        Returns
        -------
        Unknowns
        """
        return Unknowns(*(part[..., number].copy() for part in self))

    def columns(self, numbers: Sequence[int]) -> Unknowns:
        """Return some of several vectors, side by side in the width that they need.

        Parameters
        ----------
        numbers : sequence of int

        Returns
        -------
        Unknowns
        """
        return Unknowns(
            *(_stacked([part[..., n] for n in numbers], width_for(len(numbers))) for part in self)
        )

    def largest(self, comm: Communicator) -> FloatArray:
        """Return the largest |I| + |Q| + |U| of each of several vectors over all ranks. Collective.

        Parameters
        ----------
        comm : Communicator

        Returns
        -------
        float64 (width,)
        """
        sizes = [np.abs(part).sum(axis=1).max(axis=0, initial=0.0) for part in self.owned]
        return comm.allreduce(np.maximum(*sizes), "max")

    def zeros_like(self) -> Unknowns:
        """Return zeros of the same shapes.

        Returns
        -------
        Unknowns
        """
        return Unknowns(*(aligned_zeros(*part.shape).view(np.float64) for part in self))

    def copy(self) -> Unknowns:
        """Return a copy.

        Returns
        -------
        Unknowns
        """
        return Unknowns(*(part.copy() for part in self))

    @property
    def owned(self) -> tuple[FloatArray, FloatArray]:
        """The parts that hold each row once in the run."""
        return self.pixels, self.gaps

    def as_integers(self) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return the same memory viewed as int64, part by part.

        Returns
        -------
        pixels, gaps, pixel_ghosts, gap_ghosts : int64
        """
        pixels, gaps, pixel_ghosts, gap_ghosts = (part.view(np.int64) for part in self)
        return pixels, gaps, pixel_ghosts, gap_ghosts

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.pixels, self.gaps, self.pixel_ghosts, self.gap_ghosts))


N_PARTS = 4


def sums_of_parts(sums: Int64Array) -> tuple[Int64Array, ...]:
    """Return the arrays to which the four parts of a vector add: those of ghosts are counted by no one."""
    thrown_away = np.zeros_like(sums)
    return sums, sums, thrown_away, thrown_away


def stack(vectors: Sequence[Unknowns], width: int = 0) -> Unknowns:
    """Return vectors side by side, padded by zeros to a width, by default that of the kernels.

    A single vector is not copied.
    """
    width = width or width_for(len(vectors))
    if width == 1:
        return Unknowns(*(part[..., None] for part in vectors[0]))
    parts = zip(*vectors, strict=True)
    return Unknowns(*(_stacked(list(columns), width) for columns in parts))


def stacked_zeros(like: Unknowns, width: int) -> Unknowns:
    """Return `width` vectors of zeros side by side, with as many rows as `like`."""
    return Unknowns(*(np.zeros((*part.shape[:2], width)) for part in like))


def _stacked(columns: Sequence[FloatArray], width: int) -> FloatArray:
    out = aligned_zeros(*columns[0].shape, width).view(np.float64)
    for number, column in enumerate(columns):
        out[..., number] = column
    return out


@dataclass(frozen=True)
class SharedUnknowns:
    """Owners and holders of pixels and gaps, and the scatters between them.

    Messages of pixels and gaps travel together.

    Attributes
    ----------
    pixels : OwnedRows
        Rows of the map.
    gaps : OwnedRows
        Rows that only neighbours in time share: of gaps, then of amplitudes of templates.
    first_amplitudes : (int, int), optional
        First row of amplitudes at the owners and among ghosts, if there are templates.
    """

    pixels: OwnedRows
    gaps: OwnedRows
    first_amplitudes: tuple[int, int] | None = None

    @property
    def comm(self) -> Communicator:
        """All ranks of the run."""
        return self.pixels.comm

    @property
    def keeps_ghosts(self) -> bool:
        """Whether ranks keep rows of their ghosts, the same on all ranks."""
        return self.comm.size > 1 and self.pixels.plan.allreduce_only

    def zeros(self, n_stokes: int) -> Unknowns:
        """Return a vector of zeros at the owners, with the ghosts that ranks keep."""
        pixels, gaps = self.pixels, self.gaps
        return Unknowns(
            np.zeros((pixels.n_owned, n_stokes)), np.zeros((gaps.n_owned, 1)),
            np.zeros((pixels.n_ghosts, n_stokes)), np.zeros((gaps.n_ghosts, 1)),
        )  # fmt: skip

    def with_ghosts(self, vector: Unknowns) -> Unknowns:
        """Return a vector at the owners, (n, k), with the rows of ghosts that this rank keeps. Collective."""
        pixels, gaps = self.pixels.scatter_fwd(vector.pixels), self.gaps.scatter_fwd(vector.gaps)
        return Unknowns(*vector.owned, self.pixels.select_ghosts(pixels), self.gaps.select_ghosts(gaps))

    def held_buffers(self, vector: Unknowns) -> Unknowns:
        """Return memory for the rows that this rank holds: that which `scatter_fwd` returns. Collective."""
        return Unknowns(self.pixels.held_buffer(vector.pixels), self.gaps.held_buffer(vector.gaps))

    def scatter_fwd(self, vector: Unknowns) -> Unknowns:
        """Return the rows that this rank holds, valid until the next call. Collective.

        Parameters
        ----------
        vector : Unknowns
            At the owners.
        """
        self.pixels.scatter_fwd_begin(vector.pixels, vector.pixel_ghosts)
        self.gaps.scatter_fwd_begin(vector.gaps, vector.gap_ghosts)
        return Unknowns(self.pixels.scatter_fwd_end(), self.gaps.scatter_fwd_end())

    def scatter_rev(
        self, pixels: Int64Array, gaps: Int64Array, out: Unknowns | None = None
    ) -> tuple[Int64Array, Int64Array]:
        """Return integers on pixels and gaps summed over all holders, at the owners. Collective.

        The sums of ghosts that this rank keeps go to `out`.

        Parameters
        ----------
        pixels, gaps : int64 (n_held, ...)
            Overwritten.
        out : Unknowns, optional
            Memory for the result; the argument of `held_buffers`.
        """
        to = (None,) * N_PARTS if out is None else out.as_integers()
        self.pixels.scatter_rev_begin(pixels)
        self.gaps.scatter_rev_begin(gaps)
        return self.pixels.scatter_rev_end(to[0], to[2]), self.gaps.scatter_rev_end(to[1], to[3])
