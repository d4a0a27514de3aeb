"""Which pixels a scan sees and a map can be solved for, estimated before a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import Int32Array, UInt32Array
from petamap.data.observation import Observation, read_flags
from petamap.mapmaking import _mapmaking
from petamap.mapmaking.binning import triangle
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.protocol import Pointing
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes

_MOST_SAMPLES = 1 << 22
_MOST_STREAMS = 4096
_CHUNK = 1 << 16
_SCALE = 2.0**30  # of the integers that samples are summed as


@dataclass(frozen=True)
class Coverage:
    """Pixels that a scan sees, and those of them that can be solved for.

    Attributes
    ----------
    n_pix : int
        Pixels of the map.
    n_seen, n_solvable : int
        Pixels with good samples; those among them whose Stokes matrix is well conditioned.
    used : float
        Samples in solvable pixels over all samples looked at.
    n_looked_at, n_samp : int
        Samples from which this was found, and all samples: where the first are fewer, pixels may be seen that
        are not counted.
    """

    n_pix: int
    n_seen: int
    n_solvable: int
    used: float
    n_looked_at: int
    n_samp: int


def estimate_coverage(
    observations: Sequence[Observation],
    pixelization: Pixelization,
    stokes: Stokes,
    rcond_min: float,
    most_samples: int = _MOST_SAMPLES,
) -> Coverage:
    """Return the pixels that a scan sees and that can be solved for.

    Samples of many detectors and times are looked at, all of them where they are few. All have equal weights,
    whereas a run weighs them by their noise.

    Parameters
    ----------
    observations : sequence of Observation
        With pointing, in the frame of the map.
    pixelization : Pixelization
    stokes : Stokes
        Components solved for.
    rcond_min : float
        Smallest reciprocal condition of the Stokes matrix of a pixel that is solved for.
    most_samples : int
        Samples looked at, at most, but for one in each stretch of each detector.

    Returns
    -------
    Coverage
    """
    n_streams = sum(o.n_det for o in observations)
    n_samp = sum(o.n_samp * o.n_det for o in observations)
    every = max(1, math.ceil(n_streams / _MOST_STREAMS))  # detector of the streams of all observations
    stride = max(1, math.ceil(n_samp / every / most_samples))
    parts, first, looked_at = [], 0, 0
    for observation in observations:
        detectors = range(-first % every, observation.n_det, every)
        first += observation.n_det
        looked_at += -(-observation.n_samp // stride) * len(detectors)
        if len(detectors):
            parts += list(_good_samples(observation, detectors, pixelization, stride))
    keys = distinct(np.concatenate([np.zeros(0, np.int32), *(pixels for pixels, _, _ in parts)]))
    sums = np.zeros((len(keys), triangle(stokes.n)), np.int64)
    for pixels, angles, efficiency in parts:
        local = np.searchsorted(keys, pixels).astype(np.int32)
        given = angles if stokes.n > 1 else None
        _mapmaking.add_weights(local, given, None, efficiency, stokes.n, 1.0, _SCALE, False, sums)
    matrices, rcond = sums / _SCALE, np.zeros(len(keys))
    _mapmaking.invert(stokes.n, rcond_min, matrices, rcond, 1)
    good = (rcond >= rcond_min) & (rcond > 0)
    used = sum(int(good[np.searchsorted(keys, pixels)].sum()) for pixels, _, _ in parts)
    n_solvable = int(good.sum())
    return Coverage(pixelization.n_pix, len(keys), n_solvable, used / max(looked_at, 1), looked_at, n_samp)


def _good_samples(
    observation: Observation, detectors: Sequence[int], pixelization: Pixelization, stride: int
) -> Iterator[tuple[Int32Array, UInt32Array, float]]:
    """Yield pixels and response angles of every `stride`-th good sample, and the polarization efficiency."""
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
                    pixels, angles = pixels[::stride], angles[::stride]
                good = (pixels >= 0) & (read_flags(observation, detector, begin, end)[::stride] == 0)
                yield pixels[good], angles[good], pointing.efficiency(detector)


def _expand(
    pointing: Pointing, pixelization: Pixelization, detector: int, start: int, stop: int
) -> tuple[Int32Array, UInt32Array]:
    pixels, angles = np.empty(stop - start, np.int32), np.empty(stop - start, np.uint32)
    gains = np.empty(stop - start, np.float32) if pointing.has_gains else None
    pointing.expand(pixelization, detector, start, stop, pixels, angles, gains)
    return pixels, angles
