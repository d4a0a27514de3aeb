"""Faults of the signal that are told but stop no run: dead channels, and steps of the level.

Both are looked for in the samples that the pass of the right-hand sides reads, block by block; steps in means
over chunks of 32 samples. A step is a difference of means across a chunk that is ten times the typical one of
the block, and lasts. What the binned map explains is sky and no fault: edges of sources or of pixels, or a
detector that sees nothing in a simulation without noise. So a fault is told only if it is there in the data
minus the scanned binned map as well.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array
from petacomm.reduction import OwnedRows
from petamap.data.checks import SignalStep, fault_warnings
from petamap.data.observation import Observation
from petamap.glitches.found import StepOffsets
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.sample_pointing import SamplePointing

_CHUNK = _mapmaking.LEVEL_CHUNK  # samples
_BESIDE = 8  # chunks on either side of a step over which its level lasts
_FEWEST = 3  # of them, near the ends of a block
_TIMES = 10.0  # the typical difference across a chunk
_NORMAL_MEDIAN = 0.6745  # of |x| of a normal variable of deviation 1
_MOST = 1000  # windows that a rank keeps for the second look
_ROUNDING = 1e-6  # of a constant, relative difference from the binned map

Detector = tuple[int, int]  # observation and detector


@dataclass(frozen=True)
class _Window:
    """Samples around a possible fault, from sample `start` on: data, and pointing without gaps."""

    who: Detector
    unit: float
    start: int
    chunk: int
    data: FloatArray
    pointing: SamplePointing

    def residual(self, sky: FloatArray) -> FloatArray:
        """Return the data minus the map, of which `sky` holds the local pixels."""
        scanned, pointing = np.empty(len(self.data)), self.pointing
        _mapmaking.scan(
            pointing.pixels,
            pointing.angles,
            pointing.gains,
            pointing.intensity,
            pointing.efficiency,
            sky,
            np.zeros(1),
            scanned,
        )
        return self.data - scanned


class SignalFaults:
    """Dead channels and steps of the signal of a run, found while its samples are read.

    Steps within three chunks of the ends of a block's inputs are missed: some, where `n_lag` is below 96.

    Parameters
    ----------
    projection : Projection
        Of the samples that are read.
    """

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._lock = threading.Lock()
        self._steps: list[_Window] = []
        self._constant: dict[Detector, _Window] = {}
        self._varying: set[Detector] = set()

    def inspect(self, block: Int64Array, data: FloatArray, samples: SamplePointing) -> None:
        """Look at the inputs of a block, (n_in,), in which gaps are zero. Several threads may call it."""
        begin, end = int(block[2]), int(block[2] + block[3])
        self._inspect_constant(block, data, samples, begin, end)
        for chunk in _steps(data, samples.pixels):
            # Each sample is an output of one block, and an input of others.
            if begin <= (chunk + 0.5) * _CHUNK < end and len(self._steps) < _MOST:
                first = max(chunk - _BESIDE, 0)
                self._steps.append(self._window(block, data, samples, first, chunk))

    def _inspect_constant(
        self, block: Int64Array, data: FloatArray, samples: SamplePointing, begin: int, end: int
    ) -> None:
        segment = self._projection.local.segments[int(block[5])]
        stream = self._projection.layout.streams[segment.stream]
        who = stream.observation, stream.detector
        if who in self._varying:
            return
        good = samples.pixels[begin:end] >= 0
        values = data[begin:end][good]
        with self._lock:
            if (values != values[:1]).any():
                self._varying.add(who)
            if who in self._varying or len(values) < _CHUNK:
                return
            first = (begin + int(good.argmax())) // _CHUNK
            window = self._window(block, data, samples, first, first)
            earlier = self._constant.setdefault(who, window)
            if _value(earlier) != values[0] * window.unit:
                self._varying.add(who)

    def _window(
        self, block: Int64Array, data: FloatArray, samples: SamplePointing, first: int, chunk: int
    ) -> _Window:
        """Return the window from chunk `first` to those beside `chunk`."""
        projection = self._projection
        segment = projection.local.segments[int(block[5])]
        stream = projection.layout.streams[segment.stream]
        begin, end = first * _CHUNK, (chunk + _BESIDE + 1) * _CHUNK
        part = samples.slice(begin, end)
        angles = None if part.angles is None else part.angles.copy()
        gains = None if part.gains is None else part.gains.copy()
        return _Window(
            (stream.observation, stream.detector),
            float(projection.units[int(block[5])]),
            int(block[0]) + segment.start - segment.offset + begin,
            chunk - first,
            data[begin:end].copy(),
            SamplePointing(np.maximum(part.pixels, -1), angles, gains, part.intensity, part.efficiency),
        )

    def localize(self, table: Int32Array) -> None:
        """Replace pixels by their local numbers, of a table; those that it says are negative are gaps."""
        for window in (*self._steps, *self._constant.values()):
            _mapmaking.renumber(table, window.pointing.pixels)

    def warnings(self, pixels: OwnedRows, binned: FloatArray) -> list[str]:
        """Return warnings of what the binned map, (n_owned, n_stokes), does not explain. Collective."""
        comm = pixels.comm
        constant = {who: window for who, window in self._constant.items() if who not in self._varying}
        if comm.max(float(len(constant) + len(self._steps))) == 0:
            return []
        sky = pixels.scatter_fwd(binned)
        steps = [step for window in self._steps if (step := _step(window, sky)) is not None]
        found = [(who, _value(window), _differs(window, sky)) for who, window in constant.items()]
        everywhere = [one for part in comm.allgather(found) for one in part]
        values: dict[Detector, set[float]] = {}
        for who, value, _ in everywhere:
            values.setdefault(who, set()).add(value)
        # Another rank may have seen the same detector vary.
        varying = set().union(*comm.allgather({who for who in values if who in self._varying}))
        dead = {who for who, _, differs in everywhere if differs and len(values[who]) == 1} - varying
        every_step = {step for part in comm.allgather(steps) for step in part}
        observations = self._projection.observations
        unsolved = [step for step in sorted(every_step) if not _solved_for(step, observations)]
        return fault_warnings(observations, sorted(dead), unsolved)


def _steps(data: FloatArray, pixels: Int32Array) -> list[int]:
    """Return the chunks in which the level steps, by their means; samples in gaps (pixels < 0) are zero."""
    if len(data) < (2 * _FEWEST + 3) * _CHUNK:
        return []
    chunks = _mapmaking.level_steps(data, pixels, _TIMES / _NORMAL_MEDIAN, 2 * _FEWEST)
    if not chunks:
        return []
    means, valid = _means(data, pixels)
    return [
        chunk for chunk in chunks if _lasts(_levels(means, valid, chunk), means[chunk + 1] - means[chunk - 1])
    ]


def _means(data: FloatArray, pixels: Int32Array) -> tuple[FloatArray, BoolArray]:
    """Return the means of chunks, and whether half of their samples are good."""
    n = len(data) // _CHUNK
    means, valid = np.empty(n), np.empty(n, np.uint8)
    _mapmaking.chunk_means(data, pixels, means, valid)
    return means, valid.view(np.bool_)


def _levels(means: FloatArray, valid: BoolArray, chunk: int) -> tuple[float, float] | None:
    """Return the medians of the means before and after a chunk; None if they are too few."""
    medians = []
    for part in (slice(max(chunk - _BESIDE, 0), chunk), slice(chunk + 1, chunk + 1 + _BESIDE)):
        kept = means[part][valid[part]]
        if len(kept) < _FEWEST:
            return None
        medians.append(float(np.median(kept)))
    return medians[0], medians[1]


def _lasts(levels: tuple[float, float] | None, across: float) -> bool:
    return levels is not None and abs(levels[1] - levels[0]) > abs(across) / 2


def _step(window: _Window, sky: FloatArray) -> SignalStep | None:
    """Return the step in a window, if it is there without the sky as well."""
    pixels, chunk = window.pointing.pixels, window.chunk
    good = pixels >= 0
    residual = np.where(good, window.residual(sky), 0.0)
    with_sky, _ = _means(window.data, pixels)
    means, valid = _means(residual, pixels)
    across, before = (values[chunk + 1] - values[chunk - 1] for values in (means, with_sky))
    levels = _levels(means, valid, chunk)
    if levels is None or across * before < before**2 / 2 or not _lasts(levels, across):
        return None
    change = levels[1] - levels[0]
    first = (chunk - 1) * _CHUNK
    place = first + np.flatnonzero(good[first : first + 3 * _CHUNK])
    # Each sample counts for the level that it is nearer to: glitches do not move the step.
    nearer_to_new = np.sign((residual[place] - (levels[0] + levels[1]) / 2) * change)
    new_level = int(place[min(int(np.cumsum(nearer_to_new).argmin()) + 1, len(place) - 1)])
    return SignalStep(*window.who, window.start + new_level, change * window.unit)


def _solved_for(step: SignalStep, observations: Sequence[Observation]) -> bool:
    """Return whether a template has a step of the detector within two chunks of it."""
    return any(
        one.detector == step.detector and np.abs(one.steps - step.sample).min() < 2 * _CHUNK
        for one in observations[step.observation].templates
        if isinstance(one, StepOffsets)
    )


def _value(window: _Window) -> float:
    """Return the value of a constant signal."""
    good = window.pointing.pixels >= 0
    return float(window.data[int(good.argmax())]) * window.unit


def _differs(window: _Window, sky: FloatArray) -> bool:
    """Return whether a constant is something else than what the map shows there."""
    good = window.pointing.pixels >= 0
    residual = np.abs(window.residual(sky)[good])
    largest = float(np.abs(window.data[good]).max(initial=0.0))
    return bool(residual.max(initial=0.0) > _ROUNDING * largest)
