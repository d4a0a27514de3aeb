"""Which pixels a scan sees and a map will have, estimated before a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import BoolArray, Int32Array, Int64Array, UInt32Array
from petamap.data.observation import Observation, read_flags
from petamap.mapmaking import _mapmaking
from petamap.mapmaking.binning import weights_row
from petamap.mapmaking.pixel_statistics import SINGULAR
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.protocol import Pointing
from petamap.sky.healpix import Healpix
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes

_MOST_SAMPLES = 1 << 25
_MOST_STREAMS = 256  # looked at, where there are more samples than that
_MOST_KNOTS = 1 << 22  # of the boresights of observations that are looked at, where there are more samples
_MOST_PIXELS, _FEWEST_PIXELS = 1 << 22, 1 << 13
_MERGED = 64  # pixels that are always made one where samples are few enough
_CHUNK = 1 << 16
_SCALE = 2.0**30  # of the integers that samples are summed as


@dataclass(frozen=True)
class Coverage:
    """Pixels that a scan sees, and those of them that a map has.

    Attributes
    ----------
    n_pix : int
        Pixels looked at: those of the map, or larger ones.
    n_seen, n_mapped : int
        Pixels with good samples; those among them whose Stokes matrix is well conditioned.
    used : float
        Samples in pixels of the map over all samples looked at.
    n_looked_at, n_samp : int
        Samples from which this was found, and all samples.
    merged : int
        Pixels of the map, with consecutive numbers, that make one pixel here: as many as there are samples
        for each that is looked at, but some thousand pixels are left.
    """

    n_pix: int
    n_seen: int
    n_mapped: int
    used: float
    n_looked_at: int
    n_samp: int
    merged: int

    @property
    def is_exact(self) -> bool:
        """Whether all samples were looked at, on the pixels of the map."""
        return self.n_looked_at == self.n_samp and self.merged == 1


def estimate_coverage(
    observations: Sequence[Observation],
    pixelization: Pixelization,
    stokes: Stokes,
    rcond_min: float,
    most_samples: int = _MOST_SAMPLES,
) -> Coverage:
    """Return the pixels that a scan sees, and those that a map has: others are cut.

    All samples are looked at where they are few, else some of many detectors and times, on larger pixels; of
    observations whose boresights have many knots, as sweeps by the thousand, some alone. All samples have
    equal weights, whereas a run weighs them by their noise.

    Parameters
    ----------
    observations : sequence of Observation
        With pointing, in the frame of the map.
    pixelization : Pixelization
    stokes : Stokes
        Components solved for.
    rcond_min : float
        Smallest reciprocal condition of the Stokes matrix of a pixel that is not cut.
    most_samples : int
        Samples looked at, at most, but for one in each stretch of each detector.

    Returns
    -------
    Coverage
    """
    n_samp = sum(o.n_samp * o.n_det for o in observations)
    if n_samp > most_samples:
        observations = _some_of(observations)
    n_left, n_streams = sum(o.n_samp * o.n_det for o in observations), sum(o.n_det for o in observations)
    every = max(1, n_streams // _MOST_STREAMS) if n_samp > most_samples else 1
    stride = max(1, math.ceil(n_left / every / most_samples))
    merged = _merged_pixels(pixelization, math.ceil(every * stride * n_samp / max(n_left, 1)))
    sums = np.zeros((-(-pixelization.n_pix // merged), weights_row(stokes.n)), np.int64)
    first, looked_at = 0, 0
    for observation in observations:
        detectors = range(-first % every, observation.n_det, every)
        first += observation.n_det
        looked_at += -(-observation.n_samp // stride) * len(detectors)
        for pixels, angles, response in _samples(observation, detectors, pixelization, stride):
            pixels //= merged
            given = angles if stokes.n > 1 else None
            _mapmaking.add_weights(pixels, given, None, *response, stokes.n, 1.0, _SCALE, sums)
    hits, good = sums[:, 0], solvable(sums, _SCALE, stokes, rcond_min)
    used = int(hits[good].sum()) / max(looked_at, 1)
    return Coverage(len(hits), int((hits > 0).sum()), int(good.sum()), used, looked_at, n_samp, merged)


def _some_of(observations: Sequence[Observation]) -> Sequence[Observation]:
    """Return observations that have few enough knots together, evenly distributed among all."""
    knots = sum(o.n_samp / _knot_spacing(o) for o in observations)
    n = min(_MOST_STREAMS, len(observations))  # of more, each would have no detector that is looked at
    most = math.ceil(_MOST_KNOTS * len(observations) / knots) if knots else n
    if n <= most:
        return observations
    return [observations[(2 * k + 1) * len(observations) // (2 * most)] for k in range(most)]


def _knot_spacing(observation: Observation) -> float:
    """Return the smallest distance of knots of a simulated boresight, samples; infinite where not known."""
    spacing: tuple[float, float] = observation.meta.get("knot_spacing", (math.inf, math.inf))  # type: ignore[assignment]
    return spacing[0]


def solvable(sums: Int64Array, scale: float, stokes: Stokes, rcond_min: float) -> BoolArray:
    """Return which pixels can be solved for, by their hits and weights.

    Parameters
    ----------
    sums : int64 (n, row)
        As `_mapmaking.add_weights` adds them up, of samples that weigh the same.
    scale : float
        Of the integers.
    stokes : Stokes
    rcond_min : float
    """
    matrices, rcond, least = sums[:, 1:] / scale, np.zeros(len(sums)), max(rcond_min, SINGULAR)
    _mapmaking.invert(stokes.n, least, matrices, rcond, 1)
    return np.asarray(rcond >= least)


def _merged_pixels(pixelization: Pixelization, ratio: int) -> int:
    """Return the number of pixels that are merged for one of `ratio` samples; a power of 4 of nested ones."""
    # of larger pixels than needed, edges would be too much of small fields
    most = max(_MERGED, pixelization.n_pix // _FEWEST_PIXELS)
    wanted = max(min(ratio, most), math.ceil(pixelization.n_pix / _MOST_PIXELS))
    if not isinstance(pixelization, Healpix):
        return wanted
    merged: int = 4 ** math.ceil(math.log(wanted, 4) - 1e-9)
    return min(merged, pixelization.n_side**2)


def _samples(
    observation: Observation, detectors: Sequence[int], pixelization: Pixelization, stride: int
) -> Iterator[tuple[Int32Array, UInt32Array, tuple[float, float]]]:
    """Yield pixels and response angles of every `stride`-th sample, with intensity and efficiency.

    Bad samples have pixel -1.
    """
    pointing = observation.pointing
    assert pointing is not None
    sparse = pointing.decimated(stride) if isinstance(pointing, CompressedPointing) else None
    for detector in detectors:
        for start, stop in observation.intervals:
            for begin in range(start + -start % stride, stop, _CHUNK * stride):
                end = min(begin + _CHUNK * stride, stop)
                if sparse is not None:
                    first = begin // stride
                    last = first - (begin - end) // stride
                    pixels, angles = _expand(sparse, pixelization, detector, first, last)
                else:
                    pixels, angles = _expand(pointing, pixelization, detector, begin, end)
                    pixels, angles = pixels[::stride].copy(), angles[::stride].copy()
                pixels[read_flags(observation, detector, begin, end)[::stride] != 0] = -1
                yield pixels, angles, (pointing.intensity(detector), pointing.efficiency(detector))


def _expand(
    pointing: Pointing, pixelization: Pixelization, detector: int, start: int, stop: int
) -> tuple[Int32Array, UInt32Array]:
    pixels, angles = np.empty(stop - start, np.int32), np.empty(stop - start, np.uint32)
    gains = np.empty(stop - start, np.float32) if pointing.has_gains else None
    pointing.expand(pixelization, detector, start, stop, pixels, angles, gains)
    return pixels, angles
