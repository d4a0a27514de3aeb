"""Time constants: the filters against the analogue response, and what comes out of a source of them."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_observations import observation
from made_observations import signal_of as signal

from petacomm.base.errors import ConfigError, DataError
from petamap.data.config import open_signal_parts, parse_config
from petamap.data.observation import read_flags, read_signal
from petamap.data.sample_filter import SampleFilter
from petamap.data.source import SourceContext
from petamap.data.time_constants import (
    TimeConstantsOptions,
    TimeConstantsSource,
    deconvolution,
)
from petamap.noise.common_modes import CommonNoise
from petamap.noise.model import OneOverF
from petamap.noise.toeplitz import sampled_psd
from petamap.templates.sources import OffsetsOptions, OffsetsSource

CONTEXT = SourceContext(Path(), places={"taus": "run.toml:9"})


def deconvolved(one, **options):
    return TimeConstantsSource(TimeConstantsOptions(**options), CONTEXT).extend([one])[0]


@pytest.mark.parametrize("tau", [1e-3, 0.02, 0.1, 2.0])
def test_the_analogue_response_is_inverted_without_delay(tau):
    rate = 100.0
    frequencies = np.array([0.0, 0.05, 0.1, 0.2, 0.25]) * rate
    found = deconvolution(tau, rate).response(frequencies / rate)
    np.testing.assert_allclose(found, 1 + 2j * np.pi * frequencies * tau, rtol=2e-3)
    np.testing.assert_allclose(found[:3], 1 + 2j * np.pi * frequencies[:3] * tau, rtol=1e-6)


def test_an_input_that_was_held_comes_half_a_sample_late():
    f = 0.01  # cycles a sample
    held = deconvolution(20.0, 1.0, "held").response(np.array([f]))
    np.testing.assert_allclose(held, np.exp(-1j * np.pi * f) * (1 + 2j * np.pi * f * 20.0), rtol=1e-3)


def test_a_digital_filter_is_inverted_exactly():
    rng = np.random.default_rng(1)
    x, a = rng.standard_normal(400), np.exp(-1 / 3.0)
    y = np.zeros(400)
    for t in range(1, 400):
        y[t] = a * y[t - 1] + (1 - a) * x[t]
    found = deconvolution(3.0, 1.0, "held").apply(y, 399)
    np.testing.assert_allclose(found, x[1:], rtol=0, atol=1e-13)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(["analogue", "held"]), st.floats(0.01, 12),
    st.integers(0, 500), st.integers(1, 300),
)  # fmt: skip
def test_what_was_convolved_is_recovered_in_any_range(seed, response, samples, start, n):
    one = observation(n_samp=800)
    values = np.random.default_rng(seed).standard_normal((3, 800))
    one = dataclasses.replace(one, signals=(type(one.signals[0])(values),), noise=None)
    choice = {"tau": samples / one.sample_rate, "response": response}
    smooth = deconvolved(one, simulate=True, **choice)
    back = deconvolved(smooth, **choice)
    whole, stop = signal(back, 1), min(start + n, 800)
    np.testing.assert_array_equal(read_signal(back, 1, start, stop), whole[start:stop])
    margin = 9  # where derivatives see samples beyond the ends
    np.testing.assert_allclose(
        whole[margin:-margin], values[1, margin:-margin], rtol=0, atol=1e-9 * (1 + samples)
    )
    if samples > 1:
        assert np.std(signal(smooth, 1)) < 0.8 * np.std(values[1])


@pytest.mark.parametrize("response", ["analogue", "held"])
def test_samples_are_flagged_where_neighbours_are_missing(response):
    one = observation()
    found = deconvolved(one, tau=0.2, response=response, detectors=("D1",))
    before, after = (8, 8) if response == "analogue" else (1, 0)
    for detector in range(3):
        bad = read_flags(one, detector, 0, one.n_samp)
        expected = bad.copy()
        if detector == 1:
            for t in np.flatnonzero(bad):
                expected[max(t - after, 0) : t + before + 1] = 1
            for start, stop in one.intervals:
                expected[start : start + before] = 1
                expected[stop - after : stop] = 1
        np.testing.assert_array_equal(read_flags(found, detector, 0, one.n_samp), expected)
        for start, stop in ((0, 1), (7, 90), (100, 300)):
            np.testing.assert_array_equal(read_flags(found, detector, start, stop), expected[start:stop])
        sound = deconvolved(one, tau=0.2, response=response, detectors=("D1",), dilate=False)
        assert read_flags(sound, 1, 110, 140).sum() == read_flags(one, 1, 110, 140).sum()
        if detector != 1:
            np.testing.assert_array_equal(signal(found, detector), signal(one, detector))


def test_noise_is_that_of_the_streams_and_comes_back():
    one = observation()
    taus = (0.05, 0.2, 0.0)
    smooth, sharp = (deconvolved(one, taus=taus, simulate=simulate) for simulate in (True, False))
    f = np.geomspace(1e-3, one.sample_rate / 2, 40)
    for detector, interval in ((0, 0), (1, 0), (0, 1), (2, 1)):
        given = sampled_psd(one.noise.noise_model(detector, interval), f, one.sample_rate)
        power = 1.0
        if taus[detector]:
            power = np.abs(deconvolution(taus[detector], one.sample_rate).response(f / one.sample_rate)) ** 2
        for noise, factor in ((sharp.noise, power), (smooth.noise, 1 / power)):
            found = sampled_psd(noise.noise_model(detector, interval), f, one.sample_rate)
            np.testing.assert_allclose(found, given * factor, rtol=3e-4)
    assert sharp.noise.noise_model(2, 0) == one.noise.noise_model(2, 0)


def test_common_noise_follows_where_time_constants_are_equal():
    shared = CommonNoise(np.array([1.0, 0.5, 0.0]), OneOverF(0.1, 1.0, 1e-3, -2.0))
    one = dataclasses.replace(observation(), common_noise=(shared,))
    (found,) = deconvolved(one, taus=(0.1, 0.1, 0.3)).common_noise
    power = np.abs(deconvolution(0.1, 10.0).response(np.array([0.2]))) ** 2
    given = sampled_psd(shared.model, np.array([2.0]), 10.0)
    np.testing.assert_allclose(sampled_psd(found.model, np.array([2.0]), 10.0), given * power, rtol=3e-4)
    with pytest.raises(ConfigError, match="share noise that is named before them"):
        deconvolved(one, taus=(0.1, 0.2, 0.3))


def test_a_table_of_detectors(tmp_path):
    path = tmp_path / "tau.txt"
    path.write_text("# detector, s\nD1, 0.2\nD0 0.1\n")
    context = SourceContext(tmp_path)
    options = TimeConstantsOptions(table="tau.txt", detectors=("D0", "D1"))
    found = TimeConstantsSource(options, context).extend([observation()])[0]
    for detector, tau in enumerate((0.1, 0.2, 0.0)):
        expected = signal(deconvolved(observation(), tau=tau), detector)
        np.testing.assert_array_equal(signal(found, detector), expected)
    with pytest.raises(ConfigError, match=r"tau.txt: has no time constant of detector D2"):
        TimeConstantsSource(TimeConstantsOptions(table="tau.txt"), context).extend([observation()])
    for text, message in (
        ("D0", "tau.txt:1: has 1 words"), ("D0 x", "x is no time constant"),
        ("D0 -1", "no time constant"), ("D0 1\nD0 2", "tau.txt:2: has detector D0 again"),
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            TimeConstantsSource(options, SourceContext(tmp_path))


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "given nowhere"),
        ({"tau": 0.1, "table": "t"}, "given twice"),
        ({"taus": (0.1, 0.2)}, "run.toml:9: 2 time constants for 3 detectors of observation first"),
        ({"tau": 0.1, "detectors": ("E",)}, "no detector 'E'"),
        ({"tau": 0.1, "observations": ("E",)}, "no observation 'E'"),
        ({"tau": 31.0, "simulate": True}, "310 samples is too long"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ConfigError, match=message):
        deconvolved(observation(), **options)


def test_what_is_not_given_is_told_of_the_source():
    context = SourceContext(Path(), places={"kind": "run.toml:8"})
    with pytest.raises(ConfigError, match=r"run\.toml:8: time constants are given nowhere"):
        TimeConstantsSource(TimeConstantsOptions(), context)


def test_no_observations_and_templates_before():
    with pytest.raises(ConfigError, match="no source before it"):
        TimeConstantsSource(TimeConstantsOptions(tau=0.1), CONTEXT).extend([])
    one = OffsetsSource(OffsetsOptions(), CONTEXT).extend([observation()])[0]
    with pytest.raises(ConfigError, match="offsets is named before time constants"):
        deconvolved(one, tau=0.1)


SCAN = """
[map]
n_side = 16
[[source]]
kind = "satellite"
n_det = 2
sample_rate = "5 Hz"
duration = "2 min"
[[source]]
kind = "dipole"
[[source]]
kind = "sky-spectra"
n_side = 8
[[source]]
kind = "time-constants"
tau = "0.3 s"
simulate = true
[[source]]
kind = "noise"
net = "1 mK s^0.5"
[[source]]
kind = "time-constants"
taus = ["0.3 s", "0.2 s"]
"""


def test_realizations_are_filtered_as_the_run_is(tmp_path):
    config = parse_config(SCAN, tmp_path / "run.toml")
    observations, parts = open_signal_parts(config)
    (one,) = observations
    pieces = [*parts.fixed[one.name]]
    for source in parts.random_sources:
        pieces += source.signals(source.source(config.run.realization))[one.name]
    assert [source.part for source in parts.random_sources] == ["sky", "noise"]
    for detector in range(2):
        total = np.zeros(one.n_samp)
        for piece in pieces:
            piece.add_signal(detector, 0, one.n_samp, total)
        np.testing.assert_allclose(total, signal(one, detector), rtol=0, atol=1e-15)


def test_a_filter_of_one_tap_is_a_factor():
    np.testing.assert_array_equal(SampleFilter(np.array([2.0])).apply(np.arange(5.0), 5), 2 * np.arange(5.0))
