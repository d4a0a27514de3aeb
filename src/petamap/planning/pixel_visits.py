"""Visits of pixels by a scan, of which the model of two levels has one entry each."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import Int32Array
from petamap.planning.scanned_run import ScannedRun

# Streams that are looked at, evenly of all, and samples of each, from its middle.
_N_STREAMS, _N_SAMPLES = 8, 1 << 14


def visits_a_sample(run: ScannedRun) -> float:
    """Return the visits of pixels for each sample that is used, of some streams, which stand for all.

    Consecutive samples of a stream in one pixel are one visit.

    Parameters
    ----------
    run : ScannedRun
    """
    every = run.layout.streams
    streams = np.unique(np.linspace(0, len(every) - 1, _N_STREAMS).round().astype(np.int64))
    columns = every.columns(streams)
    ends = columns.start + every.margin, columns.stop - every.margin
    n_visits = n_used = 0
    for number, detector, start, stop in np.stack([columns.observation, columns.detector, *ends], 1).tolist():
        first = max(start, (start + stop - _N_SAMPLES) // 2)
        pixels = _used_pixels(run, number, detector, first, min(first + _N_SAMPLES, stop))
        n_used += len(pixels)
        n_visits += int(np.count_nonzero(np.diff(pixels, prepend=-1)))
    return n_visits / n_used if n_used else 1.0


def _used_pixels(run: ScannedRun, number: int, detector: int, start: int, stop: int) -> Int32Array:
    """Return the pixels of samples that are not flagged, nor outside the map."""
    observation = run.observations[number]
    pixels, flags = np.empty(stop - start, np.int32), np.zeros(stop - start, np.uint8)
    if observation.pointing is None:
        return pixels[:0]
    observation.pointing.expand(run.pixelization, detector, start, stop, pixels, None)
    for source in observation.flags:
        source.or_flags(detector, start, stop, flags)
    used: Int32Array = pixels[(flags == 0) & (pixels >= 0)]
    return used
