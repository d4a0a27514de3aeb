"""Observations in other units of temperature: mapped in K_CMB, with their noise."""

from dataclasses import replace

import numpy as np
import pytest
from made_observations import White, observation, signal_of
from small_runs import run_on

from petacomm.base.errors import DataError
from petamap.data.checks import check_observations
from petamap.data.config import open_sources, parse_config
from petamap.data.formats.toast_write import write_toast
from petamap.data.formats.volume_write import write_volume
from petamap.data.kelvin import in_kelvin, scaled_model
from petamap.data.observation import noise_models
from petamap.noise.common_modes import CommonNoise
from petamap.noise.model import EstimatedPsd, InverseLags, OneOverF, TabulatedPsd
from petamap.noise.psd import noise_psd

VOLUMES = """
[map]
n_side = 8
stokes = "I"
[noise]
n_lag = 4
[[source]]
kind = "{kind}"
path = "micro"
[[source]]
kind = "{kind}"
path = "kelvin"
"""


def two():
    """Return an observation in uK, and the next night in K."""
    one = observation("one", noise=White())
    other = observation("second", noise=White())
    return replace(one, unit="uK"), replace(other, uid=one.uid + 1, unit="K_CMB")


@pytest.mark.parametrize("kind", ["toast", "volume"])
def test_volumes_in_two_units_are_mapped_in_one(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    for folder, one in zip(("micro", "kelvin"), two(), strict=True):
        (tmp_path / folder).mkdir()
        if kind == "toast":
            write_toast(tmp_path / folder, [one])
        else:
            write_volume(tmp_path / folder / "one.h5", [one])
    found = open_sources(parse_config(VOLUMES.format(kind=kind)))
    assert [one.unit for one in found] == ["K_CMB", "K_CMB"] and not check_observations(found)
    for factor, given, one in zip((1e-6, 1.0), two(), found, strict=True):
        for detector in range(one.n_det):
            np.testing.assert_array_equal(signal_of(one, detector), factor * signal_of(given, detector))
        for models, originals in zip(noise_models(one), noise_models(given), strict=True):
            assert models[0].net == pytest.approx(factor * originals[0].net, rel=1e-12)


def test_maps_do_not_depend_on_the_unit(tmp_path):
    micro, _ = two()
    kelvin = in_kelvin([micro])[0]
    chosen = {"map": {"n_side": 8, "stokes": "I"}, "noise": {"n_lag": 4}}
    summaries = [run_on([one], tmp_path / str(k), **chosen) for k, one in enumerate((micro, kelvin))]
    by_kind = [{one.kind: (one.sha256, one.unit) for one in summary.products} for summary in summaries]
    assert by_kind[0] == by_kind[1]
    assert by_kind[0]["map"][1] == "K_CMB" and by_kind[0]["covariance"][1] == "K_CMB^2"


@pytest.mark.parametrize(
    "unit", ["K", "uK", "muK", "microkelvin", "kelvin", "Kelvin", "uk", "mK_CMB", "nK", "MK"]
)
def test_units_of_temperature_by_any_name(unit):
    factors = {"K": 1, "kelvin": 1, "Kelvin": 1, "mK_CMB": 1e-3, "nK": 1e-9, "MK": 1e6}
    given = replace(two()[0], unit=unit)
    (one,) = in_kelvin([given])
    assert one.unit == "K_CMB" and in_kelvin([one]) == [one]
    factor = factors.get(unit, 1e-6)
    np.testing.assert_allclose(signal_of(one, 1), factor * signal_of(given, 1), rtol=1e-11)


@pytest.mark.parametrize("unit", ["ADU", "V", "K_RJ", "pW", "K m", "", "MJy/sr"])
def test_other_units_are_left(unit):
    given = replace(two()[0], unit=unit)
    (one,) = in_kelvin([given])
    assert one is given and not check_observations([one])


def test_units_that_are_not_understood_are_told():
    one, other = (replace(each, unit="mk") for each in two())
    (warning,) = check_observations([one, other])
    assert "unit 'mk'" in warning and "microkelvin" in warning and "one" in warning
    with pytest.raises(DataError, match=r"second.*is in K_CMB, but .*one is in mk.*correct the unit.*mK"):
        check_observations([one, replace(other, unit="K_CMB")])
    with pytest.raises(DataError, match=r"is in K_CMB, but .* is in ADU.*calibrate all to K_CMB"):
        check_observations([replace(one, unit="ADU"), replace(other, unit="K_CMB")])


def test_noise_of_each_kind_is_scaled():
    frequencies, values = np.array([0.1, 1.0, 10.0]), np.array([3.0, 2.0, 1.0])
    for model in (
        OneOverF(2.0, 0.5, 0.01, -1.5), TabulatedPsd(frequencies, values),
        EstimatedPsd(frequencies, values, 0.1 * values),
    ):  # fmt: skip
        found = scaled_model(model, 1e-3)
        assert type(found) is type(model)
        np.testing.assert_allclose(noise_psd(found, frequencies), 1e-6 * noise_psd(model, frequencies))
    lags = np.array([4.0, -1.0])
    np.testing.assert_allclose(scaled_model(InverseLags(lags), 1e-3).lags, 1e6 * lags)
    shared = CommonNoise(np.ones(3), OneOverF(2.0))
    (one,) = in_kelvin([replace(two()[0], common_noise=(shared,))])
    assert one.common_noise[0].model.net == pytest.approx(2e-6)
