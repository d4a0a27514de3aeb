"""Noise that detectors share, estimated from the data: near the truth, the same on any number of ranks."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from cases import cases
from mpi import check_same_on_ranks
from small_systems import Bad, Models, spinning

from petacomm.base.errors import ConfigError
from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petacomm.mpi import SerialCommunicator
from petamap.data.config import parse_config
from petamap.data.observation import Observation
from petamap.mapmaking.bands import stream_bands
from petamap.mapmaking.noise_estimate import NoiseEstimator
from petamap.mapmaking.residual_streams import DrawnStreams, ReferenceNoise
from petamap.mapmaking.system_options import SystemOptions
from petamap.noise.common_modes import CommonNoise, mode_amplitudes
from petamap.noise.model import TabulatedPsd
from petamap.noise.psd import noise_psd
from petamap.sky.healpix import Healpix

RATE, N_DET = 10.0, 6
FREQUENCIES = np.logspace(-4, np.log10(RATE / 2), 60)
OWN = TabulatedPsd(FREQUENCIES, 2 * (1 + 0.02 / FREQUENCIES))
SHARED = TabulatedPsd(FREQUENCIES, 2 * (0.7 / np.maximum(FREQUENCIES, 2e-3)) ** 2)
COUPLINGS = np.linspace(0.7, 1.4, N_DET)


def scans(n_samp, n_intervals=1, flagged=0.02, blind=()):
    """Return detectors under an atmosphere, without a sky; those that are blind have no good sample."""
    edges = np.linspace(0, n_samp, n_intervals + 1).astype(int)
    models = Models(((OWN,) * n_intervals,) * N_DET)
    common = CommonNoise(COUPLINGS, SHARED)
    one = Observation(
        name="long", uid=3, n_samp=n_samp, sample_rate=RATE, detectors=tuple("abcdef"), frame="galactic",
        intervals=tuple((int(a), int(b)) for a, b in pairwise(edges)),
        pointing=spinning(n_samp, 0.31, N_DET, 4), noise=models, common_noise=(common,),
    )  # fmt: skip
    flags = np.random.default_rng(1).random((N_DET, n_samp)) < flagged
    flags[list(blind)] = True
    drawn = ReferenceNoise(one, lambda one, d, k: one.noise.noise_model(d, k), 77, DrawnStreams(8))
    return replace(one, signals=(drawn,), flags=(Bad(flags),), common_noise=())


def estimated(made, comm, n_modes=1, max_rounds=3):
    """Return the estimate of the noise of an observation."""

    def options_of(observations, model_of):
        bands = stream_bands(observations, 200, model_of, comm)
        return SystemOptions(n_lag=bands.n_lag, stream_lags=bands.lags, mode_lags=bands.mode_lags)

    estimator = NoiseEstimator(
        [made], Healpix(8, nest=True), options_of, 200, comm, Timers(), SilentProgress(), n_modes
    )
    return estimator.estimate(max_rounds, 0.0)


def test_couplings_and_spectra_are_near_the_truth():
    made = scans(30_000)
    found = estimated(made, SerialCommunicator())
    (one,) = found.observations
    (common,) = one.common_noise
    sign = np.sign(common.couplings.sum())
    ratios = sign * common.couplings / COUPLINGS
    assert np.std(ratios) < 0.02 * np.mean(ratios)
    models = [found.model_of(one, detector, 0) for detector in range(N_DET)]
    level = np.mean([model.values / noise_psd(OWN, model.frequencies) for model in models], axis=0)
    fast = models[0].frequencies > 0.1
    assert level[fast] == pytest.approx(1, abs=0.12) and level[fast].mean() == pytest.approx(1, abs=0.02)
    modes = mode_amplitudes(models, one.common_noise, RATE)
    truth = mode_amplitudes([OWN] * N_DET, [CommonNoise(COUPLINGS, SHARED)], RATE)
    f = common.model.frequencies[(common.model.frequencies > 0.01)]
    ratio = noise_psd(modes.models[0], f) / noise_psd(truth.models[0], f)
    assert np.mean(ratio) == pytest.approx(1, abs=0.1) and np.std(np.log(ratio)) < 0.35


def test_detectors_alone_would_have_the_noise_of_all():
    made = scans(12_000)
    alone = estimated(made, SerialCommunicator(), n_modes=0, max_rounds=1).model_of(made, 0, 0)
    shared = estimated(made, SerialCommunicator(), max_rounds=2)
    own = shared.model_of(shared.observations[0], 0, 0)
    assert noise_psd(alone, np.array([0.05]))[0] > 10 * noise_psd(own, np.array([0.05]))[0]


def _bits(comm):
    found = estimated(scans(6000, n_intervals=3), comm, max_rounds=2)
    (one,) = found.observations
    models = [found.model_of(one, detector, k).values for detector in range(N_DET) for k in range(3)]
    return [part.tobytes() for part in (*models, *(common.couplings for common in one.common_noise))]


@pytest.mark.parametrize("n_ranks", cases(5, long=(2,)))
def test_ranks_do_not_change_a_bit(n_ranks):
    check_same_on_ranks(_bits, n_ranks)


def test_a_detector_without_samples_has_no_coupling():
    found = estimated(scans(6000, blind=(2,)), SerialCommunicator(), max_rounds=2)
    (common,) = found.observations[0].common_noise
    assert common.couplings[2] == 0 and np.all(np.delete(common.couplings, 2) != 0)


def test_too_few_detectors_and_other_kernels_are_refused():
    with pytest.raises(ConfigError, match="5 modes of common noise cannot be told"):
        estimated(scans(6000), SerialCommunicator(), n_modes=5)
    with pytest.raises(ConfigError, match="estimates nothing"):
        parse_config('[noise]\nn_modes = 1\n[[source]]\nkind = "satellite"\n')
