"""Demodulation of a rotating half-wave plate: streams of intensity and polarization of each detector.

A detector behind a plate at angle chi measures (Kusaka et al. 2014, Rev. Sci. Instrum. 85, 024501)

    d = I + e (Q cos phi + U sin phi) cos 4 chi + e (U cos phi - Q sin phi) sin 4 chi,

with phi its response angle at chi = 0. With a low-pass L of a bandwidth below the modulation, L d is I, and
L 2 d cos 4 chi and L 2 d sin 4 chi are streams of polarization of response (0, e cos phi, e sin phi) and
(0, -e sin phi, e cos phi). Noise of spectrum P around 4 f of the plate is P(4 f - f') + P(4 f + f') there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.name_patterns import choose_names
from petacomm.base.options import option
from petacomm.base.typing import FloatArray, UInt8Array
from petamap.data.checks import check_given, error_location
from petamap.data.derived_signal import DerivedSignal
from petamap.data.low_pass import LowPass, LowPassOptions, design_low_pass, low_pass_length
from petamap.data.node_reads import Read
from petamap.data.observation import AzimuthTrack, Flags, Noise, Observation, flag_reads
from petamap.data.sample_filter import EdgeFlags, FilteredFlags, SampleFilter, read_held, recorded_inputs
from petamap.data.source import SourceContext
from petamap.data.time_constants import check_no_templates
from petamap.noise.common_modes import CommonNoise
from petamap.noise.model import NoiseModel, TabulatedPsd, noise_key
from petamap.noise.toeplitz import sampled_psd
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import HalfWavePlate, UniformPlate, plate_angles

STREAMS = ("I", "4c", "4s")  # of a detector: intensity, and what is modulated by cos and sin of 4 chi
_STEADY = 0.1  # largest range of the plate's rate, relative to its mean
_PER_DECADE, _DECADES = 200, 8  # of the tables of spectra
_LEAST = 1 / 2  # of the noise, in its model: where less is left, there is no sky either


@dataclass(frozen=True)
class DemodulationOptions(LowPassOptions):
    """Turns observations with a rotating half-wave plate into streams of intensity and polarization."""

    observations: tuple[str, ...] = option((), help="names, patterns, beginnings of names; default: all")


@dataclass(frozen=True, eq=False)
class DemodulatedSignal(DerivedSignal):
    """Streams of a signal behind a rotating plate (implements `Signal`).

    Attributes
    ----------
    plate : UniformPlate or SampledPlate
    low_pass : SampleFilter
    n_samp : int
        Of `signal`.
    """

    plate: HalfWavePlate
    low_pass: SampleFilter
    n_samp: int

    def inputs(self, detector: int, start: int, stop: int) -> tuple[int, int, int]:
        """Return the detector and the samples of `signal` that samples [start, stop) of one are made of."""
        number = detector // len(STREAMS)
        return number, *recorded_inputs(self.low_pass, start, stop, self.n_samp)

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a stream to `out`, float64 (stop - start,)."""
        if stop <= start:
            return
        number, stream = divmod(detector, len(STREAMS))
        begin, end = self.low_pass.inputs(start, stop)
        values = read_held(self.signal, number, begin, end, self.n_samp)
        if stream:
            held = np.clip(np.arange(begin, end), 0, self.n_samp - 1)
            angles = 4 * plate_angles(self.plate, held)
            values *= 2 * (np.cos(angles) if stream == 1 else np.sin(angles))
        out += self.low_pass.apply(values, stop - start)


@dataclass(frozen=True, eq=False)
class StreamFlags:
    """Flags of each detector, for its streams (implements `Flags`).

    Attributes
    ----------
    flags : Flags
    stride : int
        Samples of the flags for each of the streams.
    """

    flags: Flags
    stride: int = 1

    def flag_reads(self, detector: int, start: int, stop: int) -> list[Read]:
        """Return what is read of files for samples [start, stop) of a stream."""
        end = max(start, stop - 1) * self.stride + 1
        return flag_reads([self.flags], detector // len(STREAMS), start * self.stride, end)

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out`, uint8 (stop - start,), to 1 for bad samples of [start, stop)."""
        n = (stop - start - 1) * self.stride + 1
        if n <= 0:
            return
        bad = np.zeros(n, np.uint8)
        self.flags.or_flags(detector // len(STREAMS), start * self.stride, start * self.stride + n, bad)
        out |= bad[:: self.stride]


@dataclass(frozen=True, eq=False)
class DecimatedAzimuth:
    """Azimuth of every `stride`-th sample (implements `AzimuthTrack`)."""

    track: AzimuthTrack
    stride: int

    def azimuths(self, start: int, stop: int) -> FloatArray:
        """Return the azimuth of samples [start, stop), (stop - start,), radians from north to east."""
        if stop <= start:
            return np.zeros(0)
        azimuths = self.track.azimuths(start * self.stride, (stop - 1) * self.stride + 1)
        return azimuths[:: self.stride]


@dataclass(frozen=True, eq=False)
class DemodulatedNoise:
    """Noise models of the streams (implements `Noise`).

    Attributes
    ----------
    noise : Noise
        Of the detectors.
    modulation : float
        4 f of the plate, Hz.
    sample_rate : float
        Of the detectors, Hz.
    low_pass : LowPass
    """

    noise: Noise
    modulation: float
    sample_rate: float
    low_pass: LowPass
    _known: dict[Any, NoiseModel] = field(default_factory=dict, repr=False)

    @property
    def same_in_intervals(self) -> bool:
        """Whether models are the same in all intervals."""
        return bool(getattr(self.noise, "same_in_intervals", False))

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the noise model of a stream in an interval."""
        number, stream = divmod(detector, len(STREAMS))
        return self.stream_model(self.noise.noise_model(number, interval), stream > 0)

    def stream_model(self, model: NoiseModel, modulated: bool) -> NoiseModel:
        """Return the model of streams of intensity, or of polarization, of a detector with a model."""
        key = noise_key(model), modulated
        if key not in self._known:
            self._known[key] = self._table(model, modulated)
        return self._known[key]

    def _table(self, model: NoiseModel, modulated: bool) -> TabulatedPsd:
        """Return the spectrum behind the low-pass, with what decimation folds into it."""
        rate = self.sample_rate / self.low_pass.filter.stride
        frequencies = rate / 2 * np.logspace(-_DECADES, 0, _PER_DECADE * _DECADES + 1)
        before = self._before(model, modulated, frequencies)
        total = np.zeros(len(frequencies))
        for turn in range(1 + math.ceil(self.low_pass.stop / rate)):
            for folded in (turn * rate + frequencies, turn * rate - frequencies)[: 2 if turn else 1]:
                inside = np.flatnonzero((folded <= self.low_pass.stop) & (folded <= self.sample_rate / 2))
                gain = np.abs(self.low_pass.filter.response(folded[inside] / self.sample_rate))
                total[inside] += gain**2 * self._before(model, modulated, folded[inside])
        return TabulatedPsd(frequencies, np.maximum(total, _LEAST * before))

    def _before(self, model: NoiseModel, modulated: bool, frequencies: FloatArray) -> FloatArray:
        """Return the spectrum before the low-pass."""
        if not modulated:
            return sampled_psd(model, frequencies, self.sample_rate)
        beside = [self._folded(self.modulation + sign * frequencies) for sign in (-1, 1)]
        below, above = (sampled_psd(model, one, self.sample_rate) for one in beside)
        return below + above

    def _folded(self, frequencies: FloatArray) -> FloatArray:
        """Return frequencies as samples show them, a little above 0."""
        turns = frequencies / self.sample_rate
        folded: FloatArray = np.maximum(np.abs(turns - np.round(turns)), 1e-9) * self.sample_rate
        return folded


class DemodulationSource:
    """Source of no data, which demodulates observations before it."""

    options: ClassVar[type] = DemodulationOptions
    changes_signals: ClassVar[bool] = True

    def __init__(self, options: DemodulationOptions, context: SourceContext) -> None:
        self._options, self._context = options, context

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with streams in the place of detectors.

        Raises
        ------
        ConfigError
            If there is no such observation, it has templates already, its plate does not turn or is not
            known, or the band and the rates do not go together.
        """
        check_given(observations, "demodulation", self._context.place("bandwidth"))
        names = choose_names(
            self._options.observations, (one.name for one in observations), "observation",
            where=self._context.place("observations"),
        )  # fmt: skip
        return [demodulated(one, self._options) if one.name in names else one for one in observations]


def demodulated(one: Observation, options: LowPassOptions) -> Observation:
    """Return an observation of the demodulated streams of another.

    Raises
    ------
    ConfigError
        See `DemodulationSource.extend`.
    """
    pointing, low_pass, modulation = _design(one, options)
    check_no_templates(one, "demodulation")
    stride, chosen = low_pass.filter.stride, low_pass.filter
    filters = [chosen] * one.n_det
    flags = tuple(
        StreamFlags(FilteredFlags(part, filters, one.n_samp))
        if options.dilate or getattr(part, "unsound", False)
        else StreamFlags(part, stride)
        for part in one.flags
    )
    noise = None if one.noise is None else DemodulatedNoise(one.noise, modulation, one.sample_rate, low_pass)
    intervals = tuple((-(-start // stride), -(-stop // stride)) for start, stop in one.intervals)
    assert pointing.plate is not None
    return dataclasses.replace(
        one,
        n_samp=-(-one.n_samp // stride),
        sample_rate=one.sample_rate / stride,
        detectors=tuple(f"{name}-{stream}" for name in one.detectors for stream in STREAMS),
        intervals=intervals,
        pointing=stream_pointing(pointing, stride),
        signals=tuple(DemodulatedSignal(s, pointing.plate, chosen, one.n_samp) for s in one.signals),
        flags=(*flags, StreamFlags(EdgeFlags(one.intervals, filters))),
        noise=noise,
        common_noise=tuple(
            part
            for shared in one.common_noise
            for part in _stream_modes(
                shared, DemodulatedNoise(_NO_NOISE, modulation, one.sample_rate, low_pass)
            )
        ),
        azimuth=None if one.azimuth is None else DecimatedAzimuth(one.azimuth, stride),
        meta={**one.meta, "low_pass": low_pass},
    )


def check_demodulation(one: Observation, options: LowPassOptions) -> None:
    """Check that an observation can be demodulated, without reading samples.

    Raises
    ------
    ConfigError
        See `DemodulationSource.extend`.
    """
    _design(one, options)


def low_pass_note(one: Observation) -> str:
    """Return a note of the low-pass of demodulated streams; empty for other observations."""
    found = one.meta.get("low_pass")
    return found.describe(one.sample_rate) if isinstance(found, LowPass) else ""


def stream_pointing(pointing: CompressedPointing, stride: int) -> CompressedPointing:
    """Return the pointing of the streams of all detectors, at every `stride`-th sample."""
    n, decimated = pointing.n_det, pointing.decimated(stride)
    return CompressedPointing(
        lambda: decimated.boresight,
        np.repeat(pointing.detectors, len(STREAMS), axis=0),
        epsilon=np.stack([np.ones(n), pointing.epsilon, pointing.epsilon], axis=1).ravel(),
        gamma=(pointing.gamma[:, None] - [0.0, 0.0, np.pi / 8]).ravel(),
        plate=UniformPlate(0.0, 0.0),
        n_samp=decimated.n_samp,
        intensity=np.tile([1.0, 0.0, 0.0], n),
    )


def plate_frequencies(one: Observation) -> tuple[float, float]:
    """Return the lowest and the highest frequency of the plate in the stationary intervals, Hz.

    Of recorded angles, each is that of a whole turn.

    Raises
    ------
    ConfigError
        If there is no plate, or it does not turn.
    """
    if "low_pass" in one.meta:
        raise ConfigError(
            "is demodulated already", where=error_location(one),
            mend="leave products.demodulated away, or the other source",
        )  # fmt: skip
    plate = one.pointing.plate if isinstance(one.pointing, CompressedPointing) else None
    if plate is None:
        raise ConfigError(
            "there is no half-wave plate to demodulate", where=error_location(one),
            mend="set the plate of the source, or choose other observations",
        )  # fmt: skip
    if isinstance(plate, UniformPlate):
        rates = np.array([plate.rate * one.sample_rate / (2 * np.pi)])
    else:
        rates = np.concatenate([_turn_rates(plate, one.sample_rate, *edges) for edges in one.intervals])
    if not len(rates) or not (np.all(rates > 0) or np.all(rates < 0)):
        raise ConfigError(
            "the half-wave plate does not turn in one direction", where=error_location(one),
            mend="solve for the map of it without demodulation",
        )  # fmt: skip
    return float(np.abs(rates).min()), float(np.abs(rates).max())


def _turn_rates(plate: HalfWavePlate, sample_rate: float, start: int, stop: int) -> FloatArray:
    """Return the frequency of each turn of a plate in an interval, Hz; none if there is no whole one."""
    if stop - start < 2:
        return np.zeros(0)
    turns = np.unwrap(plate_angles(plate, np.arange(start, stop))) / (2 * np.pi)
    n_turns = abs(turns[-1] - turns[0])
    if n_turns < 1:
        return np.zeros(0)
    step = max(1, round((stop - start - 1) / n_turns))
    return np.asarray((turns[step:] - turns[:-step]) * (sample_rate / step))


def _design(one: Observation, o: LowPassOptions) -> tuple[CompressedPointing, LowPass, float]:
    """Return the pointing of an observation, the low-pass for it, and the modulation, Hz."""
    low, high = plate_frequencies(one)
    where, rate, mean = error_location(one), one.sample_rate, (low + high) / 2
    if high - low > _STEADY * mean:
        raise ConfigError(
            f"the half-wave plate turns at {low:.4g} to {high:.4g} Hz: not steadily enough to demodulate",
            where=where, mend="let intervals have the times at which it is steady",
        )  # fmt: skip
    bandwidth = low / 2 if o.bandwidth is None else o.bandwidth
    stop = (low if bandwidth < 0.9 * low else 1.5 * bandwidth) if o.stop is None else o.stop
    if stop < 1.01 * bandwidth:
        raise ConfigError(
            f"stop {stop:.4g} Hz is not above the bandwidth {bandwidth:.4g} Hz", where=where,
            mend="give a stop above the bandwidth",
        )  # fmt: skip
    _check_images(bandwidth, stop, (low, high), rate, where)
    stride = _stride(o, bandwidth + stop, rate, where)
    n_taps = low_pass_length(bandwidth, stop, rate, o.attenuation)
    if all(end - begin < n_taps for begin, end in one.intervals):
        raise ConfigError(
            f"the low-pass has {n_taps} samples, no stationary interval has as many", where=where,
            mend="give a higher stop, or less attenuation",
        )  # fmt: skip
    assert isinstance(one.pointing, CompressedPointing)
    return one.pointing, design_low_pass(bandwidth, stop, rate, o.attenuation, stride), 4 * mean


def _check_images(bandwidth: float, stop: float, plate: tuple[float, float], rate: float, where: str) -> None:
    """Check that what is modulated stays apart from what is not, in samples of a rate."""
    for harmonic, what in ((4, "intensity"), (8, "twice the modulation")):
        for frequency in plate:
            turns = harmonic * frequency / rate
            image = abs(turns - round(turns)) * rate
            if image < stop + bandwidth:
                raise ConfigError(
                    f"with a half-wave plate of {frequency:.4g} Hz and samples at {rate:.4g} Hz, {what} is "
                    f"seen at {image:.4g} Hz in streams of polarization: less than the bandwidth "
                    f"{bandwidth:.4g} Hz and the stop {stop:.4g} Hz together",
                    where=where, mend="give a lower bandwidth",
                )  # fmt: skip


def _stride(o: LowPassOptions, needed: float, rate: float, where: str) -> int:
    """Return the samples that come in for each that comes out."""
    most = max(1, math.floor(rate / needed * (1 + 1e-9)))
    if o.downsample is not None and o.sample_rate is not None:
        raise ConfigError("downsample and sample_rate say the same", where=where, mend="give one of them")
    if o.sample_rate is None:
        stride = o.downsample or most
    else:
        stride = round(rate / o.sample_rate)
        if stride < 1 or abs(stride * o.sample_rate / rate - 1) > 1e-6:
            raise ConfigError(
                f"{o.sample_rate:.6g} Hz is no whole part of the {rate:.6g} Hz of the data", where=where,
                mend=f"as {rate / most:.6g} Hz is",
            )  # fmt: skip
    if stride > most:
        raise ConfigError(
            f"one of {stride} samples is too little for bandwidth and stop, {needed:.4g} Hz together",
            where=where, mend=f"keep one of {most} at most",
        )  # fmt: skip
    return stride


class _NoNoise:
    """Noise of no detector."""

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Raise an error: only models of common noise are asked for."""
        raise IndexError(detector)


_NO_NOISE = _NoNoise()


def _stream_modes(shared: CommonNoise, noise: DemodulatedNoise) -> list[CommonNoise]:
    """Return what the streams of each kind share of noise that detectors share."""
    modes = []
    for stream in range(len(STREAMS)):
        couplings = np.zeros((len(shared.couplings), len(STREAMS)))
        couplings[:, stream] = shared.couplings
        model = noise.stream_model(shared.model, stream > 0)
        modes.append(CommonNoise(couplings.ravel(), model, shared.interval))
    return modes
