"""Noise that is estimated from the data has no bias: realizations of a small scan against true spectra."""

from dataclasses import replace

import numpy as np
import pytest
from small_systems import Models, spinning

from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petacomm.mpi import SerialCommunicator
from petamap.data.observation import Observation
from petamap.mapmaking.noise_estimate import NoiseEstimator
from petamap.mapmaking.system_options import SystemOptions
from petamap.noise.model import OneOverF
from petamap.noise.psd import noise_psd
from petamap.noise.spectrum_estimate import segments_of
from petamap.simulation.noise import SimulatedNoise
from petamap.sky.healpix import Healpix

N_SAMP, RATE = 16_000, 10.0
TRUTH = (OneOverF(1.0, 0.2, 1e-3, -1.5), OneOverF(2.0, 0.3, 1e-3, -1.5))
MODELS = Models(tuple((TRUTH[detector % 2],) for detector in range(4)))
# 83 samples a pixel: the map takes 1 in 28 degrees of freedom. A turn of the scan is 2 s.
SCAN = Observation(
    name="scan", uid=3, n_samp=N_SAMP, sample_rate=RATE, detectors=tuple("abcd"),
    intervals=tuple((part * N_SAMP // 4, (part + 1) * N_SAMP // 4) for part in range(4)),
    pointing=spinning(N_SAMP, 0.31, 4, 4), frame="galactic", noise=MODELS,
)  # fmt: skip


def estimated(signal, max_rounds):
    made = replace(SCAN, signals=(signal,))
    options = SystemOptions(n_lag=256, free_ends=True)
    estimator = NoiseEstimator(
        [made], Healpix(8, nest=True), lambda observations, model_of: options, 200, SerialCommunicator(),
        Timers(), SilentProgress(),
    )  # fmt: skip
    found = estimator.estimate(max_rounds, 0.0).model_of
    return [found(made, detector, interval) for detector in range(4) for interval in range(4)]


def octave_means(realizations, max_rounds):
    """Return frequencies, the mean of estimate over truth in each octave, its error, and both without a map.

    The last are the same estimates minus those of the noise itself, of which the mean is known: their
    scatter is what map and correction add.
    """
    ratios, differences = [], []
    for realization in range(realizations):
        noise = SimulatedNoise(SCAN, MODELS, 9, realization)
        for number, model in enumerate(estimated(noise, max_rounds)):
            detector, (start, stop) = number // 4, SCAN.intervals[number % 4]
            samples, good = np.zeros(stop - start), np.ones(stop - start, bool)
            noise.add_signal(detector, start, stop, samples)
            segments = segments_of(samples, good, RATE)
            power = segments.power(samples, good)
            truth = noise_psd(TRUTH[detector % 2], segments.frequencies)
            ratios.append(model.values[1:] / truth)
            differences.append((model.values[1:] - power / segments.window_response(power)) / truth)
    octaves = np.floor(np.log2(segments.frequencies / segments.frequencies[0]))
    n = np.sqrt(len(ratios))

    def summed(values):
        parts = np.array([np.array(values)[:, octaves == one].mean(axis=1) for one in np.unique(octaves)])
        return parts.mean(axis=1), parts.std(axis=1) / n

    frequencies = segments.frequencies[0] * 2 ** np.unique(octaves)
    return frequencies, *summed(ratios), *summed(differences)


def check(realizations):
    _, means, errors, differences, difference_errors = octave_means(realizations, 3)
    assert np.all(np.abs(differences) < 0.01 + 3 * difference_errors)
    assert np.all(np.abs(means - 1) < 0.01 + 3 * errors)
    return difference_errors


def test_spectra_have_no_bias():
    check(4)


def test_binned_residual_is_biased():
    """What the rounds mend: stripes of the binned map, at turns of the scan."""
    _, means, errors, *_ = octave_means(4, 1)
    assert np.all((means - 1 > 0.15 + 3 * errors)[-4:])


@pytest.mark.long
def test_spectra_have_no_bias_in_a_hundred_realizations():
    assert np.all(check(100) < 0.003)
