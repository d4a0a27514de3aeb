"""Low-pass filter and decimation of demodulated streams, and its options."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from petacomm.base.options import option
from petamap.data.sample_filter import SampleFilter


@dataclass(frozen=True)
class LowPassOptions:
    """Low-pass and decimation of demodulated streams."""

    bandwidth: float | None = option(
        None, dimension="frequency", minimum=1e-9,
        help="up to which the sky is kept; default: half the plate's frequency",
    )  # fmt: skip
    stop: float | None = option(
        None, dimension="frequency", minimum=1e-9,
        help="from which on all is rejected; default: the plate's frequency, or 1.5 times the bandwidth",
    )  # fmt: skip
    attenuation: float = option(
        80.0, minimum=30.0, maximum=150.0, help="beyond `stop`, dB; the gain in the band is 1 to the same"
    )
    downsample: int | None = option(
        None, minimum=1, help="keep one of so many samples; default: as many as the bandwidth allows"
    )
    sample_rate: float | None = option(
        None, dimension="frequency", minimum=1e-9, help="instead: of the streams, a part of that of the data"
    )
    dilate: bool = option(
        True,
        help="flag samples that are made of flagged ones; false: these are sound, as of turnarounds, but for "
        "glitches that were found",
    )


@dataclass(frozen=True)
class LowPass:
    """Low-pass filter and decimation of demodulated streams.

    Attributes
    ----------
    bandwidth, stop : float
        Edges of the pass band and of the stop band, Hz.
    gain_error : float
        Largest departure of the gain from 1 up to `bandwidth`.
    rejection : float
        Largest gain from `stop` on.
    filter : SampleFilter
    """

    bandwidth: float
    stop: float
    gain_error: float
    rejection: float
    filter: SampleFilter = field(repr=False)

    def describe(self, sample_rate: float) -> str:
        """Return what the band and the streams of a sample rate are, in words."""
        return (
            f"gain within {self.gain_error:.1g} of 1 up to {self.bandwidth:.4g} Hz, below "
            f"{self.rejection:.1g} from {self.stop:.4g} Hz; streams at {sample_rate:.4g} Hz"
        )


@lru_cache(maxsize=64)
def design_low_pass(
    bandwidth: float, stop: float, sample_rate: float, attenuation: float, downsample: int
) -> LowPass:
    """Return a low-pass of linear phase, by a Kaiser window (Kaiser 1974).

    It is that of `scipy.signal.firwin`, which takes 0.3 s to load.

    Parameters
    ----------
    bandwidth, stop, sample_rate : float
        Hz.
    attenuation : float
        dB.
    downsample : int
        Samples that come in for each that comes out.
    """
    n = low_pass_length(bandwidth, stop, sample_rate, attenuation)
    taps = np.sinc((bandwidth + stop) / sample_rate * (np.arange(n) - n // 2))
    taps *= np.kaiser(n, _kaiser_beta(attenuation))
    chosen = SampleFilter(taps / taps.sum(), -(n // 2), downsample)
    inside, beyond = np.linspace(0, bandwidth, 512), np.linspace(stop, sample_rate / 2, 2048)
    gain, rest = (np.abs(chosen.response(f / sample_rate)) for f in (inside, beyond))
    return LowPass(bandwidth, stop, float(np.abs(gain - 1).max()), float(rest.max()), chosen)


def low_pass_length(bandwidth: float, stop: float, sample_rate: float, attenuation: float) -> int:
    """Return the samples that `design_low_pass` needs, an odd number."""
    width = 2 * np.pi * (stop - bandwidth) / sample_rate
    n = math.ceil((attenuation - 7.95) / (2.285 * width) + 1)
    return n + 1 - n % 2


def _kaiser_beta(attenuation: float) -> float:
    """Return the shape of Kaiser's window for an attenuation of at least 21 dB."""
    if attenuation > 50:
        return 0.1102 * (attenuation - 8.7)
    return float(0.5842 * (attenuation - 21) ** 0.4 + 0.07886 * (attenuation - 21))
