"""Pixels of a simulated sky that detectors can see: a small part of all of them where the scan is local."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from petacomm.base.threads import map_threads
from petacomm.base.typing import BoolArray, UInt8Array
from petacomm.mpi import Communicator, SerialCommunicator, agree_on_errors
from petamap.pointing import quaternion
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.protocol import Pointing
from petamap.sky.healpix import Healpix
from petamap.sky.submaps import Submaps, pixel_radius, submaps_of_discs

LEAST_N_SIDE = 256  # skies of fewer pixels take 5 MB at most, and are held whole
_CELLS = Healpix(128, nest=True)  # where lines of sight have been, is known by these
_LEAST_CELLS = 16  # n_side of those by which it is known for the widest fields of view
_MARGIN = 4  # radii of pixels around what is seen, which interpolation reaches
_MOST = 0.5  # part of a sky beyond which all of it is held
_PIECE = 1 << 18  # samples that a thread looks at, at once
_POINTINGS, _SAMPLES = 500, 1 << 15  # that tell about how much is seen: pointings, and samples of each


class DetectorPointing(NamedTuple):
    """Detectors that look at a sky; None for all of their pointing."""

    pointing: Pointing
    detectors: frozenset[int] | None


class _Piece(NamedTuple):
    """Samples [start, stop) of a pointing, by its number."""

    number: int
    start: int
    stop: int


class SeenPixels:
    """Pixels of a HEALPix map that detectors can see in any of their samples.

    Found from all samples of one line of sight, and the distance of the others from it, for compressed
    pointing; other pointing may see all of the sky. They do not depend on ranks, nor on which samples are
    used.

    Parameters
    ----------
    pixelization : Healpix
    pointings : sequence of DetectorPointing
    n_threads : int
    """

    def __init__(
        self, pixelization: Healpix, pointings: Sequence[DetectorPointing], n_threads: int = 1
    ) -> None:
        self.pixelization, self.pointings, self._n_threads = pixelization, pointings, n_threads
        self._found: tuple[Submaps | None] | None = None
        self._about: tuple[Submaps | None] | None = None

    @property
    def may_be_few(self) -> bool:
        """Whether the sky is large, and all pointing is such that lines of sight are found quickly."""
        if self.pixelization.n_side < LEAST_N_SIDE:
            return False
        return all(isinstance(one.pointing, CompressedPointing) for one in self.pointings)

    def submaps(self, comm: Communicator | None = None) -> Submaps | None:
        """Return the submaps that are seen, or None for all of the sky. Collective on `comm`."""
        comm = comm or SerialCommunicator()
        if comm.max(float(self._found is None)) > 0:
            self._found = (self._find(comm) if self.may_be_few else None,)
        assert self._found is not None
        return self._found[0]

    def submaps_about(self) -> Submaps | None:
        """Return about the submaps that are seen, in some of the samples where these are many."""
        known = self._found or self._about
        if known is None and self.may_be_few:
            chosen = np.unique(
                np.linspace(0, len(self.pointings) - 1, min(len(self.pointings), _POINTINGS)).round()
            )
            some = [_decimated(self.pointings[int(number)]) for number in chosen]
            known = self._about = (SeenPixels(self.pixelization, some, self._n_threads).submaps(),)
        return known[0] if known else None

    @property
    def _may_be_sampled(self) -> bool:
        """Whether some samples are much fewer than all, and no files are read for them."""
        pointings = [one.pointing for one in self.pointings]
        many = len(pointings) > _POINTINGS or any(one.n_samp > _SAMPLES for one in pointings)
        return many and not any(hasattr(type(one), "is_read") for one in pointings)

    def _find(self, comm: Communicator) -> Submaps | None:
        if self._may_be_sampled and self.submaps_about() is None:  # all samples see no less
            return None
        cells, radius = np.zeros(_CELLS.n_pix, np.uint8), 0.0
        with agree_on_errors(comm):
            for pieces in self._own_pieces(comm):
                radius = max(radius, self._look_at(pieces, cells))
        radius = comm.max(radius)
        seen: BoolArray = comm.allreduce(cells, "max").astype(np.bool_)
        n_cells = _CELLS.n_side
        while n_cells > _LEAST_CELLS and pixel_radius(n_cells) < radius / 8:
            seen, n_cells = np.asarray(seen.reshape(-1, 4).any(axis=1)), n_cells // 2
        if seen.mean() > _MOST:
            return None
        centres = Healpix(n_cells, nest=True).directions_of(np.flatnonzero(seen))
        reach = radius + pixel_radius(n_cells) + _MARGIN * pixel_radius(self.pixelization.n_side)
        found = submaps_of_discs(self.pixelization, centres, reach)
        return None if found.held.mean() > _MOST else found

    def _own_pieces(self, comm: Communicator) -> Iterator[list[_Piece]]:
        """Yield the samples that this rank looks at, as pieces of one pointing after the other."""
        n_before, n_samp = 0, sum(one.pointing.n_samp for one in self.pointings)
        first, last = (n_samp * rank // comm.size for rank in (comm.rank, comm.rank + 1))
        for number, (pointing, _) in enumerate(self.pointings):
            start, stop = max(first - n_before, 0), min(last - n_before, pointing.n_samp)
            steps = range(start, stop, _PIECE)
            if len(steps):
                yield [_Piece(number, begin, min(begin + _PIECE, stop)) for begin in steps]
            n_before += pointing.n_samp

    def _look_at(self, pieces: Sequence[_Piece], cells: UInt8Array) -> float:
        """Mark the cells that one detector sees, and return its distance from the farthest, radians."""
        pointing, chosen = self.pointings[pieces[0].number]
        assert isinstance(pointing, CompressedPointing)
        was_read = getattr(pointing, "is_read", True)
        numbers = np.arange(pointing.n_det) if chosen is None else np.array(sorted(chosen))
        sights = quaternion.rotate(pointing.detectors[numbers], np.array([0.0, 0.0, 1.0]))
        nearest = int((sights * sights.mean(axis=0)).sum(axis=1).argmax())
        detector = int(numbers[nearest])

        def mark(piece: _Piece) -> None:
            pixels = np.empty(piece.stop - piece.start, np.int32)
            pointing.expand(_CELLS, detector, piece.start, piece.stop, pixels, None)
            cells[pixels] = 1

        map_threads(mark, pieces, self._n_threads)
        if not was_read:
            pointing.release()
        return float(quaternion.angle_between(sights[nearest], sights).max())


def _decimated(one: DetectorPointing) -> DetectorPointing:
    """Return the pointing of some samples at equal distances."""
    pointing, stride = one.pointing, -(-one.pointing.n_samp // _SAMPLES)
    assert isinstance(pointing, CompressedPointing)
    return one if stride == 1 else DetectorPointing(pointing.decimated(stride), one.detectors)
