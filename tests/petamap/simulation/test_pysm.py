"""Skies of PySM: templates are made here and given by PYSM_LOCAL_DATA, so that nothing is fetched."""

import sys

import numpy as np
import pytest
from pysm_templates import N_SIDE, TEMPLATES, write_pysm_templates

import petamap
from petacomm.base.errors import ConfigError, DataError, ResourceError
from petamap.data.config import open_sources
from petamap.simulation.pysm import read_bandpass
from petamap.sky.component_spectra import modified_blackbody, power_law, thermodynamic_conversion

pytest.importorskip("pysm3")


@pytest.fixture
def templates(tmp_path, monkeypatch):
    write_pysm_templates(tmp_path)
    monkeypatch.setenv("PYSM_LOCAL_DATA", str(tmp_path))
    return tmp_path


def made(lines, folder, frame="galactic"):
    """Return the observation of a configuration with PySM's sky, and its config."""
    text = f"""
[run]
name = "sky"
[map]
n_side = 8
[[source]]
kind = "satellite"
duration = "10 min"
sample_rate = "1 Hz"
frame = "{frame}"
[[source]]
kind = "sky-pysm"
n_side = {N_SIDE}
{lines}
"""
    (folder / "run.toml").write_text(text)
    return open_sources(petamap.load_config(folder / "run.toml"))[0]


def signal(observation):
    out = np.zeros(100)
    observation.signals[0].add_signal(0, 0, 100, out)
    return out, observation.pointing.directions(0, 0, 100)[1] * (2 * np.pi / 2**32)


def in_cmb(nu, name, stokes):
    """Return K_CMB of a template at frequencies: the project's own spectra, as oracle."""
    nu = np.atleast_1d(nu)
    if name == "dust":
        reference = 545e9 if stokes == "t" else 353e9
        spectrum = modified_blackbody(nu, reference, 1.6, 20.0)
    else:
        reference = 408e6 if stokes == "t" else 23e9
        spectrum = power_law(nu, reference, -3.0)
    return TEMPLATES[f"{name}_{stokes}_new"] * 1e-6 * thermodynamic_conversion(np.array(reference)) * spectrum


@pytest.mark.long
def test_a_single_frequency(templates):
    found, angle = signal(made('models = ["d1", "s1"]\nfrequency = "100 GHz"', templates))
    i, q, u = (in_cmb(100e9, "dust", s) + in_cmb(100e9, "synch", s) for s in "tqu")
    np.testing.assert_allclose(found, i + q * np.cos(angle) + u * np.sin(angle), rtol=2e-4)


def test_a_band_is_integrated_in_power(templates):
    """The mean of I_nu over the band, over that of the CMB's dB/dT: the weights are of power."""
    (templates / "band.txt").write_text("80 0.1\n90 0.5\n100 1\n110 1\n120 0.2\n")
    found, angle = signal(made('models = ["d1"]\nbandpass = "band.txt"', templates))
    nu, weight = np.array([80, 90, 100, 110, 120]) * 1e9, np.array([0.1, 0.5, 1, 1, 0.2])
    per_cmb = nu**2 / thermodynamic_conversion(nu)  # dB/dT over a constant
    i, q, u = (
        np.trapezoid(weight * per_cmb * in_cmb(nu, "dust", s), nu) / np.trapezoid(weight * per_cmb, nu)
        for s in "tqu"
    )
    np.testing.assert_allclose(found, i + q * np.cos(angle) + u * np.sin(angle), rtol=2e-3)
    narrow, _ = signal(made('models = ["d1"]\nfrequency = "100 GHz"\nbandwidth = "10 MHz"', templates))
    single, _ = signal(made('models = ["d1"]\nfrequency = "100 GHz"', templates))
    np.testing.assert_allclose(narrow, single, rtol=1e-6)
    wide, _ = signal(made('models = ["d1"]\nfrequency = "100 GHz"\nbandwidth = "60 GHz"', templates))
    assert (wide / single).min() > 1.03


@pytest.mark.parametrize(
    ("lines", "error", "said"),
    [
        ('models = ["d99999"]\nfrequency = "1 GHz"', ConfigError, "PySM has no model"),
        ('models = ["d1"]', ConfigError, "or by its bandpass"),
        ('models = ["d1"]\nfrequency = "1 GHz"\nbandwidth = "3 GHz"', ConfigError, "below 0"),
        ('models = ["d1"]\nbandpass = "none.txt"', ConfigError, "no file"),
    ],
)
def test_what_is_no_band(templates, lines, error, said):
    with pytest.raises(error, match=said):
        made(lines, templates)


@pytest.mark.parametrize(
    "text",
    [
        "1e999 1\n2e999 0.5\n",
        "1 2 3\n4 5 6\n",
        "90 1\n80 1\n",
        "80 0\n90 0\n",
        "80 -1\n90 2\n",
        "a b\n",
        "90 1\n",
    ],
)
def test_bandpasses_that_are_none(tmp_path, text):
    (tmp_path / "band.txt").write_text(text)
    with pytest.raises(DataError, match=r"band\.txt"):
        read_bandpass(str(tmp_path / "band.txt"))


def test_templates_that_are_missing_have_a_mend(templates):
    (templates / "pysm_2" / "dust_u_new.fits").unlink()
    from astropy.utils.data import conf

    one = made('models = ["d1"]\nfrequency = "100 GHz"', templates)
    with conf.set_temp("allow_internet", False), pytest.raises(ResourceError, match="PYSM_LOCAL_DATA"):
        signal(one)


def test_other_frames_are_errors(templates):
    with pytest.raises(ConfigError, match="sky-map"):
        made('models = ["d1"]\nfrequency = "100 GHz"', templates, frame="ecliptic")


def test_without_pysm_there_is_a_mend(templates, monkeypatch):
    monkeypatch.setitem(sys.modules, "pysm3", None)
    with pytest.raises(ResourceError, match=r"petamap\[pysm\]"):
        made('models = ["d1"]\nfrequency = "100 GHz"', templates)
