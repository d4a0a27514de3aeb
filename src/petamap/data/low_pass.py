"""Low-pass filter and decimation of demodulated streams, and its options."""

from __future__ import annotations

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
    """Return a low-pass of linear phase, by a Kaiser window (Kaiser 1974; `scipy.signal.firwin`).

    Parameters
    ----------
    bandwidth, stop, sample_rate : float
        Hz.
    attenuation : float
        dB.
    downsample : int
        Samples that come in for each that comes out.
    """
    from scipy.signal import firwin, kaiser_beta

    n, beta = low_pass_length(bandwidth, stop, sample_rate, attenuation), kaiser_beta(attenuation)
    middle = (bandwidth + stop) / 2
    taps = firwin(n, middle, window=("kaiser", beta), fs=sample_rate)
    chosen = SampleFilter(np.asarray(taps, np.float64), -(n // 2), downsample)
    inside, beyond = np.linspace(0, bandwidth, 512), np.linspace(stop, sample_rate / 2, 2048)
    gain, rest = (np.abs(chosen.response(f / sample_rate)) for f in (inside, beyond))
    return LowPass(bandwidth, stop, float(np.abs(gain - 1).max()), float(rest.max()), chosen)


def low_pass_length(bandwidth: float, stop: float, sample_rate: float, attenuation: float) -> int:
    """Return the samples that `design_low_pass` needs, an odd number."""
    from scipy.signal import kaiserord

    n = int(kaiserord(attenuation, 2 * (stop - bandwidth) / sample_rate)[0])
    return n + 1 - n % 2
