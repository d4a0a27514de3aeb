"""The normal operator A = P^T N^-1 P of the map-making equation, summed over all ranks without rounding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.exact import zero_limbs
from petacomm.base.typing import FloatArray, Int64Array
from petamap.mapmaking.linear_operators import Operator
from petamap.mapmaking.memory import sum_copies
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.vectors import SharedUnknowns, Unknowns, aligned_zeros, sums_of_parts

if TYPE_CHECKING:
    from petamap.cuda.normal_pass import NormalPass

# 64-bit sums keep a sign and a bit to spare; a term is rounded by way of a double's 52 bits.
_SUM_BITS, _TERM_BITS = 62, 51


class NormalOperator(Operator):
    """A = P^T N^-1 P over all ranks, on vectors at the owners of their rows. Collective.

    Sums on pixels are 64-bit integers in units of a power of two that follows from a rigorous bound,
    ``||N^-1||_1 max|t| hits`` for responses of at most 1 (`Projection.set_units`), so they are the same to
    the bit in whatever order threads and ranks add (the floating-point reduction of BlueGene/L's tree did the
    same). A term is rounded at 2^-51 of the largest possible one, or coarser where many hits need the room.

    Parameters
    ----------
    projection : Projection
    noise : InverseNoise
    shared : SharedUnknowns
    hits_max : int
        Most hits of a pixel in the run.
    on_device : NormalPass, optional
        Does this rank's part of the sums, instead of the processor.
    """

    def __init__(
        self,
        projection: Projection,
        noise: InverseNoise,
        shared: SharedUnknowns,
        hits_max: int,
        on_device: NormalPass | None = None,
    ) -> None:
        self.projection = projection
        self.noise = noise
        self.shared = shared
        self.comm = shared.comm
        self.n_threads = projection.n_threads
        self._hits_bits = max(hits_max, 1).bit_length()
        # a sample sees a pixel or a gap, and amplitudes of templates, none larger than the largest row
        self._norm = shared.comm.max(noise.norm) * (2 if projection.amplitudes else 1)
        # rows of amplitudes have larger units
        own, ghosts = shared.first_amplitudes or (None, None)
        self._firsts = None, own, None, ghosts
        self._sum_unit = projection.amplitudes.sum_unit if projection.amplitudes else 1.0
        alone = self.comm.size == 1  # values then lie elsewhere than sums
        self._on_device = on_device
        copies = 1 if on_device else self._copies()
        self._pixel_sums = _Sums(copies, alone, self.n_threads)
        self._gap_sums = _Sums(1 if projection.sample_unknowns else copies, alone, self.n_threads)

    def _copies(self) -> int:
        """Return how many copies of the sums the threads have.

        Where blocks are filtered, adding to sums is less than half of a thread's work: two threads share a
        copy, and seldom wait for each other, which takes less time than to clear and add up one more.
        """
        return sum_copies(self.n_threads, shared=self.projection.layout.n_lag > 0)

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return A times vectors side by side. Collective."""
        out = vectors.zeros_like()
        self.apply_and_dot(vectors, vectors.largest(self.comm), out)
        return out

    def apply_and_dot(self, p: Unknowns, largest: FloatArray, q: Unknowns) -> Int64Array:
        """Write A p to `q` and return this rank's part of p . q as limbs, in one pass. Collective."""
        units, copies = self.add_up(p, largest, q)
        limbs = zero_limbs(len(largest))
        of_threads = (copies, None, None, None)
        parts = zip(self._firsts, p, q, of_threads, sums_of_parts(limbs), strict=True)
        for first, values, integers, sums, to in parts:
            _mapmaking.settle(values[:first], integers[:first], units, to, self.n_threads, sums)
            if first is not None:
                larger = units * self._sum_unit
                _mapmaking.settle(values[first:], integers[first:], larger, to, self.n_threads)
        return limbs

    def apply_integers(self, vectors: Unknowns, largest: FloatArray, out: Unknowns) -> FloatArray:
        """Write A times vectors to `out` as integers in its memory, and return their units.

        Parameters
        ----------
        vectors : Unknowns
            Side by side, at the owners.
        largest : float64 (width,)
            Largest |I| + |Q| + |U| of a pixel and of a gap over all ranks, of each vector. Where it is 0, the
            vector is left out.
        out : Unknowns
            Of the same shape.

        Returns
        -------
        float64 (width,)
            The unit of each vector's integers; that of amplitudes is larger by `Amplitudes.sum_unit`.
        """
        units, copies = self.add_up(vectors, largest, out)
        if copies is not None:
            _mapmaking.fold(copies, out.as_integers()[0], self.n_threads)
        return units

    def add_up(
        self, vectors: Unknowns, largest: FloatArray, out: Unknowns
    ) -> tuple[FloatArray, Int64Array | None]:
        """Do as `apply_integers`, but return what threads of one process have summed, not yet added up."""
        units = np.array([self._unit(one) for one in largest])
        held = self.shared.scatter_fwd(vectors)
        pixels, gaps, *_ = self.shared.held_buffers(out).as_integers()
        sums, gap_sums = self._pixel_sums.start(pixels), self._gap_sums.start(gaps)[:, :, 0]
        scales = (largest > 0) / units
        if self._on_device:
            self._on_device.apply(held.pixels, held.gaps[:, 0], scales, sums[0], gap_sums[0])
        else:
            self.projection.apply(self.noise, held.pixels, held.gaps[:, 0], scales, sums, gap_sums)
        if amplitudes := self.projection.amplitudes:
            amplitudes.add_priors(held.gaps[:, 0], (largest > 0) / units, gap_sums[0])
        # The values of the ghosts have been read; their memory takes the sums.
        self._gap_sums.finish(gap_sums[:, :, None], gaps)
        alone = self.comm.size == 1
        if not alone:
            self._pixel_sums.finish(sums, pixels)
        self.shared.scatter_rev(pixels, gaps, out)
        return units, sums if alone and len(sums) > 1 else None

    def _unit(self, largest: float) -> float:
        bound = self._norm * largest
        if bound == 0:
            return 1.0
        exponent = math.frexp(bound)[1]  # bound < 2^exponent
        return math.ldexp(1.0, exponent - min(_TERM_BITS, _SUM_BITS - self._hits_bits))


class _Sums:
    """Sums on rows, integers of which threads have copies of their own, or one where no two add to a row.

    Parameters
    ----------
    n_copies : int
    alone : bool
        Whether nothing that is read lies where the sums are wanted: a single copy is then made there.
    n_threads : int
    """

    def __init__(self, n_copies: int, alone: bool, n_threads: int) -> None:
        self._n_copies = n_copies
        self._in_place = alone and n_copies == 1
        self._n_threads = n_threads
        self._memory = aligned_zeros(0)

    def start(self, out: Int64Array) -> Int64Array:
        """Return zeros of shape (n_copies, *out.shape)."""
        if self._in_place:
            _mapmaking.clear(out, self._n_threads)
            return out[None]
        n = self._n_copies * out.size
        if n > len(self._memory):
            self._memory = aligned_zeros(0)  # freed before more is allocated
            self._memory = aligned_zeros(n)
        return self._memory[:n].reshape(self._n_copies, *out.shape)  # zero, as `fold` leaves them

    def finish(self, sums: Int64Array, out: Int64Array) -> None:
        """Write the sums of all copies to `out`."""
        if not self._in_place:
            _mapmaking.fold(sums, out, self._n_threads)
