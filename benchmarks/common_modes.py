"""What it brings to weigh noise that detectors share: maps of simulated noise, with and without.

    python benchmarks/common_modes.py                                   # 100 detectors, 10 realizations
    python benchmarks/common_modes.py --detectors 20 --realizations 40

Constant-elevation scans under an atmosphere with a knee of 2 Hz, which all detectors see but for gains
that differ by 2 %. Printed are the noise of I on scales of four pixels and more, weighed as declared, as
estimated from the data, and with detectors that have the same spectra, but independently; chi-squared of
the maps by the inverse covariance that they claim, over its degrees of freedom; and the time of an
iteration with the same preconditioner, in turns.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from petacomm.base.progress import SilentProgress
from petacomm.base.typing import FloatArray
from petacomm.mpi import SerialCommunicator
from petamap.data.config import open_sources, parse_config
from petamap.data.observation import DetectorNoise, Observation
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.system import MapmakingSystem
from petamap.noise.model import OneOverF, TabulatedPsd
from petamap.noise.psd import noise_psd
from petamap.sky.flat import FlatPatch

_CONFIG = """
[run]
seed = {seed}
[map]
pixelization = "flat"
resolution = "12 arcmin"
frame = "equatorial"
stokes = "I"
[noise]
{noise}
ends = "zero"
[resources]
threads = 1
[[source]]
kind = "ground"
turnarounds = "keep"
n_det = {n_det}
spacing = "1 deg"
sample_rate = "20 Hz"
duration = "30 min"
n_observations = 2
azimuth_min = "160 deg"
azimuth_max = "200 deg"
net = "300 uK s^0.5"
fknee = "50 mHz"
fmin = "10 mHz"
alpha = -1.0
[[source]]
kind = "noise"
[[source]]
kind = "common-mode"
net = "300 uK s^0.5"
fknee = "2 Hz"
fmin = "30 mHz"
alpha = -2.0
spread = 0.02
"""

_NOISE = {
    "declared": 'common_modes = "declared"',
    "estimated": 'kernel = "estimate"\nn_modes = 1',
    "none": 'common_modes = "none"',
}


def system_of(n_det: int, seed: int, modes: str, preconditioner: str) -> MapmakingSystem:
    """Return the system of a realization."""
    text = _CONFIG.format(n_det=n_det, seed=seed, noise=_NOISE[modes])
    config = parse_config(text + f'[solver]\npreconditioner = "{preconditioner}"\n')
    setup = RunSetup(config, SerialCommunicator(), SilentProgress())
    setup.open(open_sources)
    if modes == "none":
        setup.observations = [_independent(one) for one in setup.observations]
    return setup.set_up()


def _independent(observation: Observation) -> Observation:
    """Return the observation with the spectra of all noise, as if detectors shared none of it."""
    own, shared = OneOverF(300e-6, 0.05, 0.01, -1.0), OneOverF(300e-6, 2.0, 0.03, -2.0)
    frequencies = np.logspace(-4, 1, 501)
    total = TabulatedPsd(frequencies, noise_psd(own, frequencies) + noise_psd(shared, frequencies))
    return replace(observation, noise=DetectorNoise((total,) * observation.n_det))


def solve(system: MapmakingSystem, tolerance: float = 1e-6) -> tuple[FloatArray, float, int, int]:
    """Return the map, chi-squared over its degrees of freedom, their number, and iterations."""
    rhs = right_hand_side(system)
    solution = system.solver().solve(rhs.unknowns, tolerance, 500)
    parts = list(zip(rhs.unknowns, solution.map, strict=True))
    chi_squared = sum(float(np.vdot(b, x)) for b, x in parts)
    assert system.projection.gaps.n == 0  # else they are degrees of freedom
    return solution.map.pixels, chi_squared / len(system.keys), len(system.keys), solution.iterations


def large_scales(system: MapmakingSystem, values: FloatArray) -> float:
    """Return the rms of I in squares of 4 x 4 pixels that are seen whole, without the mean."""
    pixelization = system.projection.pixelization
    image = np.full(pixelization.n_pix, np.nan)
    image[system.keys] = values[:, 0]
    assert isinstance(pixelization, FlatPatch)
    image = image.reshape(pixelization.shape)
    rows, columns = (n // 4 * 4 for n in image.shape)
    squares = image[:rows, :columns].reshape(rows // 4, 4, columns // 4, 4).mean(axis=(1, 3))
    return float(np.nanstd(squares))


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--detectors", type=int, default=100)
    parser.add_argument("--realizations", type=int, default=10)
    args = parser.parse_args()
    scales: dict[str, list[float]] = {modes: [] for modes in _NOISE}
    chi: dict[str, list[float]] = {modes: [] for modes in _NOISE}
    n_unknowns = 0
    for seed in range(args.realizations):
        for modes, found in scales.items():
            system = system_of(args.detectors, seed, modes, "auto")
            values, ratio, n_unknowns, n_iterations = solve(system)
            found.append(large_scales(system, values))
            chi[modes].append(ratio)
            print(
                f"{seed} {modes}: {n_iterations} iterations, {1e6 * found[-1]:.1f} uK, {ratio:.4f}",
                flush=True,
            )
    rms = {modes: float(np.sqrt(np.mean(np.square(found)))) for modes, found in scales.items()}
    error = np.sqrt(2 / n_unknowns / args.realizations)
    for modes in ("declared", "estimated"):
        print(f"{modes}: large scales {rms['none'] / rms[modes]:.1f} times below independent weighting,")
        print(f"  chi-squared {np.mean(chi[modes]):.4f} +- {error:.4f} of {n_unknowns} degrees of freedom")
    _print_times(args.detectors)


def _print_times(n_det: int) -> None:
    systems = {modes: system_of(n_det, 0, modes, "block-diagonal") for modes in ("declared", "none")}
    times: dict[str, list[float]] = {modes: [] for modes in systems}
    for _ in range(5):
        for modes, system in systems.items():
            vector = right_hand_side(system).unknowns
            begin = time.process_time()
            system.solver().solve(vector, 1e-12, 10)
            times[modes].append((time.process_time() - begin) / 10)
    ratio = min(times["declared"]) / min(times["none"])
    print(f"an iteration: {min(times['declared']):.3f} s, {ratio:.2f} times that of independent detectors")


if __name__ == "__main__":
    main()
