"""Streams of what maps leave of the data that they were made of, and the spectra of these."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import BoolArray, FloatArray
from petamap.data.observation import Observation, noise_in_common
from petamap.mapmaking.noise_kernels import ModelOf
from petamap.mapmaking.right_hand_side import Dataset
from petamap.mapmaking.stream_table import TimeStream
from petamap.mapmaking.system import MapmakingSystem
from petamap.mapmaking.unmeasured_noise import StreamKey
from petamap.mapmaking.vectors import Unknowns
from petamap.noise.model import EstimatedPsd, InverseLags, NoiseModel
from petamap.noise.psd import noise_psd
from petamap.noise.spectrum_estimate import estimate_psd, segments_of


class DrawnStreams:
    """The simulated streams that were read last: they are drawn whole, and read in blocks.

    Parameters
    ----------
    most : int
        Streams that are held. Several threads may ask for them.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._streams: OrderedDict[Hashable, FloatArray] = OrderedDict()

    def get(self, key: Hashable, draw: Callable[[], FloatArray]) -> FloatArray:
        """Return the stream of a key, drawn if it is not held."""
        with self._lock:
            if key in self._streams:
                self._streams.move_to_end(key)
                return self._streams[key]
        drawn = draw()
        with self._lock:
            self._streams[key] = drawn
            while len(self._streams) > self._most:
                self._streams.popitem(last=False)
        return drawn


class ReferenceNoise:
    """Noise of known spectra in whole streams, random numbers that no source draws (implements `Signal`).

    Unlike `petamap.simulation.noise.SimulatedNoise` it makes a stream at once, by a transform of twice its
    length: quick where every stream has a spectrum of its own and is read whole.

    Parameters
    ----------
    observation : Observation
        Its detectors share its common noise.
    model_of : ModelOf
        Gives tables.
    number : int
        Of the simulation.
    drawn : DrawnStreams
        Those of all simulations and observations.
    """

    def __init__(self, observation: Observation, model_of: ModelOf, number: int, drawn: DrawnStreams) -> None:
        self._observation, self._model_of, self._number, self._drawn = observation, model_of, number, drawn

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add the noise of samples [start, stop) of a detector to `out`, float64 (stop - start,), K."""
        for interval, (first, last) in enumerate(self._observation.intervals):
            begin, end = max(start, first), min(stop, last)
            if begin < end:
                part, own = slice(begin - start, end - start), slice(begin - first, end - first)
                model = self._model_of(self._observation, detector, interval)
                out[part] += self._stream(model, detector, interval)[own]
                for mode, shared in enumerate(noise_in_common(self._observation, interval)):
                    common = self._stream(shared.model, self._observation.n_det + mode, interval)
                    out[part] += shared.couplings[detector] * common[own]

    def _stream(self, model: NoiseModel, stream: int, interval: int) -> FloatArray:
        key = self._observation.uid, self._number, stream, interval
        return self._drawn.get(key, lambda: self._draw(model, stream, interval))

    def _draw(self, model: NoiseModel, stream: int, interval: int) -> FloatArray:
        from scipy.fft import irfft, next_fast_len, rfftfreq

        from petamap.simulation.random_keys import Purpose, gaussians, random_stream

        one = self._observation
        start, stop = one.intervals[interval]
        n = next_fast_len(2 * (stop - start), real=True)
        words = random_stream(Purpose.REFERENCE_NOISE, 0, self._number, one.uid, stream, interval)
        assert not isinstance(model, InverseLags)
        power = noise_psd(model, rfftfreq(n, 1 / one.sample_rate))
        # Each line of a real transform has the variance n rate P / 4 in both of its parts.
        lines = gaussians(words, 2 * len(power)).view(np.complex128)
        power *= n * one.sample_rate / 4
        lines *= np.sqrt(power, out=power)
        return irfft(lines, n, overwrite_x=True)[: stop - start].copy()


@dataclass(frozen=True)
class ResidualStreams:
    """Data and simulations, less the maps made of them.

    Attributes
    ----------
    system : MapmakingSystem
        Whose streams are whole on a rank.
    observations : sequence of Observation
    maps : sequence of Unknowns
        On this rank's rows: of the data, then of each simulation.
    simulations : sequence of sequence of ReferenceNoise
        Of each observation; empty if there is only the map of the data.
    """

    system: MapmakingSystem
    observations: Sequence[Observation]
    maps: Sequence[Unknowns]
    simulations: Sequence[Sequence[ReferenceNoise]] = ()

    def stream(self, number: int) -> TimeStream:
        """Return the stream of a segment of this rank."""
        return self.system.layout.streams[self.system.projection.local.segments[number].stream]

    def key(self, number: int) -> StreamKey:
        """Return observation, detector and interval of a segment."""
        stream = self.stream(number)
        return stream.observation, stream.detector, stream.interval

    def where(self, number: int) -> str:
        """Return observation, detector and interval of a segment, for messages."""
        stream = self.stream(number)
        one = self.observations[stream.observation]
        name = one.detectors[stream.detector]
        return f"observation {one.name}, detector {name}, interval {stream.interval}"

    def rate(self, number: int) -> float:
        """Return the sample rate of a segment, Hz."""
        return self.observations[self.stream(number).observation].sample_rate

    def of_data(self) -> ResidualStreams:
        """Return the streams of the data alone."""
        return replace(self, maps=self.maps[:1], simulations=())

    def residuals(self, number: int) -> tuple[FloatArray, BoolArray]:
        """Return what maps and templates leave of a segment, and a mask of good samples.

        float64 (n_maps, n_samp) in K, bool (n_samp,): without the margins.
        """
        projection = self.system.projection
        parts: list[FloatArray] = []
        masks: list[BoolArray] = []
        for block in np.flatnonzero(projection.local.blocks[:, 5] == number).tolist():
            residual, good = self._block(block)
            parts.append(residual * projection.units[number])
            masks.append(good)
        stream = self.stream(number)
        recorded = slice(stream.margin, stream.stop - stream.start - stream.margin)
        return np.concatenate(parts, axis=1)[:, recorded], np.concatenate(masks)[recorded]

    def _block(self, number: int) -> tuple[FloatArray, BoolArray]:
        projection = self.system.projection
        block = projection.local.blocks[number]
        n_in, n_left, n_out = (int(value) for value in block[1:4])
        inputs = projection.inputs(number)
        data, scanned = np.empty((len(self.maps), n_in)), np.empty(n_out)
        projection.read(block, inputs.pixels, data, self.datasets() if self.simulations else None)
        samples = inputs.slice(n_left, n_left + n_out)
        good = samples.pixels >= 0
        pixels = np.maximum(samples.pixels, -1)  # gaps are left out, whatever their numbers
        residual = data[:, n_left : n_left + n_out]
        for row, one in zip(residual, self.maps, strict=True):
            _mapmaking.scan(
                pixels,
                samples.angles,
                samples.gains,
                samples.intensity,
                samples.efficiency,
                one.pixels,
                np.zeros(1),
                scanned,
            )
            if projection.amplitudes:
                amplitudes = np.ascontiguousarray(one.gaps[:, 0])
                _mapmaking.scan_templates(
                    projection.amplitudes.table, block, inputs.pixels, amplitudes, n_left, scanned
                )
            row -= scanned
        return residual, good

    def datasets(self) -> list[Dataset]:
        """Return what the maps are made of: the data, and each simulation."""
        return datasets_of(self.observations, self.simulations)

    def simulated(self, number: int) -> FloatArray:
        """Return all recorded samples of the simulations of a segment, without gaps, float64 (n, n_samp)."""
        stream = self.stream(number)
        start, stop = stream.recorded_range(stream.start, stream.stop)
        noises = self.simulations[stream.observation] if self.simulations else ()
        out = np.zeros((len(noises), stop - start))
        for noise, row in zip(noises, out, strict=True):
            noise.add_signal(stream.detector, start, stop, row)
        return out


def datasets_of(
    observations: Sequence[Observation], simulations: Sequence[Sequence[ReferenceNoise]]
) -> list[Dataset]:
    """Return the data of observations, and each simulation of their noise."""
    data: Dataset = [one.signals for one in observations]
    return [data, *([(noise,) for noise in noises] for noises in zip(*simulations, strict=True))]


def residual_psd(
    residuals: FloatArray, simulated: FloatArray, good: BoolArray, sample_rate: float, where: str
) -> EstimatedPsd:
    """Return the PSD of a stream, with what map, gaps and window take from it put back.

    Parameters
    ----------
    residuals : float64 (1 + n, n_samp)
        Of the data and of n simulations, K.
    simulated : float64 (n, n_samp)
        The simulations, K; with none, nothing is put back.
    good : bool (n_samp,)
    sample_rate : float
        Hz.
    where : str
        For messages.

    Raises
    ------
    DataError
        If there are too few good samples.
    """
    if not len(simulated):
        return estimate_psd(residuals[0], good, sample_rate, where=where)
    segments = segments_of(residuals[0], good, sample_rate, where=where)
    everywhere = np.ones(len(good), np.bool_)
    left = np.sum([segments.power(residual, good) for residual in residuals[1:]], axis=0)
    whole = np.sum([segments.power(noise, everywhere) for noise in simulated], axis=0)
    power = segments.power(residuals[0], good) * (whole / left)
    return EstimatedPsd(segments.frequencies, power / segments.window_response(power), segments.scatter)
