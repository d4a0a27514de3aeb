"""Noise that is nowhere stored: any range of samples, asked in any order, gives the same numbers.

python examples/noise_on_request.py
"""

import numpy as np

from petamap.data.observation import Observation
from petamap.noise.model import OneOverF
from petamap.noise.psd import noise_psd
from petamap.noise.spectrum_estimate import estimate_psd
from petamap.simulation.noise import SimulatedNoise, UniformNoise

MODEL = OneOverF(net=60e-6, fknee=0.1, fmin=1e-4, alpha=-1.7)
RATE, N_SAMP = 20.0, 1 << 18


def main() -> None:
    """Ask for noise whole and in pieces, and measure its spectrum."""
    observation = Observation(name="run", uid=7, n_samp=N_SAMP, sample_rate=RATE, detectors=("a", "b"))
    noise = SimulatedNoise(observation, UniformNoise(MODEL), seed=1, realization=0)

    whole = np.zeros(N_SAMP)
    noise.add_signal(0, 0, N_SAMP, whole)
    piece = np.zeros(1000)
    noise.add_signal(0, 200_000, 201_000, piece)
    print(
        "samples 200,000 to 201,000 asked alone are the same bits:",
        bool((piece == whole[200_000:201_000]).all()),
    )

    measured = estimate_psd(whole, np.ones(N_SAMP, bool), RATE)
    for frequency in (0.01, 0.1, 1.0, 5.0):
        found = np.interp(frequency, measured.frequencies, measured.values)
        asked = noise_psd(MODEL, np.array([frequency]))[0]
        print(f"{frequency:5.2f} Hz: asked {asked:.2e}, measured {found:.2e} K^2/Hz")


if __name__ == "__main__":
    main()
