"""Bands and components of runs that do not fit together, or do not fit the data."""

from dataclasses import replace

import numpy as np
import pytest
from small_runs import config, noisy_scans, run_on

from petacomm.base.errors import ConfigError
from petamap.data.config import BandOptions, ComponentOptions
from petamap.mapmaking.frequency_bands import band_parts, mixing_factors

BANDS = (
    BandOptions("low", ("d0", "d1"), 90e9), BandOptions("mid", ("d2", "d3"), 150e9),
    BandOptions("high", ("d4", "d5"), 220e9),
)  # fmt: skip
COMPONENTS = (ComponentOptions("cmb", "cmb"), ComponentOptions("dust", "dust", polarization_beta=1.6))


def run_of(out, components=COMPONENTS, **changes):
    chosen = {"map": {"n_side": 4}} | changes
    return run_on(noisy_scans(600, 6), out, bands=BANDS, components=components, **chosen)


@pytest.mark.parametrize(
    ("bands", "message"),
    [
        (BANDS[:2], r"in no band: d4, d5"),
        ((*BANDS, BandOptions("none", ("x*",))), r"band none: no detector 'x\*'"),
        ((*BANDS, BandOptions("two", ("d1",))), r"band two: detector 'd1' is in band 'low', too"),
        ((*BANDS, BandOptions("empty", ())), r"band empty: has no detectors"),
    ],
)
def test_detectors_are_in_one_band(bands, message):
    with pytest.raises(ConfigError, match=message):
        band_parts(bands, noisy_scans(600, 6))


def test_bands_that_see_components_alike_are_refused(tmp_path):
    alike = ComponentOptions("more", "factors", factors=(1.0, 1.0, 1.001))
    with pytest.raises(ConfigError, match="bands do not tell components 'cmb', 'more' apart in I"):
        run_of(tmp_path, components=(COMPONENTS[0], alike))


@pytest.mark.parametrize(
    "dust", [{"factors": (0.0, 0.0, 0.0)}, {"factors": (1.0, 2.0, 3.0), "polarized": False}]
)
def test_a_component_that_no_band_sees_is_refused(tmp_path, dust):
    components = (COMPONENTS[0], ComponentOptions("dust", "factors", **dust))
    with pytest.raises(ConfigError, match="component dust: no band sees it in a map of QU"):
        run_of(tmp_path, components=components, map={"n_side": 4, "stokes": "QU"})


def test_spectra_need_thermodynamic_units(tmp_path):
    made = [replace(one, unit="Jy/beam") for one in noisy_scans(600, 6)]
    with pytest.raises(ConfigError, match="K_CMB"):
        run_on(made, tmp_path, bands=BANDS, components=COMPONENTS, map={"n_side": 4})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"products": {"pixel_covariance": True}}, "band low: products.pixel_covariance is of one map"),
        ({"components": (*COMPONENTS, *COMPONENTS)}, "more components than bands: 4 and 3"),
        ({"solver": {"preconditioner": "none"}}, "solver.preconditioner"),
    ],
)
def test_what_does_not_fit_together_is_told(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        run_of(tmp_path, **changes)


def test_factors_are_those_of_the_spectra():
    stokes = {"map": {"n_side": 4, "stokes": "IQU"}}
    factors = mixing_factors(config(bands=BANDS, components=COMPONENTS, **stokes), "K_CMB")
    assert factors.shape == (3, 2, 3)
    np.testing.assert_array_equal(factors[:, 0], 1.0)
    assert np.all(np.diff(factors[:, 1], axis=0) > 0) and np.all(factors[:, 1] < 1)
    assert np.all(factors[:, 1, 1] < factors[:, 1, 0])  # a steeper spectrum in polarization
