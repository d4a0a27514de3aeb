"""Observations whose signals are in other units of temperature than K_CMB, as observations in K_CMB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.data.derived_signal import DerivedSignal
from petamap.data.observation import Noise, Observation
from petamap.noise.common_modes import CommonNoise
from petamap.noise.model import EstimatedPsd, InverseLags, NoiseModel, OneOverF, TabulatedPsd, noise_key
from petamap.sky.map_units import temperature_factor


def in_kelvin(observations: Sequence[Observation]) -> list[Observation]:
    """Return observations in units of temperature as such in K_CMB, signals and noise; others as they are.

    Templates say their amplitudes in K_CMB, whatever the unit of the signal.
    """
    return [_in_kelvin(one) for one in observations]


def _in_kelvin(one: Observation) -> Observation:
    factor = temperature_factor(one.unit) if one.unit != "K_CMB" else None
    if factor is None:
        return one
    if factor == 1:
        return replace(one, unit="K_CMB")
    return replace(
        one,
        signals=tuple(ScaledSignal(signal, factor) for signal in one.signals),
        noise=None if one.noise is None else ScaledNoise(one.noise, factor),
        common_noise=tuple(
            CommonNoise(part.couplings, scaled_model(part.model, factor), part.interval)
            for part in one.common_noise
        ),
        unit="K_CMB",
    )


@dataclass(frozen=True, eq=False)
class ScaledSignal(DerivedSignal):
    """Signal in another unit (implements `Signal`).

    Attributes
    ----------
    factor : float
        Value of the unit of `signal` in this one.
    """

    factor: float

    @property
    def in_memory(self) -> bool:
        """Whether samples are had for a copy of memory."""
        return bool(getattr(self.signal, "in_memory", False))

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,)."""
        values = np.zeros(stop - start)
        self.signal.add_signal(detector, start, stop, values)
        out += self.factor * values


@dataclass(frozen=True, eq=False)
class ScaledNoise:
    """Noise of a signal in another unit (implements `Noise`).

    Attributes
    ----------
    noise : Noise
    factor : float
        Value of the unit of `noise` in this one.
    """

    noise: Noise
    factor: float
    _known: dict[Any, NoiseModel] = field(default_factory=dict, repr=False)

    @property
    def same_in_intervals(self) -> bool:
        """Whether models are the same in all intervals."""
        return bool(getattr(self.noise, "same_in_intervals", False))

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the noise model of a detector in an interval."""
        model = self.noise.noise_model(detector, interval)
        key = noise_key(model)
        if key not in self._known:
            self._known[key] = scaled_model(model, self.factor)
        return self._known[key]


def scaled_model(model: NoiseModel, factor: float) -> NoiseModel:
    """Return the model of noise that is larger by a factor."""
    match model:
        case OneOverF(net, fknee, fmin, alpha):
            return OneOverF(factor * net, fknee, fmin, alpha)
        case EstimatedPsd(frequencies, values, scatter):
            return EstimatedPsd(frequencies, factor**2 * values, scatter)
        case TabulatedPsd(frequencies, values):
            return TabulatedPsd(frequencies, factor**2 * values)
        case InverseLags(lags):
            return InverseLags(lags / factor**2)
