"""Linear filters of streams, applied as they are read: signals, flags and noise of what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from petacomm.base.typing import FloatArray, UInt8Array
from petamap.data.derived_signal import DerivedSignal
from petamap.data.node_reads import Read
from petamap.data.observation import Flags, Noise, Signal, flag_reads
from petamap.noise.model import NoiseModel, TabulatedPsd, noise_key
from petamap.noise.toeplitz import sampled_psd

# The table of the spectrum of what comes out: 2 10^-5 from the spectrum between its frequencies.
_PER_DECADE, _DECADES = 200, 8
_CHUNK = 1 << 14  # samples that come out
_FREQUENCIES = 64  # at which a transfer function is computed at once


@dataclass(frozen=True, eq=False)
class SampleFilter:
    """Filter of finite length: x_t = sum_j taps[j] y_(t stride - first - j).

    Attributes
    ----------
    taps : float64 (n,)
    first : int
        Lag of the first tap; negative where later samples are needed.
    stride : int
        Samples that come in for each that comes out.
    """

    taps: FloatArray
    first: int = 0
    stride: int = 1

    @property
    def last(self) -> int:
        """Lag of the last tap."""
        return self.first + len(self.taps) - 1

    def inputs(self, start: int, stop: int) -> tuple[int, int]:
        """Return the range of samples that samples [start, stop) are made of; it may exceed the data."""
        return start * self.stride - self.last, (stop - 1) * self.stride - self.first + 1

    def apply(self, values: FloatArray, n: int) -> FloatArray:
        """Return n samples made of the `inputs` of them; the bits of each depend on its own inputs alone."""
        out, end = np.zeros(n), len(self.taps) - 1
        for begin in range(0, n, _CHUNK):
            part = out[begin : begin + _CHUNK]
            reach = (len(part) - 1) * self.stride + 1
            at = begin * self.stride + end
            for lag, tap in enumerate(self.taps.tolist()):
                part += tap * values[at - lag : at - lag + reach : self.stride]
        return out

    def response(self, frequencies: FloatArray) -> Any:
        """Return the transfer function at frequencies in cycles a sample that comes in, complex128 (n,)."""
        lags, parts = self.first + np.arange(len(self.taps)), []
        for begin in range(0, len(frequencies), _FREQUENCIES):
            turns = np.outer(frequencies[begin : begin + _FREQUENCIES], lags)
            parts.append(np.einsum("ft,t->f", np.exp(-2j * np.pi * turns), self.taps))
        return np.concatenate(parts) if parts else np.zeros(0, np.complex128)


Filters = Sequence[SampleFilter | None]  # of each detector; None: its stream is left as it is


@dataclass(frozen=True, eq=False)
class FilteredSignal(DerivedSignal):
    """Signal behind a filter (implements `Signal`); before the first sample and after the last, it is held.

    Attributes
    ----------
    filters : sequence of SampleFilter or None
        Of each detector, with stride 1.
    n_samp : int
        Of `signal`.
    """

    filters: Filters
    n_samp: int

    def inputs(self, detector: int, start: int, stop: int) -> tuple[int, int, int]:
        """Return the detector and the samples of `signal` that samples [start, stop) of one are made of."""
        return detector, *recorded_inputs(self.filters[detector], start, stop, self.n_samp)

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,)."""
        chosen = self.filters[detector]
        if chosen is None or stop <= start:
            self.signal.add_signal(detector, start, stop, out)
            return
        out += chosen.apply(
            read_held(self.signal, detector, *chosen.inputs(start, stop), self.n_samp), stop - start
        )


def recorded_inputs(chosen: SampleFilter | None, start: int, stop: int, n_samp: int) -> tuple[int, int]:
    """Return the range of recorded samples that a filter takes for samples [start, stop)."""
    begin, end = (start, stop) if chosen is None else chosen.inputs(start, stop)
    return max(0, min(begin, n_samp - 1)), min(n_samp, max(end, 1))


def read_held(signal: Signal, detector: int, start: int, stop: int, n_samp: int) -> FloatArray:
    """Return samples [start, stop) of a signal, the first and last of its samples beyond them."""
    begin, end = max(0, min(start, n_samp - 1)), min(n_samp, max(stop, 1))
    values = np.zeros(end - begin)
    signal.add_signal(detector, begin, end, values)
    return np.pad(values, (begin - start, stop - end), mode="edge")


@dataclass(frozen=True, eq=False)
class FilteredFlags:
    """Flags of the samples that bad ones were used for (implements `Flags`).

    Attributes
    ----------
    flags : Flags
        Of `n_samp` samples.
    filters : sequence of SampleFilter or None
        Of each detector.
    n_samp : int
    """

    flags: Flags
    filters: Filters
    n_samp: int

    def flag_reads(self, detector: int, start: int, stop: int) -> list[Read]:
        """Return what is read of files for samples [start, stop) of a detector."""
        begin, end = recorded_inputs(self.filters[detector], start, stop, self.n_samp)
        return flag_reads([self.flags], detector, begin, end)

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out`, uint8 (stop - start,), to 1 for bad samples of [start, stop)."""
        chosen = self.filters[detector]
        if chosen is None or stop <= start:
            self.flags.or_flags(detector, start, stop, out)
            return
        first, last = chosen.inputs(start, stop)
        begin, end = max(first, 0), min(last, self.n_samp)
        bad = np.zeros(end - begin, np.uint8)
        self.flags.or_flags(detector, begin, end, bad)
        counts = np.concatenate([np.zeros(begin - first + 1, np.int64), np.cumsum(bad != 0)])
        counts = np.pad(counts, (0, last - end), mode="edge")
        length = len(chosen.taps)
        out |= (counts[length :: chosen.stride] > counts[: -length : chosen.stride]).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class EdgeFlags:
    """Flags of samples that are made of some outside their stationary interval (implements `Flags`).

    Attributes
    ----------
    intervals : sequence of (int, int)
        Of the samples that come in.
    filters : sequence of SampleFilter or None
        Of each detector.
    """

    intervals: Sequence[tuple[int, int]]
    filters: Filters

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out`, uint8 (stop - start,), to 1 for bad samples of [start, stop)."""
        chosen = self.filters[detector]
        if chosen is None:
            return
        samples = np.arange(start, stop) * chosen.stride
        for begin, end in self.intervals:
            inside = (samples >= begin) & (samples < end)
            whole = (samples - chosen.last >= begin) & (samples - chosen.first < end)
            out[inside & ~whole] = 1


@dataclass(frozen=True, eq=False)
class FilteredNoise:
    """Noise behind filters (implements `Noise`): P |H|^2, as a table.

    Attributes
    ----------
    noise : Noise
    filters : sequence of SampleFilter or None
        Of each detector, with stride 1.
    sample_rate : float
        Hz.
    """

    noise: Noise
    filters: Filters
    sample_rate: float
    _known: dict[Any, NoiseModel] = field(default_factory=dict, repr=False)

    @property
    def same_in_intervals(self) -> bool:
        """Whether models are the same in all intervals."""
        return bool(getattr(self.noise, "same_in_intervals", False))

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the noise model of a detector in an interval."""
        model, chosen = self.noise.noise_model(detector, interval), self.filters[detector]
        if chosen is None:
            return model
        key = noise_key(model), chosen.first, chosen.taps.tobytes()
        if key not in self._known:
            self._known[key] = filtered_model(model, chosen, self.sample_rate)
        return self._known[key]


def filtered_model(model: NoiseModel, chosen: SampleFilter, sample_rate: float) -> TabulatedPsd:
    """Return the noise model of what comes out of a filter of stride 1."""
    frequencies = sample_rate / 2 * np.logspace(-_DECADES, 0, _PER_DECADE * _DECADES + 1)
    power = np.abs(chosen.response(frequencies / sample_rate)) ** 2
    return TabulatedPsd(frequencies, sampled_psd(model, frequencies, sample_rate) * power)
