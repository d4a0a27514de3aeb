"""Pixels of a simulated sky that detectors can see: a small part of all of them where the scan is local."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from petacomm.base.threads import map_threads
from petacomm.base.typing import BoolArray, Int64Array, UInt8Array
from petacomm.mpi import Communicator, SerialCommunicator, agree_on_errors
from petamap.pointing import quaternion
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.protocol import Pointing
from petamap.pointing.recorded import RecordedPixels
from petamap.pointing.recorded_response import RecordedResponse
from petamap.pointing.sampled import SampledPointing
from petamap.sky.healpix import Healpix
from petamap.sky.submaps import Submaps, pixel_radius, submaps_of_discs

LEAST_N_SIDE = 256  # skies of fewer pixels take 5 MB at most, and are held whole
CELLS = Healpix(128, nest=True)  # where lines of sight have been, is known by these
_LEAST_CELLS = 16  # n_side of those by which it is known for the widest fields of view
_MARGIN = 4  # radii of pixels around what is seen, which interpolation reaches
_MOST = 0.5  # part of a sky beyond which all of it is held
_PIECE = 1 << 18  # samples that a thread looks at, at once
# that tell about how much is seen: pointings, and of each samples, or detectors that look by themselves
_POINTINGS, _SAMPLES, _DETECTORS = 500, 1 << 15, 8


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
    pointing; from those of all detectors, where attitudes of each are given, or recorded pixels of such a
    map. Other pointing may see all of the sky. They do not depend on ranks, nor on which samples are used.

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
        """Whether the sky is large, and all pointing tells where in it detectors look."""
        n_side = self.pixelization.n_side
        if n_side < LEAST_N_SIDE:
            return False
        return all(_sight(one.pointing, n_side) is not None for one in self.pointings)

    def submaps(self, comm: Communicator | None = None) -> Submaps | None:
        """Return the submaps that are seen, or None for all of the sky. Collective on `comm`."""
        comm = comm or SerialCommunicator()
        if comm.max(float(self._found is None)) > 0:
            self._found = (self._find(comm),)
        assert self._found is not None
        return self._found[0]

    def submaps_about(self) -> Submaps | None:
        """Return about the submaps that are seen, in some of the samples where these are many."""
        known = self._found or self._about
        if known is None and self.may_be_few:
            chosen = np.unique(
                np.linspace(0, len(self.pointings) - 1, min(len(self.pointings), _POINTINGS)).round()
            )
            n_side = self.pixelization.n_side
            some = [_some_of(self.pointings[int(number)], n_side) for number in chosen]
            known = self._about = (SeenPixels(self.pixelization, some, self._n_threads).submaps(),)
        return known[0] if known else None

    @property
    def _may_be_sampled(self) -> bool:
        """Whether some samples are much fewer than all, and no files are read for them."""
        sights = [_sight(one.pointing, self.pixelization.n_side) for one in self.pointings]
        many = len(sights) > _POINTINGS or any(one is not None and one.n_samp > _SAMPLES for one in sights)
        return many and not any(hasattr(type(one), "is_read") for one in sights)

    @property
    def is_looked_for(self) -> bool:
        """Whether all samples are looked at: not where some tell that most of the sky is seen."""
        return self.may_be_few and not (self._may_be_sampled and self.submaps_about() is None)

    def _find(self, comm: Communicator) -> Submaps | None:
        if not self.is_looked_for:  # all samples see no less
            return None
        cells, radius = np.zeros(CELLS.n_pix, np.uint8), 0.0
        with agree_on_errors(comm):
            for pieces in self._own_pieces(comm):
                radius = max(radius, self._look_at(pieces, cells))
        radius = comm.max(radius)
        seen: BoolArray = comm.allreduce(cells, "max").astype(np.bool_)
        n_cells = CELLS.n_side
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
        """Mark the cells that detectors see; return how far others are from those looked at, radians."""
        given, chosen = self.pointings[pieces[0].number]
        pointing = _sight(given, self.pixelization.n_side)
        assert pointing is not None
        was_read, radius = getattr(pointing, "is_read", True), 0.0
        detectors = np.arange(pointing.n_det) if chosen is None else np.array(sorted(chosen))
        grid, shift = CELLS, 0
        if isinstance(pointing, CompressedPointing):
            detectors, radius = _middle_one(pointing, detectors)
        elif isinstance(pointing, RecordedPixels):  # the cells are parents of its pixels
            grid = Healpix(self.pixelization.n_side, nest=True)
            shift = 2 * ((grid.n_side // CELLS.n_side).bit_length() - 1)

        def mark(work: tuple[int, _Piece]) -> None:
            detector, piece = work
            pixels = np.empty(piece.stop - piece.start, np.int32)
            pointing.expand(grid, detector, piece.start, piece.stop, pixels, None)
            cells[pixels[pixels >= 0] >> shift] = 1  # attitudes that are not finite look nowhere

        map_threads(mark, [(one, piece) for one in detectors.tolist() for piece in pieces], self._n_threads)
        if isinstance(pointing, CompressedPointing) and not was_read:
            pointing.release()
        return radius


def _sight(pointing: Pointing, n_side: int) -> CompressedPointing | SampledPointing | RecordedPixels | None:
    """Return what tells where in a map of n_side detectors look; None of pointing that may not tell."""
    if isinstance(pointing, RecordedResponse):
        return pointing.sight
    if isinstance(pointing, RecordedPixels):
        grid, has_parents = pointing.pixelization, n_side & (n_side - 1) == 0
        return pointing if isinstance(grid, Healpix) and grid.n_side == n_side and has_parents else None
    return pointing if isinstance(pointing, CompressedPointing | SampledPointing) else None


def _middle_one(pointing: CompressedPointing, detectors: Int64Array) -> tuple[Int64Array, float]:
    """Return the detector in the middle of some (n,), and its distance from the farthest, radians."""
    sights = quaternion.rotate(pointing.detectors[detectors], np.array([0.0, 0.0, 1.0]))
    nearest = int((sights * sights.mean(axis=0)).sum(axis=1).argmax())
    radius = float(quaternion.angle_between(sights[nearest], sights).max())
    return detectors[nearest : nearest + 1], radius


def _some_of(one: DetectorPointing, n_side: int) -> DetectorPointing:
    """Return samples at equal distances, or detectors of which each looks by itself."""
    pointing, stride = _sight(one.pointing, n_side), -(-one.pointing.n_samp // _SAMPLES)
    if isinstance(pointing, CompressedPointing):
        return one if stride == 1 else DetectorPointing(pointing.decimated(stride), one.detectors)
    numbers = sorted(range(one.pointing.n_det) if one.detectors is None else one.detectors)
    return DetectorPointing(one.pointing, frozenset(numbers[:: -(-len(numbers) // _DETECTORS)]))
