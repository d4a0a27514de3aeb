"""One's own arrays: pointing, signal, flags and noise become a volume, and the volume a map.

python examples/from_arrays.py
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from petamap.data.config import parse_config
from petamap.data.formats.volume_write import write_volume
from petamap.data.observation import Observation
from petamap.mapmaking.run import run
from petamap.noise.model import OneOverF
from petamap.pointing import quaternion
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.sky.map_file import read_map

N_SAMP, RATE = 20_000, 20.0


@dataclass(frozen=True)
class Arrays:
    """Signal (n_det, n_samp) in K_CMB and flags, as `Observation` asks for them."""

    signal: np.ndarray
    flags: np.ndarray

    def add_signal(self, detector, start, stop, out):
        out += self.signal[detector, start:stop]

    def or_flags(self, detector, start, stop, out):
        out |= self.flags[detector, start:stop]

    def noise_model(self, detector, interval):
        return OneOverF(net=100e-6, fknee=0.05, fmin=1e-3, alpha=-1.0)


def boresight() -> Boresight:
    """Sweep 4 degrees of azimuth to and fro, slowly rising; a quaternion a sample."""
    t = np.arange(N_SAMP)
    azimuth = np.radians(2 * np.sin(2 * np.pi * t / 400))
    colatitude = np.radians(90 - 4 * t / N_SAMP)
    turn = np.pi / 3 * (t > N_SAMP // 2)  # half of the time with another polarization angle
    return Boresight(
        quaternion.multiply(
            quaternion.multiply(quaternion.about_z(azimuth), quaternion.about_y(colatitude)),
            quaternion.about_z(turn),
        ),
        N_SAMP,
    )


def observation() -> Observation:
    """Return two detectors at right angles that see a slope on the sky, and noise, and one bad second."""
    angles = np.radians([0.0, 90.0, 45.0, 135.0])
    pointing = CompressedPointing(boresight(), quaternion.about_z(angles))
    signal = np.random.default_rng(1).normal(scale=100e-6 * np.sqrt(RATE), size=(4, N_SAMP))
    for detector in range(4):
        directions, _ = pointing.directions(detector, 0, N_SAMP)
        signal[detector] += 1e-2 * directions[:, 2]
    flags = np.zeros((4, N_SAMP), np.uint8)
    flags[0, 5000:5020] = 1
    data = Arrays(signal, flags)
    return Observation(
        name="sweep", uid=1, n_samp=N_SAMP, sample_rate=RATE, detectors=("a0", "a90", "b45", "b135"),
        intervals=((0, N_SAMP),), pointing=pointing, frame="equatorial",
        signals=(data,), flags=(data,), noise=data,
    )  # fmt: skip


CONFIGURATION = """
[run]
name = "mine"

[map]
pixelization = "car"
resolution = "6 arcmin"
frame = "equatorial"

[[source]]
kind = "volume"
path = "mine.h5"
"""


def main(folder: Path) -> None:
    """Write the volume, make the map, say what came out."""
    write_volume(folder / "mine.h5", [observation()])
    (folder / "mine.toml").write_text(CONFIGURATION)
    config = parse_config(CONFIGURATION, folder / "mine.toml")
    summary = run(config, out=folder / "maps")
    hits = read_map(folder / "maps" / "mine_hits.fits").values[0]
    print(f"{summary.totals.samples_used:,} samples in {int((hits > 0).sum()):,} pixels")
    print(f"{summary.totals.samples_flagged:,} samples flagged or in pixels that are cut")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
