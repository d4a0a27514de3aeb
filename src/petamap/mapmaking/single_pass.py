"""Binned maps in one pass over the data: pixels, hits, weights and right-hand side are found together.

Sums lie in rows of all pixels of the sky, so that where a sample belongs is known at first sight. Terms have
as many bits as they have where no pixel is hit often (`petamap.mapmaking.binning.term_bits`). Where one turns
out to be, or a sample is at fault, the pass was in vain: the data are then read in the usual way, which knows
the hits before and names faults.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.errors import STOPS, UserError
from petacomm.base.threads import add_by_threads, map_with_states
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.mpi import Communicator
from petamap.data.read_ahead import forget_pieces
from petamap.mapmaking.binning import signal_unit, term_bits, triangle, weight_scale
from petamap.mapmaking.noise_kernels import InverseNoise
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.sample_pointing import Piece
from petamap.mapmaking.shared_samples import share_samples
from petamap.mapmaking.signal_faults import SignalFaults
from petamap.mapmaking.vectors import aligned_zeros

_BITS = term_bits(1)


def row_length(n_stokes: int) -> int:
    """Return the numbers in a row: hits, weights, and two words of each Stokes parameter."""
    return 1 + triangle(n_stokes) + 2 * n_stokes


@dataclass(frozen=True)
class BinnedSums:
    """Sums over this rank's samples, in rows of its pixels.

    Attributes
    ----------
    rows : (n_local, row_length) int64
        Hits, weights, and the words of P^T w d.
    n_stokes : int
    faults : SignalFaults
        That were seen in the signal.
    """

    rows: Int64Array
    n_stokes: int
    faults: SignalFaults

    @property
    def hits(self) -> Int64Array:
        """Number of samples, (n_local,)."""
        return np.ascontiguousarray(self.rows[:, 0])

    @property
    def weights(self) -> Int64Array:
        """Sums of weights, (n_local, triangle)."""
        return np.ascontiguousarray(self.rows[:, 1 : 1 + triangle(self.n_stokes)])

    @property
    def words(self) -> Int64Array:
        """Words of P^T N^-1 d, which are zero, and of P^T w d, (n_local, n_stokes, 4, 1)."""
        words = aligned_zeros(len(self.rows), self.n_stokes, 4, 1)
        words[:, :, 2:, 0] = self.rows[:, -2 * self.n_stokes :].reshape(-1, self.n_stokes, 2)
        return words


def can_read_once(projection: Projection, comm: Communicator, room: int) -> bool:
    """Return whether all ranks can make binned sums in one pass, in so many bytes. Collective."""
    rows = projection.sky.n_pix * row_length(projection.stokes.n) * 8 * projection.n_threads
    # where rows take more, pixels are few beside those of the sky
    fits = rows <= min(room, projection.bytes_to_keep) and not projection.has_gains
    white = projection.layout.n_lag == 0 and projection.pixelization is projection.sky
    return comm.max(float(not (fits and white))) == 0


def read_once(projection: Projection, noise: InverseNoise, comm: Communicator) -> BinnedSums | None:
    """Return the binned sums of the observations' own signals, and number the pixels. Collective.

    Parameters
    ----------
    projection : Projection
        Of which pixels are not found yet.
    noise : InverseNoise
        White.
    comm : Communicator

    Returns
    -------
    BinnedSums or None
        None if the data have to be read in the usual way.
    """
    share_samples(projection, comm, [[one.signals for one in projection.observations]], pointing=True)
    one = _SinglePass(projection, noise, comm)
    rows = one.add_all()
    hits_max = 0 if rows is None else int(rows[:, 0].max(initial=0))
    # ranks share pixels: together they hit one at most as often as the sum says
    if comm.max(float(rows is None)) or term_bits(comm.sum(hits_max)) != _BITS:
        return None
    assert rows is not None
    projection.index.number()
    if projection.n_local < len(rows):
        rows = rows[projection.keys()]
    return BinnedSums(rows, projection.stokes.n, one.faults)


class _SinglePass:
    def __init__(self, projection: Projection, noise: InverseNoise, comm: Communicator) -> None:
        self.projection = projection
        self.faults = SignalFaults(projection)
        self._weights = noise.weights
        self._weight_scale = weight_scale(self._weights, _BITS, comm)
        self._signal_unit = signal_unit(noise.norm, self._weights, _BITS, comm)

    def add_all(self) -> Int64Array | None:
        """Return the sums of all samples, (n_pix, row_length); None if a sample is at fault."""
        projection = self.projection
        shape = projection.sky.n_pix, row_length(projection.stokes.n)
        try:
            states = map_with_states(
                lambda: aligned_zeros(*shape), self._add, list(projection.local.blocks), projection.n_threads
            )
        except STOPS:
            raise
        except UserError:
            return None
        finally:
            forget_pieces()
        return add_by_threads(states)

    def _add(self, sums: Int64Array, block: Int64Array) -> None:
        first, n, number = int(block[0]), int(block[3]), int(block[5])
        projection, segment = self.projection, self.projection.local.segments[number]
        start = segment.start + first - segment.offset
        samples = projection.find_pixels_of(Piece(number, segment, start, start + n, first))
        data: FloatArray = np.empty((1, n))
        projection.read(block, samples.pixels, data)
        self.faults.inspect(block, data[0], samples)
        largest = _mapmaking.add_binned(
            samples.pixels, samples.angles, samples.intensity, samples.efficiency, projection.stokes.n,
            data[0], float(self._weights[number]), self._weight_scale, 1 / self._signal_unit, _BITS, sums,
        )  # fmt: skip
        if not largest < math.ldexp(1.0, _BITS):
            raise UserError("a sample is too large for the sums")


def localize_faults(sums: BinnedSums, projection: Projection, dead: BoolArray) -> None:
    """Give pixels of faults that were seen their local numbers; those `dead`, (n_local,), have none."""
    table = np.full(projection.sky.n_pix, -1, np.int32)
    table[projection.keys()] = np.where(dead, -1, np.arange(len(dead)))
    sums.faults.localize(table)
