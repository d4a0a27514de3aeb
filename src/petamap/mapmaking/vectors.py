"""What conjugate gradients solve for, pixels and gaps, and where it lives: each row at its owner alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import Communicator
from petacomm.reduction import OwnedRows

_CACHE_LINE = 64

# How many vectors the kernels take side by side: as many as a register has room for.
WIDEST = 8


def width_for(n: int) -> int:
    """Return the width of the kernels, a power of two, that n vectors take."""
    return 1 << max(n - 1, 0).bit_length()


def words(*shape: int) -> Int64Array:
    """Return zeros that begin at a cache line, so that few rows lie in two."""
    n = math.prod(shape)
    room = np.zeros(n + _CACHE_LINE // 8, np.int64)
    first = -room.ctypes.data % _CACHE_LINE // 8
    return room[first : first + n].reshape(shape)


@dataclass
class Unknowns:
    """A vector of the solver, or several side by side, at the owners of their rows or lent to their holders.

    Side by side, the values of all vectors for a row lie in the same cache lines and in one register.

    Attributes
    ----------
    pixels : (n, n_stokes) or (n, n_stokes, width) float64
        The map, on pixels that this rank's samples look at.
    gaps : (n_gaps, 1) or (n_gaps, 1, width) float64
        The values of samples that must not enter the map.
    """

    pixels: FloatArray
    gaps: FloatArray

    @staticmethod
    def zeros(n_pixels: int, n_stokes: int, n_gaps: int) -> Unknowns:
        """Return a vector of zeros."""
        return Unknowns(np.zeros((n_pixels, n_stokes)), np.zeros((n_gaps, 1)))

    @staticmethod
    def beside(vectors: Sequence[Unknowns], width: int = 0) -> Unknowns:
        """Return vectors side by side, then zeros up to a width, by default that of the kernels.

        One alone is not copied.
        """
        width = width or width_for(len(vectors))
        if width == 1:
            return Unknowns(*(part[..., None] for part in vectors[0]))
        parts = zip(*vectors, strict=True)
        return Unknowns(*(_beside(list(columns), width) for columns in parts))

    @property
    def width(self) -> int:
        """How many vectors lie side by side."""
        return int(self.pixels.shape[2])

    def column(self, number: int) -> Unknowns:
        """Return a copy of one of several vectors."""
        return Unknowns(*(part[..., number].copy() for part in self))

    def columns(self, numbers: Sequence[int]) -> Unknowns:
        """Return some of several vectors, side by side in the width that they need."""
        return Unknowns(*(_beside([part[..., n] for n in numbers], width_for(len(numbers))) for part in self))

    def largest(self, comm: Communicator) -> FloatArray:
        """Return the largest |I| + |Q| + |U| of each of several vectors over all ranks. Collective."""
        sizes = [np.abs(part).sum(axis=1).max(axis=0, initial=0.0) for part in self]
        return comm.allreduce(np.maximum(*sizes), "max")

    def zeros_like(self) -> Unknowns:
        """Return zeros of the same shapes."""
        return Unknowns(np.zeros_like(self.pixels), np.zeros_like(self.gaps))

    def copy(self) -> Unknowns:
        """Return a copy."""
        return Unknowns(self.pixels.copy(), self.gaps.copy())

    def as_integers(self) -> tuple[Int64Array, Int64Array]:
        """Return the same memory, to hold integers."""
        return self.pixels.view(np.int64), self.gaps.view(np.int64)

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.pixels, self.gaps))


def _beside(columns: Sequence[FloatArray], width: int) -> FloatArray:
    out = words(*columns[0].shape, width).view(np.float64)
    for number, column in enumerate(columns):
        out[..., number] = column
    return out


@dataclass(frozen=True)
class Shared:
    """Who owns the pixels and gaps that ranks share, and the ways there and back.

    Messages of both travel together.

    Attributes
    ----------
    pixels : OwnedRows
        Of the sky.
    gaps : OwnedRows
        Which only neighbours in time share.
    """

    pixels: OwnedRows
    gaps: OwnedRows

    @property
    def comm(self) -> Communicator:
        """All ranks of the run."""
        return self.pixels.comm

    def zeros(self, n_stokes: int) -> Unknowns:
        """Return a vector of zeros at the owners."""
        return Unknowns.zeros(self.pixels.n_owned, n_stokes, self.gaps.n_owned)

    def room(self, vector: Unknowns) -> Unknowns:
        """Return memory for what this rank holds of a vector: that which `to_holders` lends. Collective."""
        return Unknowns(self.pixels.room(vector.pixels), self.gaps.room(vector.gaps))

    def to_holders(self, vector: Unknowns) -> Unknowns:
        """Return what this rank holds of a vector at the owners, valid until the next call. Collective."""
        self.pixels.to_holders_begin(vector.pixels)
        self.gaps.to_holders_begin(vector.gaps)
        return Unknowns(self.pixels.to_holders_end(), self.gaps.to_holders_end())

    def to_owners(
        self, pixels: Int64Array, gaps: Int64Array, out: Unknowns | None = None
    ) -> tuple[Int64Array, Int64Array]:
        """Return integers on pixels and gaps added up over all that hold them, at the owners. Collective.

        Parameters
        ----------
        pixels, gaps : (n_held, ...) int64
            Overwritten.
        out : Unknowns, optional
            Whose memory is to hold them; one that `room` was made for.
        """
        to_pixels, to_gaps = (None, None) if out is None else out.as_integers()
        self.pixels.to_owners_begin(pixels)
        self.gaps.to_owners_begin(gaps)
        return self.pixels.to_owners_end(to_pixels), self.gaps.to_owners_end(to_gaps)
