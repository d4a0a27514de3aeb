"""Tests of simulated noise: spectrum, independence of the sample range, sources."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline
from scipy.signal import welch

from petacomm.base.errors import ConfigError, DataError
from petamap.data.observation import Observation
from petamap.data.source import SourceContext
from petamap.noise.model import InverseLags, OneOverF, TabulatedPsd
from petamap.noise.psd import noise_psd
from petamap.noise.toeplitz import inverse_lags
from petamap.simulation import _simulation
from petamap.simulation.noise import (
    CommonModeOptions,
    CommonModeSource,
    NoiseSource,
    NoiseSourceOptions,
    SimulatedNoise,
    UniformNoise,
)
from petamap.simulation.noise_filters import design_cascade, interpolation_weights
from petamap.simulation.random_keys import Purpose, random_stream

PLANCK = OneOverF(net=2e-4, fknee=0.05, fmin=1e-4, alpha=-1.1)
CONTEXT = SourceContext(folder=Path(), seed=3, realization=5)


def observation(**changes):
    fields = {"name": "scan", "uid": 9, "n_samp": 1 << 40, "sample_rate": 10.0, "detectors": ("a", "b")}
    return Observation(**(fields | changes))


def noise_of(model=PLANCK, **changes):
    return SimulatedNoise(observation(**changes), UniformNoise(model), 3, 5)


def read(signal, start, stop, detector=0):
    out = np.zeros(stop - start)
    signal.add_signal(detector, start, stop, out)
    return out


STEEP = OneOverF(1.0, 1.0, 1e-4, -2.5)
KINKED = TabulatedPsd(np.geomspace(1e-3, 5, 12), np.geomspace(100, 1, 12) + np.arange(12) % 3)
MODELS = [
    PLANCK,
    STEEP,
    OneOverF(1.0, 0.05, 1e-3, -4.0),
    OneOverF(1.0, 5.0, 1e-6, -0.9),
    OneOverF(1.0, 0.05, 0.04, -3.0),
    OneOverF(1.0, 0.05, 0.0, -1.0),
    OneOverF(2.0),
    KINKED,
]


@pytest.mark.parametrize("model", MODELS)
def test_spectrum_of_the_filters(model):
    """Power of all levels including images of the interpolation, without random numbers."""
    design = design_cascade(model, 10.0, duration=1e4)
    f = np.geomspace(max(getattr(model, "fmin", 0) / 3, 2.5e-5), 5, 3333)
    np.testing.assert_allclose(design.psd(f), noise_psd(model, f), rtol=0.02 if model is KINKED else 0.012)


def test_interpolation_weights_sum_to_one():
    np.testing.assert_allclose(interpolation_weights().sum(axis=0), 1, rtol=1e-14)


def test_interpolation_weights_are_those_of_scipys_spline():
    tap, phase = np.mgrid[:8, :4]
    spline = BSpline.basis_element(np.arange(-4.0, 5.0), extrapolate=False)
    np.testing.assert_allclose(interpolation_weights(), spline(phase / 4 - tap + 3), rtol=0, atol=4e-16)


def reference_noise(design, words, start, n):
    """Return the noise of a cascade by NumPy; start and n are multiples of 4^levels."""
    half = design.filters.shape[1] - 1
    group = _simulation.GROUP
    total, below = np.zeros(0), 0
    for level in reversed(range(design.n_levels)):
        factor = 4**level
        margin = 8 if level else 0
        low, high = start // factor - margin, (start + n) // factor + margin
        first = (low - half) // group
        white = np.empty((-(-(high + half) // group) - first) * group)
        _simulation.gaussians(words[level], first, white)
        white = white[low - half - first * group : high + half - first * group]
        taps = design.filters[level]
        made = np.convolve(white, np.concatenate((taps[:0:-1], taps)), mode="valid")
        if total.size:
            for i in range(len(made)):
                q, phase = divmod(low + i, 4)
                made[i] += interpolation_weights()[:, phase] @ total[q - 3 - below : q + 5 - below]
        total, below = made, low
    return total


def test_kernel_against_numpy():
    design = design_cascade(STEEP, 10.0, 1.0)
    design = type(design)(design.filters[:3], 10.0)
    words = np.array([random_stream(Purpose.NOISE, seed, 0) for seed in range(3)])
    out = np.ones(640)
    _simulation.add_noise(design.filters, interpolation_weights(), words, -320, 2.0, out, 1)
    expected = 1 + 2 * reference_noise(design, words, -320, 640)
    np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


ranges = st.lists(st.integers(0, 40_000), min_size=2, max_size=6, unique=True).map(sorted)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([0, 12_345, 10**12]), ranges, st.sampled_from([PLANCK, STEEP, OneOverF(1.0)]))
def test_sample_ranges_give_the_same_bits(offset, edges, model):
    signal = noise_of(model)
    whole = read(signal, offset + edges[0], offset + edges[-1])
    parts = [read(signal, offset + a, offset + b) for a, b in pairwise(edges)]
    assert np.array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_give_the_same_bits(n_threads):
    design = design_cascade(PLANCK, 10.0, 1.0)
    words = np.array([random_stream(Purpose.NOISE, seed, 0) for seed in range(design.n_levels)])
    one, more = np.zeros(50_001), np.zeros(50_001)
    _simulation.add_noise(design.filters, interpolation_weights(), words, 77, 1.0, one, 1)
    _simulation.add_noise(design.filters, interpolation_weights(), words, 77, 1.0, more, n_threads)
    assert np.array_equal(one, more)


def test_the_first_call_of_a_thread_gives_the_same_bits():
    """A thread that is new gets memory of its own in it."""
    signal = noise_of(STEEP)
    expected = read(signal, 0, 40_000)
    with ThreadPoolExecutor(1) as pool:
        assert np.array_equal(pool.submit(read, signal, 0, 40_000).result(), expected)


def band_ratio(samples, model, rate, n_segment):
    f, power = welch(samples, rate, nperseg=n_segment, detrend=False)
    f, ratio = f[2:-1], (power / noise_psd(model, np.maximum(f, 1e-300)))[2:-1]
    bands = np.floor(np.log2(f / f[0])).astype(int)
    n_average = 2 * len(samples) / n_segment
    return [
        (ratio[bands == b].mean(), np.sqrt(2 / (np.sum(bands == b) * n_average))) for b in np.unique(bands)
    ]


@pytest.mark.parametrize("model", [PLANCK, OneOverF(1.0, 1.0, 3e-3, -2.0), OneOverF(1.0)])
def test_spectrum_of_long_streams(model):
    samples = read(noise_of(model), 0, 1 << 22)
    for ratio, spread in band_ratio(samples, model, 10.0, 1 << 18)[1:]:
        assert abs(ratio - 1) < 0.01 + 4 * spread
    fast = band_ratio(samples, model, 10.0, 1 << 12)
    assert max(abs(ratio - 1) for ratio, _ in fast[-5:]) < 0.02


def test_correlation_over_an_hour():
    """Covariance of means over 100 s that are one hour apart, from independent streams."""
    model, n_streams, n = OneOverF(1.0, 0.1, 1e-5, -1.0), 1500, 36_000
    signal = noise_of(model, detectors=tuple(map(str, range(n_streams))))
    means = np.empty((n_streams, 2))
    for detector in range(n_streams):
        for i, start in enumerate((0, n)):
            means[detector, i] = read(signal, start, start + 1000, detector).mean()
    f = (np.arange(400_000) + 0.5) * 2.5e-6 / 4
    mean_response = noise_psd(model, f) * np.sinc(f * 100) ** 2 * (f[1] - f[0])
    variance, covariance = mean_response.sum(), (mean_response * np.cos(2 * np.pi * f * 3600)).sum()
    spread = np.sqrt((variance**2 + covariance**2) / n_streams)
    assert covariance > 5 * spread
    assert abs(np.mean(means[:, 0] * means[:, 1]) - covariance) < 4 * spread
    assert abs(np.mean(means**2) - variance) < 4 * variance / np.sqrt(n_streams)


def test_noise_after_years():
    late = read(noise_of(), 10 * 31_557_600 * 10, 10 * 31_557_600 * 10 + 200_000)
    early = read(noise_of(), 0, 200_000)
    assert abs(np.corrcoef(early, late)[0, 1]) < 0.05
    assert np.diff(late).std() == pytest.approx(np.diff(early).std(), rel=0.02)


def test_streams_differ_for_all_keys():
    base = read(noise_of(), 0, 4096)
    others = [
        read(noise_of(), 0, 4096, detector=1),
        read(noise_of(uid=10), 0, 4096),
        read(SimulatedNoise(observation(), UniformNoise(PLANCK), 4, 5), 0, 4096),
        read(SimulatedNoise(observation(), UniformNoise(PLANCK), 3, 6), 0, 4096),
    ]
    for other in others:
        assert abs(np.corrcoef(np.diff(base), np.diff(other))[0, 1]) < 0.08


class TwoModels:
    def noise_model(self, detector, interval):
        return OneOverF(1.0) if interval == 0 else OneOverF(10.0)


def test_intervals_and_gaps():
    there = observation(n_samp=30_000, intervals=((100, 10_000), (12_000, 30_000)))
    signal = SimulatedNoise(there, TwoModels(), 1, 0)
    samples = read(signal, 0, 30_000)
    assert not samples[:100].any() and not samples[10_000:12_000].any()
    assert samples[100:10_000].std() == pytest.approx(np.sqrt(10), rel=0.05)
    assert samples[12_000:].std() == pytest.approx(10 * np.sqrt(10), rel=0.05)
    assert np.array_equal(samples[9000:13_000], read(signal, 9000, 13_000))


def test_spectrum_of_inverse_lags():
    model = OneOverF(1.0, 1.0, 1e-2, -1.5)
    design = design_cascade(InverseLags(inverse_lags(model, 10.0, 2000)), 10.0, 1e4)
    f = np.geomspace(0.02, 5, 500)
    np.testing.assert_allclose(design.psd(f), noise_psd(model, f), rtol=0.03)


def source(**options):
    return NoiseSource(NoiseSourceOptions(**options), CONTEXT)


def test_source_adds_signal_and_model():
    (found,) = source(net=1.0).extend([observation(n_samp=1000)])
    assert found.noise.noise_model(1, 0) == OneOverF(1.0)
    doubled, _ = found.signals[0], None
    (scaled,) = source(net=1.0, scale=2.0).extend([observation(n_samp=1000)])
    np.testing.assert_allclose(read(scaled.signals[0], 0, 1000), 2 * read(doubled, 0, 1000), rtol=1e-14)


def test_noise_model_of_the_observation_is_used():
    own = UniformNoise(OneOverF(5.0))
    (found,) = source().extend([observation(n_samp=1000, noise=own)])
    assert found.noise is own and found.signals[0].noise is own
    (other,) = source(net=1.0).extend([observation(n_samp=1000, noise=own)])
    assert other.noise is own and other.signals[0].noise != own


def test_invalid_options(tmp_path):
    with pytest.raises(ConfigError, match="scan: has no noise model"):
        source().extend([observation()])
    with pytest.raises(ConfigError, match="without net"):
        source(fknee=1.0)
    with pytest.raises(ConfigError, match="net is 0"):
        source(net=0.0)
    (tmp_path / "zero.txt").write_text("# f P\n0.1 1\n1.0 0\n")
    with pytest.raises(DataError, match=r"zero\.txt: PSD value at entry 1"):
        source(psd=str(tmp_path / "zero.txt"))
    (tmp_path / "word.txt").write_text("0.1 one\n")
    with pytest.raises(DataError, match="no table of numbers"):
        source(psd=str(tmp_path / "word.txt"))
    bad = UniformNoise(TabulatedPsd(np.array([1.0, 2.0]), np.array([1.0, -1.0])))
    (found,) = source().extend([observation(n_samp=100, noise=bad)])
    with pytest.raises(DataError, match="scan, detector b, interval 0: PSD value at entry 1"):
        read(found.signals[0], 0, 10, detector=1)


def test_psd_from_a_file(tmp_path):
    (tmp_path / "flat.txt").write_text("0.1 0.02\n1.0 0.02\n")
    (found,) = source(psd=str(tmp_path / "flat.txt")).extend([observation(n_samp=20_000)])
    assert read(found.signals[0], 0, 20_000).std() == pytest.approx(np.sqrt(0.1), rel=0.03)


def test_common_mode():
    options = CommonModeOptions(net=1.0, fknee=1.0, fmin=1e-2, coefficients=(1.0, -0.5))
    (found,) = CommonModeSource(options, CONTEXT).extend([observation(n_samp=5000)])
    first, second = (read(found.signals[0], 0, 5000, detector=d) for d in (0, 1))
    np.testing.assert_allclose(second, -0.5 * first, rtol=1e-13)
    assert found.noise is None
    (own,) = source(net=1.0, fknee=1.0, fmin=1e-2).extend([observation(n_samp=5000)])
    assert abs(np.corrcoef(np.diff(first), np.diff(read(own.signals[0], 0, 5000)))[0, 1]) < 0.08


def test_coefficients_of_the_common_mode():
    many = observation(detectors=tuple(map(str, range(500))))
    (found,) = CommonModeSource(CommonModeOptions(net=1.0, spread=0.1), CONTEXT).extend([many])
    assert found.signals[0].coefficients.std() == pytest.approx(0.1, rel=0.15)
    assert found.signals[0].coefficients.mean() == pytest.approx(1, abs=0.03)
    with pytest.raises(ConfigError, match="3 coefficients for 2 detectors"):
        CommonModeSource(CommonModeOptions(net=1.0, coefficients=(1, 2, 3)), CONTEXT).extend([observation()])
    with pytest.raises(ConfigError, match="no noise model"):
        CommonModeSource(CommonModeOptions(), CONTEXT)
    for scale in (1e-300, 1e300):
        with pytest.raises(ConfigError, match="coefficients times scale are of sizes 1e"):
            CommonModeSource(CommonModeOptions(net=1.0, scale=scale), CONTEXT).extend([many])


@pytest.mark.parametrize(("fmin", "alpha"), [(1e-300, -1.0), (1e-300, -2.0), (1e-35, -10.0)])
def test_noise_that_rises_for_ever_is_refused_at_once(fmin, alpha):
    model = OneOverF(net=1e-4, fknee=0.05, fmin=fmin, alpha=alpha)
    with pytest.raises(ConfigError, match="is too slow, or too strong, to be drawn"):
        design_cascade(model, 1.0, 1000.0)
