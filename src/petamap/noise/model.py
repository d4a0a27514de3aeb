"""What is known of a detector's noise in one stationary interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from petacomm.base.typing import FloatArray


@dataclass(frozen=True)
class OneOverF:
    """One-sided PSD  P(f) = 2 net^2 (f^-s + fknee^-s) / (f^-s + fmin^-s)  with s = alpha < 0.

    Written so, P = 2 net^2 (1 + (fknee/f)^-alpha) well above fmin, and flat below it.

    Attributes
    ----------
    net : float
        White level, K s^1/2; a sample's white standard deviation is net * sqrt(sample_rate).
    fknee, fmin : float
        Hz; fknee = 0 is white noise.
    alpha : float
        Slope of the PSD at low frequency, negative.
    """

    net: float
    fknee: float = 0.0
    fmin: float = 0.0
    alpha: float = -1.0


@dataclass(frozen=True)
class TabulatedPsd:
    """A measured one-sided PSD: frequencies in Hz, increasing, and values in K^2/Hz; log-log interpolated."""

    frequencies: FloatArray
    values: FloatArray


@dataclass(frozen=True)
class InverseLags:
    """The inverse noise itself: N^-1 at lags 0..n_lag, in 1/K^2, as MADmap's filter files hold it."""

    lags: FloatArray


NoiseModel: TypeAlias = OneOverF | TabulatedPsd | InverseLags
