"""Demodulation: streams against the response of the detectors, their flags, noise and errors."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_observations import Samples, White, observation
from made_observations import signal_of as signal

from petacomm.base.errors import ConfigError
from petamap.data.demodulation import (
    DemodulationOptions,
    DemodulationSource,
    plate_frequencies,
    stream_pointing,
)
from petamap.data.observation import read_flags, read_signal
from petamap.data.source import SourceContext
from petamap.noise.common_modes import CommonNoise
from petamap.noise.model import OneOverF
from petamap.noise.toeplitz import sampled_psd
from petamap.pointing.half_wave_plate import SampledPlate, UniformPlate
from petamap.sky.healpix import Healpix
from petamap.templates.kinds import PlateSynchronous
from petamap.templates.sources import OffsetsOptions, OffsetsSource

RATE, PLATE, N = 50.0, 2.0, 6000
UNIFORM = UniformPlate(0.3, 2 * np.pi * PLATE / RATE)
KNOTS = np.arange(0, N + 4, 2)
WOBBLING = SampledPlate(np.mod(-0.3 - KNOTS * UNIFORM.rate - 0.02 * np.sin(KNOTS / 70), 2 * np.pi), 2.0)


class NoData(Samples):
    """Flags of samples that are no data."""

    unsound = True


def scan(plate=UNIFORM, values=None, **changes):
    one = observation(n_samp=N, n_det=2, plate=plate, noise=White())
    one = dataclasses.replace(one, sample_rate=RATE, flags=(), intervals=((0, N),), **changes)
    return one if values is None else dataclasses.replace(one, signals=(Samples(values),))


def demodulate(one, **options):
    return DemodulationSource(DemodulationOptions(**options), SourceContext(Path())).extend([one])[0]


def response(one, detector):
    """Return the response to I, Q and U of all samples, (n, 3)."""
    angles = np.empty(one.n_samp, np.uint32)
    one.pointing.expand(Healpix(8), detector, 0, one.n_samp, np.empty(one.n_samp, np.int32), angles)
    e, phi = one.pointing.efficiency(detector), angles * (2 * np.pi / 2**32)
    intensity = np.full(one.n_samp, one.pointing.intensity(detector))
    return np.stack([intensity, e * np.cos(phi), e * np.sin(phi)], axis=1)


def slow(rng, n_samp, highest, n=3):
    """Return random functions of samples without anything above a frequency, (n_samp, n)."""
    frequencies, phases = rng.uniform(0, highest, (6, n)), rng.uniform(0, 2 * np.pi, (6, n))
    return np.cos(2 * np.pi / RATE * np.arange(n_samp)[:, None, None] * frequencies + phases).sum(axis=1)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([UNIFORM, WOBBLING]))
def test_streams_are_what_their_response_says(seed, plate):
    rng = np.random.default_rng(seed)
    one = scan(plate)
    still = dataclasses.replace(one, pointing=stream_pointing(one.pointing, 1))
    seen, values, skies = slow(rng, N, 0.6), [], []
    for detector in range(2):
        # the sky of which the streams are `seen`, as the detector has it behind the plate
        streams = np.stack([response(still, 3 * detector + stream) for stream in range(3)], axis=1)
        skies.append(np.linalg.solve(streams, seen[..., None])[..., 0])
        values.append((response(one, detector) * skies[-1]).sum(axis=1))
    found = demodulate(scan(plate, np.stack(values)), bandwidth=0.8, stop=1.6)
    assert found.sample_rate == RATE / 20 and found.n_samp == 300
    low_pass = found.meta["low_pass"]
    assert low_pass.gain_error < 2e-4 and low_pass.rejection < 2e-4
    good = read_flags(found, 0, 0, found.n_samp) == 0
    assert good.sum() > 200
    sparse = one.pointing.decimated(20)
    for stream in range(6):
        expected = (response(found, stream) * skies[stream // 3][::20]).sum(axis=1)
        np.testing.assert_allclose(expected, seen[::20, stream % 3], rtol=0, atol=1e-6)
        assert np.abs(signal(found, stream) - expected)[good].max() < 6 * 3e-4
        vectors = (of.directions(n, 0, 300)[0] for of, n in ((found.pointing, stream), (sparse, stream // 3)))
        np.testing.assert_array_equal(*vectors)


def test_offsets_and_harmonics_of_the_plate_are_rejected():
    angle = UNIFORM.phase + UNIFORM.rate * np.arange(N)
    for harmonic in (0, 1, 2, 3, 5, 8):
        found = demodulate(scan(values=np.tile(np.cos(harmonic * angle + 1), (2, 1))))
        good = read_flags(found, 0, 0, found.n_samp) == 0
        for stream in range(3):
            largest = np.abs(signal(found, stream)[good]).max()
            assert (largest < 2.5e-4) if harmonic or stream else largest == pytest.approx(np.cos(1), rel=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 200), st.integers(1, 100), st.booleans())
def test_no_sample_depends_on_the_range(seed, start, n, dilate):
    rng = np.random.default_rng(seed)
    one = scan(WOBBLING, rng.standard_normal((2, N)))
    one = dataclasses.replace(
        one, flags=(Samples((rng.random((2, N)) < 1e-3).astype(np.uint8)),), intervals=((30, 2000), (2100, N))
    )
    found = demodulate(one, downsample=15, dilate=dilate)
    stop = min(start + n, found.n_samp)
    for stream in (0, 4):
        np.testing.assert_array_equal(
            read_signal(found, stream, start, stop), signal(found, stream)[start:stop]
        )
        flags = read_flags(found, stream, 0, found.n_samp)
        np.testing.assert_array_equal(read_flags(found, stream, start, stop), flags[start:stop])
        half = len(found.meta["low_pass"].filter.taps) // 2
        bad = read_flags(one, stream // 3, 0, N)
        for k in range(start, stop):
            begin, end = 15 * k - half, 15 * k + half + 1
            inside = [a <= 15 * k < b and not (a <= begin and end <= b) for a, b in one.intervals]
            own = bad[max(begin, 0) : end].any() if dilate else bad[15 * k]
            assert bool(flags[k]) == bool(own or any(inside))


def test_what_is_no_data_is_never_used():
    bad = np.zeros((2, N), np.uint8)
    bad[0, 3000:3003] = 1
    plain, unsound = Samples(bad), NoData(bad)
    found = [
        demodulate(dataclasses.replace(scan(), flags=(one,)), downsample=15, dilate=False)
        for one in (plain, unsound)
    ]
    sound, dilated = (read_flags(one, 1, 0, one.n_samp) for one in found)
    half = len(found[0].meta["low_pass"].filter.taps) // 2
    made_of_them = np.flatnonzero(dilated > sound) * 15
    assert sound[200] and not sound[198] and dilated[198]
    assert made_of_them.min() >= 3000 - half and made_of_them.max() <= 3003 + half
    np.testing.assert_array_equal(*(read_flags(one, 4, 0, one.n_samp) for one in found))


def test_noise_is_that_of_the_streams():
    rng, rounds = np.random.default_rng(4), 20
    model = OneOverF(0.05, 1.0, 1e-2, -1.5)
    one = scan(noise=White())
    one = dataclasses.replace(one, noise=type("Same", (), {"noise_model": lambda *_: model})())
    f = np.fft.rfftfreq(2 * N, 1 / RATE)[1:]
    amplitude = np.sqrt(sampled_psd(model, f, RATE) * RATE / 4 * 2 * N)
    ratios = []
    for _ in range(rounds):
        parts = rng.standard_normal((2, 2, len(f))) * amplitude
        noise = np.fft.irfft(np.pad(parts[0] + 1j * parts[1], ((0, 0), (1, 0))), axis=1)[:, :N]
        found = demodulate(dataclasses.replace(one, signals=(Samples(noise),)))
        good = np.flatnonzero(read_flags(found, 0, 0, found.n_samp) == 0)
        for stream in range(6):
            values = signal(found, stream)[good[0] : good[-1] + 1]
            window = np.hanning(len(values))
            power = np.abs(np.fft.rfft(values * window)) ** 2 * 2 / found.sample_rate / (window**2).sum()
            at = np.fft.rfftfreq(len(values), 1 / found.sample_rate)
            expected = sampled_psd(found.noise.noise_model(stream, 0), at, found.sample_rate)
            most = len(at) * 4 // 5  # above, the model has half of the noise at least
            ratios.append((stream % 3, (power / expected)[3:most]))
    for stream in range(3):
        mean = np.mean([ratio for number, ratio in ratios if number == stream], axis=0)
        assert mean.mean() == pytest.approx(1, abs=0.03)
        for part in np.array_split(mean, 4):  # 1/f, white, and what decimation folds
            assert part.mean() == pytest.approx(1, abs=0.12)
    white = demodulate(scan()).noise.noise_model(1, 0)
    assert sampled_psd(white, np.array([0.3]), 5.0)[0] == pytest.approx(2 * 2 * 0.05**2, rel=0.01)


def test_common_noise_and_azimuth_follow():
    class Track:
        def azimuths(self, start, stop):
            return np.arange(start, stop) * 0.01

    shared = CommonNoise(np.array([1.0, 0.5]), OneOverF(0.1, 1.0, 1e-3, -2.0))
    found = demodulate(scan(common_noise=(shared,), azimuth=Track()), downsample=10)
    np.testing.assert_array_equal(found.azimuth.azimuths(3, 6), [0.3, 0.4, 0.5])
    assert [one.couplings.tolist() for one in found.common_noise] == [
        [1, 0, 0, 0.5, 0, 0], [0, 1, 0, 0, 0.5, 0], [0, 0, 1, 0, 0, 0.5]
    ]  # fmt: skip
    slow_part, modulated, _ = (sampled_psd(m.model, np.array([0.2]), 5.0)[0] for m in found.common_noise)
    expected = sampled_psd(shared.model, np.array([0.2, 4 * PLATE - 0.2, 4 * PLATE + 0.2]), RATE)
    assert slow_part == pytest.approx(expected[0], rel=1e-3)
    assert modulated == pytest.approx(expected[1] + expected[2], rel=1e-3)


@pytest.mark.parametrize(
    "plate, options, message",
    [
        (None, {}, "observation first: there is no half-wave plate"),
        (UniformPlate(0.3, 0.0), {}, "does not turn in one direction"),
        (SampledPlate(np.sin(np.arange(N) / 500)), {}, "does not turn in one direction"),
        (SampledPlate(np.mod(1e-5 * np.arange(N) ** 2, 6.28)), {}, "not steadily enough"),
        (UNIFORM, {"bandwidth": 5.0}, "intensity is seen at 8 Hz"),
        (UniformPlate(0.3, 2 * np.pi * 5.5 / RATE), {}, "twice the modulation is seen at 6 Hz"),
        (UNIFORM, {"bandwidth": 1.0, "stop": 0.9}, "stop 0.9 Hz is not above the bandwidth"),
        (UNIFORM, {"downsample": 17}, "keep one of 16 at most"),
        (UNIFORM, {"sample_rate": 7.0}, "no whole part of the 50 Hz"),
        (UNIFORM, {"sample_rate": 7.0, "downsample": 2}, "say the same"),
        (UNIFORM, {"bandwidth": 1.0, "stop": 1.02}, "no stationary interval has as many"),
        (UNIFORM, {"observations": ("x",)}, "no observation 'x'"),
    ],
)
def test_errors(plate, options, message):
    with pytest.raises(ConfigError, match=message):
        demodulate(scan(plate), **options)


def test_templates_are_of_the_streams():
    before = OffsetsSource(OffsetsOptions(), SourceContext(Path())).extend([scan()])[0]
    with pytest.raises(ConfigError, match="offsets is named before demodulation"):
        demodulate(before)
    with pytest.raises(ConfigError, match="there is no half-wave plate"):
        PlateSynchronous().term(demodulate(scan()), 0, 10)
    assert plate_frequencies(scan(WOBBLING)) == pytest.approx((PLATE, PLATE), rel=0.01)
