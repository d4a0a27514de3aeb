"""1/f noise that differs between intervals: tables of its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from petacomm.base.typing import FloatArray
from petamap.noise.model import NoiseModel, OneOverF


@dataclass(frozen=True, eq=False)
class IntervalNoise:
    """1/f noise of each detector in each interval (implements `Noise`).

    Attributes
    ----------
    net, fknee, fmin, alpha : float64 (n_intervals, n_det)
        Parameters of `OneOverF`, which are checked as noise of them is made.
    """

    net: FloatArray
    fknee: FloatArray
    fmin: FloatArray
    alpha: FloatArray

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the model of a detector in an interval."""
        at = interval, detector
        return OneOverF(
            float(self.net[at]), float(self.fknee[at]), float(self.fmin[at]), float(self.alpha[at])
        )
