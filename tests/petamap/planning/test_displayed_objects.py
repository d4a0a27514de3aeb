"""What petamap returns shows itself in a line and as a table, however large it is."""

import numpy as np
import pytest

import petacomm
import petamap
from petamap.sky.power_spectra import Spectra

CONFIG = """
[run]
name = "night"
[map]
n_side = 16
[noise]
n_lag = 64
[[source]]
kind = "satellite"
duration = "2 h"
sample_rate = "5 Hz"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "10 mHz"
"""


@pytest.fixture(scope="module")
def config():
    return petamap.parse_config(CONFIG)


def assert_short(thing):
    """Assert that a line says it, and that the table says the same."""
    text, html = repr(thing), thing._repr_html_()
    assert "\n" not in text and len(text) < 300 and "array" not in text
    for value in thing._facts().values():
        assert value in (None, "") or str(value).split(",")[0] in html
    return text


def test_configurations_and_runs(config, tmp_path):
    text = assert_short(config)
    assert text.startswith(
        "RunConfig(name=night, map=IQU on healpix n_side 16, galactic, sources=satellite, noise"
    )
    summary = petamap.run(config, out=tmp_path)
    text = assert_short(summary)
    assert "of 72,000, " in text and "converged in " in text and "NOT" not in text
    found = petamap.bandpowers(tmp_path, width=8, pixel_window=False)
    assert "TT, EE, BB, TE, EB, TB, bins=" in assert_short(found)
    assert_short(found.bandpowers)


def test_plans(config):
    text = assert_short(petamap.plan(config, 4, petacomm.load_machine("perlmutter")))
    assert "machine=perlmutter, cores=4, n_samp=72,000, n_pix=3,072, fastest=" in text


def test_data_and_pointing():
    names = tuple(f"d{i}" for i in range(1000))
    one = petamap.Observation(name="n", uid=1, n_samp=10, sample_rate=2.0, detectors=names)
    assert "detectors=1000: d0, d1, ... d999, n_samp=10" in assert_short(one)
    quaternions = np.tile([0.0, 0.0, 0.0, 1.0], (100, 1))
    boresight = petamap.Boresight(quaternions, 100)
    assert "n_samp=100, knots=100" in assert_short(boresight)
    assert "n_det=2, n_samp=100" in assert_short(petamap.CompressedPointing(boresight, quaternions[:2]))
    spectra = Spectra(np.ones((2, 11)), ("TT", "EE"))
    assert assert_short(spectra) == "Spectra(names=TT, EE, l_max=10, unit=K_CMB^2)"
