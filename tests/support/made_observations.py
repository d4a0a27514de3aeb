"""Small synthetic observations with all parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petamap.data.observation import Observation
from petamap.noise.model import InverseLags, OneOverF, TabulatedPsd
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import SampledPlate


@dataclass(frozen=True)
class Samples:
    """Signal or flags given by an array (n_det, n_samp)."""

    values: np.ndarray

    def add_signal(self, detector, start, stop, out):
        out += self.values[detector, start:stop]

    def or_flags(self, detector, start, stop, out):
        out |= self.values[detector, start:stop]


class Models:
    """Noise models of all kinds, by detector and interval."""

    def noise_model(self, detector, interval):
        if interval:
            return TabulatedPsd(np.array([0.1, 1.0, 5.0]), np.array([3.0, 2.0, 1.0]) * (1 + detector % 2))
        return [OneOverF(0.05, 0.1, 1e-5, -1.5), InverseLags(np.array([4.0, -1.0]))][detector % 2]


class White:
    """1/f noise with another white level for each detector."""

    def noise_model(self, detector, interval):
        return OneOverF(0.05 + 0.01 * detector, 0.01, 1e-5, -1.0)


def boresight(n_samp: int, spacing: float = 1.0) -> Boresight:
    t = np.arange(-(-(n_samp - 1) // spacing) + 1) * spacing
    half = 0.003 * t
    return Boresight(
        np.stack([0.1 * np.cos(half), np.sin(half), 0.3 + 0 * t, np.cos(half)], axis=1), n_samp, spacing
    )


def observation(name="first", n_samp=300, n_det=3, spacing=10.0, noise=None, plate="sampled") -> Observation:
    rng = np.random.default_rng(len(name) + n_samp)
    turn = 0.2 * np.arange(n_det)
    quaternions = np.stack([0.01 * turn, 0 * turn, np.sin(turn), np.cos(turn)], axis=1)
    pointing = CompressedPointing(
        boresight(n_samp, spacing),
        quaternions,
        epsilon=0.1 * np.arange(n_det) / n_det,
        plate=SampledPlate(0.01 * np.arange(n_samp)) if plate == "sampled" else plate,
    )
    return Observation(
        name=name,
        uid=12345 + n_samp,
        n_samp=n_samp,
        sample_rate=10.0,
        detectors=tuple(f"D{k}" for k in range(n_det)),
        start_time=1.7e9 + 0.1,
        intervals=((0, n_samp // 3), (n_samp // 2, n_samp)),
        pointing=pointing,
        frame="galactic",
        signals=(Samples(rng.normal(size=(n_det, n_samp))), Samples(rng.normal(size=(n_det, n_samp)))),
        flags=(Samples((rng.random((n_det, n_samp)) < 0.1).astype(np.uint8)),),
        noise=noise or Models(),
        unit="uK_CMB",
    )


def signal_of(obs: Observation, detector: int, start: int = 0, stop: int | None = None) -> np.ndarray:
    out = np.zeros((stop or obs.n_samp) - start)
    for part in obs.signals:
        part.add_signal(detector, start, start + out.size, out)
    return out


def flags_of(obs: Observation, detector: int) -> np.ndarray:
    out = np.zeros(obs.n_samp, np.uint8)
    for part in obs.flags:
        part.or_flags(detector, 0, obs.n_samp, out)
    return out
