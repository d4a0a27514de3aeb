"""Gains and leakage that a simulation has, solved for: what is left of them in Q and U."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_systems import make_system, solve

from petacomm.base.errors import ConfigError
from petamap.data.config import open_sources
from petamap.data.config.reader import parse_config
from petamap.data.observation import Signal
from petamap.data.template import Sharing
from petamap.mapmaking.amplitude_table import gather_amplitudes
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import write_map
from petamap.templates.known_signals import linear_knots

SCAN = """
[map]
n_side = 16
[[source]]
kind = "satellite"
n_det = 4
spacing = "4 deg"
sample_rate = "4 Hz"
duration = "8 h"
opening = "50 deg"
precession_period = "96 min"
precession_angle = "45 deg"
net = "100 uK s^0.5"
fknee = "20 mHz"
fmin = "1 mHz"
alpha = -1.5
[[source]]
kind = "sky-spectra"
n_side = 16
scale = 10
[[source]]
kind = "noise"
"""
RASTER = """
[map]
pixelization = "car"
resolution = "1 deg"
frame = "equatorial"
[[source]]
kind = "ground"
n_det = 2
sample_rate = "20 Hz"
duration = "40 min"
azimuth_min = "160 deg"
azimuth_max = "200 deg"
turnarounds = "keep"
net = "100 uK s^0.5"
"""


@dataclasses.dataclass(frozen=True, eq=False)
class Errors:
    """A signal times errors (n_det, n_cells) of gains, of n_samp samples."""

    signal: Signal
    errors: np.ndarray
    n_samp: int

    def add_signal(self, detector, start, stop, out):
        values = np.zeros(stop - start)
        self.signal.add_signal(detector, start, stop, values)
        out += values * self.errors[detector][np.arange(start, stop) * self.errors.shape[1] // self.n_samp]


def opened(source, folder=Path()):
    text = SCAN + f"[[source]]\n{source}\n"
    return open_sources(parse_config(text, folder / "known.toml"))[0]


def solved(observation):
    system = make_system([observation], Healpix(16, nest=True), n_lag=256, preconditioner="two-level")
    solution = solve(system, 1e-8, 60)
    assert solution.converged
    return system, solution


def left(observation, errors):
    """Return what 1 % errors change in Q and U, in units of the noise, without and with the template."""
    known = observation.templates[0].signal
    wrong = (*observation.signals, Errors(known, errors, observation.n_samp))
    plain = dataclasses.replace(observation, templates=())
    sky, clean, raw = (
        solved(dataclasses.replace(plain, signals=signals))
        for signals in (observation.signals[:1], observation.signals, wrong)
    )
    system, found = solved(dataclasses.replace(observation, signals=wrong))
    assert found.iterations <= 1.5 * clean[1].iterations
    factors = gather_amplitudes(system, found).values.reshape(errors.shape)
    written = ~system.statistics.dead
    q, q_clean, q_raw, q_found = (
        np.squeeze(one.map.pixels)[written, 1:] for one in (sky[1], clean[1], raw[1], found)
    )
    noise = (q_clean - q).std()
    return factors, (q_raw - q_clean).std() / noise, (q_found - q_clean).std() / noise


@pytest.mark.parametrize(("length", "n"), [("0 s", 1), ("1 h", 8)])
def test_gains_are_solved_for_by_the_dipole(length, n):
    observation = opened(f'kind = "gain-drift"\nrms = 0.01\nlength = "{length}"')
    errors = 0.01 * np.random.default_rng(1).standard_normal((4, n))
    errors -= errors.mean(axis=0)  # what all have in common is the calibration of the map
    factors, raw, found = left(observation, errors)
    assert raw > 0.05
    assert found < 0.02
    assert np.std(factors - errors) < 0.25 * np.std(errors)


def sky_file(folder):
    """Write a map of a few mK, by far larger in I than the noise."""
    rng = np.random.default_rng(3)
    values = np.array([[3e-3], [3e-4], [3e-4]]) * rng.standard_normal((3, 12 * 16**2))
    names, pixels = ("I", "Q", "U"), Healpix(16, nest=True)
    write_map(folder / "sky.fits", values, pixels, names=names, unit="K_CMB", run_id="made", frame="galactic")


def test_leakage_of_a_known_map_is_solved_for(tmp_path):
    sky_file(tmp_path)
    observation = opened('kind = "leakage"\nmap = "sky.fits"\nrms = 0.01', tmp_path)
    errors = 0.01 * np.array([[1.0], [-1.5], [0.7], [-0.2]])
    factors, raw, found = left(observation, errors)
    assert raw > 0.05
    assert found < 0.02
    assert np.std(factors - errors) < 0.1 * np.std(errors)


def test_leakage_is_of_temperature_and_gains_of_all(tmp_path):
    sky_file(tmp_path)
    leaks, gains = (
        opened(f'kind = "{kind}"\nmap = "sky.fits"\nrms = 0.01', tmp_path).templates[0]
        for kind in ("leakage", "gain-drift")
    )
    assert leaks.signal.sky.values.shape[1] == 1
    assert gains.signal.sky.values.shape[1] == 3


def test_a_signal_that_is_not_finite_is_refused():
    observation = opened('kind = "gain-drift"\nrms = 0.01')
    wrong = Errors(observation.signals[0], np.full((4, 1), np.nan), observation.n_samp)
    template = dataclasses.replace(observation.templates[0], signal=wrong)
    with pytest.raises(ConfigError, match="not finite"):
        template.detector_term(observation, 0, 0, 100).columns(0, 100)


@pytest.mark.parametrize(
    "source", ['kind = "gain-drift"\nlength = "2 h"', 'kind = "leakage"\nmap = "sky.fits"']
)
def test_simulated_factors_multiply_the_known_signal(source, tmp_path):
    sky_file(tmp_path)
    observation = opened(f"{source}\nrms = 0.01\nsimulate = 0.02", tmp_path)
    known, simulated = observation.templates[0].signal, observation.signals[-1]
    n, cells = observation.n_samp, 4 if "gain" in source else 1
    for detector in range(4):
        m, s = np.zeros(n), np.zeros(n)
        known.add_signal(detector, 0, n, m)
        simulated.add_signal(detector, 0, n, s)
        assert np.abs(m).max() <= known.largest <= 10 * np.abs(m).max()
        factors = s[m != 0] / m[m != 0]
        parts = np.array_split(factors, cells) if cells == 1 else [factors[100:1000], factors[-1000:-100]]
        assert all(np.ptp(part) < 1e-9 and 1e-4 < abs(part[0]) < 0.1 for part in parts)
    drawn = opened(f"{source}\nrms = 0.01\nsimulate = 0.02\nsolve = false", tmp_path)
    assert not drawn.templates and len(drawn.signals) == len(observation.signals)


def test_leakage_without_a_map_is_of_the_sky_that_is_simulated():
    observation = opened('kind = "leakage"\nrms = 0.01\nsimulate = 0.02\nper = "run"')
    assert observation.templates[0].signal is None
    sky, leak = observation.signals[0], observation.signals[-1]
    bare = dataclasses.replace(sky, sky=type(sky.sky)(sky.sky.pixelization, lambda: sky.sky.values[:, :1].T))
    values = np.zeros((2, 500))
    bare.add_signal(1, 0, 500, values[0])
    leak.add_signal(1, 0, 500, values[1])
    assert np.ptp(values[1] / values[0]) < 1e-9


def test_leakage_of_no_sky_cannot_be_simulated():
    text = SCAN.replace('[[source]]\nkind = "sky-spectra"\nn_side = 16\nscale = 10\n', "")
    text += '[[source]]\nkind = "leakage"\nrms = 0.01\nsimulate = 0.02\n'
    with pytest.raises(ConfigError, match="no sky is simulated") as caught:
        open_sources(parse_config(text, Path("known.toml")))
    assert "known.toml:" in str(caught.value)


def test_a_factor_in_common_needs_a_signal_whose_largest_is_known():
    observation = opened('kind = "gain-drift"\nrms = 0.01')
    signal = Errors(observation.signals[0], np.ones((4, 1)), observation.n_samp)
    template = dataclasses.replace(observation.templates[0], signal=signal, sharing=Sharing("run"))
    with pytest.raises(ConfigError, match="largest is not known"):
        template.detector_term(observation, 0, 0, 100)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 3000), st.floats(1e-3, 30.0), st.floats(1e-6, 0.1))
def test_samples_are_linear_between_knots_to_the_accuracy(n, period, accuracy):
    samples = np.cos(np.abs(np.arange(n) - n / 3) / 100 / period)  # with a kink, as at a turnaround
    knots = linear_knots(samples, accuracy)
    assert knots[0] == 0 and knots[-1] == n - 1 and (np.diff(knots) > 0).all()
    assert np.abs(np.interp(np.arange(n), knots, samples[knots]) - samples).max() <= accuracy


def test_a_straight_line_has_few_knots():
    assert len(linear_knots(np.linspace(0, 1, 10_000), 1e-9)) == 11


@pytest.mark.parametrize(
    ("scan", "n_bytes"),
    [(SCAN.replace('"4 Hz"', '"40 Hz"'), 1.5), (RASTER, 0.5)],
    ids=["satellite", "ground"],
)
def test_the_dipole_takes_little_memory_and_every_sample_of_it_is_right(scan, n_bytes):
    text = scan + '[[source]]\nkind = "gain-drift"\nrms = 0.01'
    observation = open_sources(parse_config(text, Path("known.toml")))[0]
    template, n = observation.templates[0], observation.n_samp
    for detector in range(2):
        term = template.detector_term(observation, detector, 0, n)
        assert term.read is None and term.values.nbytes + term.knots.nbytes < n_bytes * n
        samples = np.zeros(n)
        template.signal.add_signal(detector, 0, n, samples)
        assert np.abs(term.columns(0, n)[0] * term.divisor - samples).max() < 1.01e-4 * term.divisor
