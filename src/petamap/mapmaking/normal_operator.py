"""The normal operator A = P^T N^-1 P of the map-making equation, summed over all ranks without rounding."""

from __future__ import annotations

import math

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.exact import zero_limbs
from petacomm.base.typing import FloatArray, Int64Array
from petamap.mapmaking.linear_operators import Operator
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.vectors import SharedUnknowns, Unknowns, aligned_zeros, sums_of_parts

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
    """

    def __init__(
        self, projection: Projection, noise: InverseNoise, shared: SharedUnknowns, hits_max: int
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
        self._memory = aligned_zeros(0)

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return A times vectors side by side. Collective."""
        out = vectors.zeros_like()
        self.apply_and_dot(vectors, vectors.largest(self.comm), out)
        return out

    def apply_and_dot(self, p: Unknowns, largest: FloatArray, q: Unknowns) -> Int64Array:
        """Write A p to `q` and return this rank's part of p . q as limbs, in one pass. Collective."""
        units = self.apply_integers(p, largest, q)
        limbs = zero_limbs(len(largest))
        for first, values, integers, to in zip(self._firsts, p, q, sums_of_parts(limbs), strict=True):
            _mapmaking.settle(values[:first], integers[:first], units, to, self.n_threads)
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
        units = np.array([self._unit(one) for one in largest])
        held = self.shared.scatter_fwd(vectors)
        pixels, gaps, *_ = self.shared.held_buffers(out).as_integers()
        if self._sums_in_place:
            pixels.fill(0)
            gaps.fill(0)
            sums, gap_sums = pixels[None], gaps[None, :, 0]
        else:
            sums, gap_sums = self._thread_sums(vectors.width)
        self.projection.apply(self.noise, held.pixels, held.gaps[:, 0], (largest > 0) / units, sums, gap_sums)
        if amplitudes := self.projection.amplitudes:
            amplitudes.add_priors(held.gaps[:, 0], (largest > 0) / units, gap_sums[0])
        if not self._sums_in_place:
            # The values of the ghosts have been read; their memory takes the sums.
            _mapmaking.fold(sums, pixels, self.n_threads)
            _mapmaking.fold(gap_sums[:, :, None], gaps, self.n_threads)
        self.shared.scatter_rev(pixels, gaps, out)
        return units

    @property
    def _sums_in_place(self) -> bool:
        """Whether there is nothing to fold: one thread, of a process whose values lie elsewhere than sums."""
        return self.n_threads == 1 and self.comm.size == 1

    def _thread_sums(self, width: int) -> tuple[Int64Array, Int64Array]:
        """Return the sums of all threads on pixels and gaps: zero, as `fold` leaves them."""
        projection = self.projection
        shape = (projection.n_threads, projection.n_local, projection.stokes.n, width)
        gap_shape = (projection.n_threads, projection.n_nuisance, width)
        n, n_gaps = math.prod(shape), math.prod(gap_shape)
        if n + n_gaps > len(self._memory):
            self._memory = aligned_zeros(0)  # freed before more is allocated
            self._memory = aligned_zeros(n + n_gaps)
        return self._memory[:n].reshape(shape), self._memory[n : n + n_gaps].reshape(gap_shape)

    def _unit(self, largest: float) -> float:
        bound = self._norm * largest
        if bound == 0:
            return 1.0
        exponent = math.frexp(bound)[1]  # bound < 2^exponent
        return math.ldexp(1.0, exponent - min(_TERM_BITS, _SUM_BITS - self._hits_bits))
