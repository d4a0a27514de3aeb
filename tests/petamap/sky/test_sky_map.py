"""What is done with maps in memory: healpy and astropy are the oracles."""

import healpy as hp
import numpy as np
import pytest
from astropy import units as u
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError, DataError
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels
from petamap.sky.sky_map import SkyMap

RNG = np.random.default_rng(5)
N_SIDE = 16
SKY = Healpix(N_SIDE)


def made(names=("I", "Q", "U"), unit="K_CMB", pixelization=SKY, frame="galactic", **rest):
    values = RNG.normal(size=(len(names), pixelization.n_pix))
    return SkyMap(values, pixelization, tuple(names), (unit,) * len(names), frame, **rest)


def test_sums_and_ratios_keep_units():
    one, other, hits = made(), made(), made(["HITS"], "")
    hits.values[0] = RNG.integers(0, 3, hits.values.shape[1])
    np.testing.assert_array_equal((one - other).values, one.values - other.values)
    assert (one + other).unit == "K_CMB"
    assert (one * other).unit == "K_CMB^2"
    assert (one * other / other).unit == "K_CMB"
    assert (one / other).unit == ""
    assert (one * hits).names == (hits * one).names == ("I", "Q", "U")
    assert (hits * one).unit == "K_CMB"
    assert (1 / one).units == ("1/K_CMB",) * 3
    assert (1 / one * one).unit == ""
    divided = one / hits
    assert np.isnan(divided.values[:, hits.values[0] == 0]).all()
    assert np.isfinite(divided.values[:, hits.values[0] > 0]).all()


def test_numbers_on_both_sides():
    one = made()
    mean = one.values.mean(axis=1)
    np.testing.assert_array_equal((one - mean).values, one.values - mean[:, None])
    np.testing.assert_array_equal((np.float64(2) * one).values, 2 * one.values)
    np.testing.assert_array_equal((1 - one).values, 1 - one.values)
    np.testing.assert_array_equal((-one).values, -one.values)
    mask = np.arange(one.values.shape[1]) % 2
    np.testing.assert_array_equal((mask * one).values, mask * one.values)
    with pytest.raises(ConfigError, match="one a pixel"):
        one * np.ones(7)
    with pytest.raises(TypeError):
        one + "a"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (made(unit="uK_CMB"), "to_unit"),
        (made(unit=""), "no unit"),
        (made(["I"]), "columns I, Q, U and I differ"),
        (made(frame="equatorial"), "equatorial"),
        (made(pixelization=Healpix(N_SIDE, nest=True)), "reordered"),
        (made(pixelization=Healpix(8)), "degrade"),
    ],
)
def test_maps_that_do_not_match_are_errors(other, said):
    with pytest.raises(DataError, match=said):
        made() + other


def test_columns_by_name():
    one = made()
    np.testing.assert_array_equal(one["Q", "U"].values, one.values[1:])
    assert one["U"].names == ("U",)
    with pytest.raises(DataError, match="no column 'q'"):
        one["q"]


def test_masks_keep_where_they_are_above_zero():
    one = made()
    keep = RNG.random(one.values.shape[1])
    keep[:100], keep[200] = 0, np.nan
    expected = np.isfinite(keep) & (keep > 0)
    found = one.masked(keep)
    np.testing.assert_array_equal(found.observed, expected)
    mask = SkyMap(keep[None], one.pixelization, ("MASK",), ("",))
    np.testing.assert_array_equal(one.masked(mask).values, found.values)
    np.testing.assert_array_equal(one.masked(expected).values, found.values)
    with pytest.raises(DataError, match="a mask of 3 columns"):
        one.masked(one)
    with pytest.raises(DataError, match="shape"):
        one.masked(keep[:5])


@pytest.mark.parametrize("ghz", [30.0, 70.0, 353.0])
def test_units_are_those_of_astropy(ghz):
    from astropy import units as u

    one = made(["I"])
    frequency = f"{ghz:g} GHz"
    cmb = u.thermodynamic_temperature(ghz * u.GHz, 2.7255 * u.K)
    jansky = (one.values * u.K).to(u.MJy / u.sr, cmb).value
    np.testing.assert_allclose(one.to_unit("MJy/sr", frequency).values, jansky, rtol=1e-9)
    rayleigh = (jansky * u.MJy / u.sr).to(u.K, u.brightness_temperature(ghz * u.GHz)).value
    in_rj = one.to_unit("K_RJ", frequency=ghz * 1e9)
    np.testing.assert_allclose(in_rj.values, rayleigh, rtol=1e-9)
    assert in_rj.unit == "K_RJ"
    back = in_rj.to_unit("MJy/sr", frequency).to_unit("uK_CMB", frequency)
    np.testing.assert_allclose(back.values, 1e6 * one.values, rtol=1e-13)
    assert back.unit == "uK_CMB"


def test_units_without_a_frequency():
    one = made(["I"])
    assert one.to_unit("uK").unit == "uK_CMB"
    squared = one * one
    np.testing.assert_allclose(squared.to_unit("uK_CMB^2").values, 1e12 * squared.values, rtol=1e-15)
    for unit, error, said in [
        ("K_RJ", ConfigError, "frequency"),
        ("MJy/sr", ConfigError, "frequency"),
        ("furlong", ConfigError, "known"),
        ("K_CMB^2", DataError, "power"),
    ]:
        with pytest.raises(error, match=said):
            one.to_unit(unit)
    with pytest.raises(DataError, match="Jy/beam"):
        made(["I"], "Jy/beam").to_unit("K_CMB")
    for frequency in (-1.0, 100, ["100 GHz"]):  # 100 Hz would make K_CMB of K_RJ
        with pytest.raises(ConfigError, match=r"a frequency of .*100 GHz"):
            one.to_unit("K_RJ", frequency=frequency)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([1, 2, 4]), st.booleans(), st.integers(0, 2**32 - 1))
def test_degrading_is_that_of_healpy(factor, nest, seed):
    one = made(pixelization=Healpix(8, nest))
    one.values[:, np.random.default_rng(seed).random(one.values.shape[1]) < 0.6] = np.nan
    found = one.degrade(8 // factor)
    order = "NEST" if nest else "RING"
    expected = hp.ud_grade(one.to_healpy(nest), 8 // factor, order_in=order, order_out=order)
    np.testing.assert_allclose(found.to_healpy(nest), expected, rtol=0, atol=1e-15)


def test_degrading_by_hits_is_the_map_of_the_sums():
    one, hits = made(["I"]), made(["HITS"], "")
    hits.values[0] = RNG.integers(0, 4, hits.values.shape[1])
    found = one.degrade(4, weights=hits)
    sums = [hp.ud_grade(x.values[0], 4, power=-2) for x in (one * hits, hits)]
    np.testing.assert_allclose(found.values[0], sums[0] / sums[1], rtol=1e-11)
    assert found.unit == "K_CMB" and found.pixelization == Healpix(4)
    with pytest.raises(DataError, match="negative"):
        one.degrade(4, weights=-hits.values[0])


def test_degrading_images():
    patch = CarPatch.box((30.0, -40.0), (20.0, 10.0), 0.5)
    one = made(pixelization=patch)
    found = one.degrade(factor=4)
    assert found.pixelization.shape == (5, 10)
    numbers = np.empty(patch.n_pix, np.int32)  # every pixel lies in its larger one
    found.pixelization.pixels_of(patch.directions_of(np.arange(patch.n_pix)), numbers)
    cosine = np.sqrt(1 - patch.directions_of(np.arange(patch.n_pix))[:, 2] ** 2)
    sums = np.bincount(numbers, one.values[1] * cosine) / np.bincount(numbers, cosine)
    np.testing.assert_allclose(found.values[1], sums, rtol=1e-12)
    with pytest.raises(ConfigError, match="take one of 1, 2, 4"):
        one.degrade(factor=3)
    with pytest.raises(ConfigError, match="give factor"):
        one.degrade(4)
    with pytest.raises(ConfigError, match="n_side or factor"):
        one.degrade()
    with pytest.raises(ConfigError, match="no neighbours"):
        made(pixelization=NumberedPixels(12)).degrade(factor=2)


def band_limited(n_side, l_max=24):
    cl = 1 / (np.arange(l_max + 1.0) + 1) ** 2
    cl[:2] = 0
    l, m = hp.Alm.getlm(l_max)  # noqa: E741
    draw = np.random.default_rng(3).normal(size=(2, 3, len(m)))
    alm = (draw[0] + 1j * draw[1] * (m > 0)) * np.sqrt(cl)[l]
    return alm, np.asarray(hp.alm2map(alm, n_side, lmax=l_max))


@pytest.mark.parametrize("nest", [False, True])
def test_smoothing_is_that_of_healpy(nest):
    _, values = band_limited(N_SIDE)
    fwhm = np.radians(10.0)
    expected = np.asarray(hp.smoothing(values, fwhm=fwhm, iter=3))
    one = SkyMap.from_healpy(values, unit="K_CMB")
    one = one.reordered() if nest else one
    for found in (one.smooth("10 deg"), one.smooth(fwhm, n_threads=2)):
        np.testing.assert_allclose(found.to_healpy(), expected, rtol=0, atol=1e-9 * values.std())


def test_smoothing_of_cut_skies_keeps_the_mean_and_the_mask():
    one = SkyMap(np.ones((1, 12 * N_SIDE**2)), Healpix(N_SIDE), ("I",), ("K_CMB",))
    seen = np.arange(one.values.shape[1]) < 1000
    found = one.masked(seen).smooth("20 deg")
    np.testing.assert_array_equal(found.observed, seen)
    np.testing.assert_allclose(found.values[0, seen], 1.0, rtol=1e-12)


@pytest.mark.parametrize("kind", [CarPatch, FlatPatch])
def test_smoothing_of_patches_keeps_the_mean_at_their_edges(kind):
    patch = kind.box((10.0, -60.0), (20.0, 10.0), 0.5)
    one = SkyMap(np.ones((1, patch.n_pix)), patch, ("I",), ("K_CMB",))
    np.testing.assert_allclose(one.smooth("2 deg").values, 1.0, rtol=1e-12)


@pytest.mark.parametrize("first_column_east", [True, False])
def test_smoothing_on_car_is_that_on_healpix(first_column_east):
    """A sky without mask; columns may go to the east or to the west."""
    alm, _ = band_limited(N_SIDE)
    patch = CarPatch.full_sky(2.0)
    if first_column_east:
        patch = CarPatch((0.0, 0.0), patch.crpix, (2.0, 2.0), patch.shape)
    theta, phi = hp.vec2ang(patch.directions_of(np.arange(patch.n_pix)))
    smoothed = hp.smoothalm(alm, fwhm=np.radians(8.0), inplace=False)
    before, after = (at(a, theta, phi) for a in (alm, smoothed))
    found = SkyMap(before, patch, ("I", "Q", "U"), ("K_CMB",) * 3, "galactic").smooth("8 deg")
    assert np.abs(found.values - after).max() < 2e-3 * before.std()
    assert np.abs(before - after).max() > 0.3 * before.std()


def at(alm, theta, phi):
    """Return I, Q, U of a_lm at directions, by ducc0's general synthesis."""
    import ducc0

    loc = np.column_stack([theta, phi % (2 * np.pi)])
    parts = [
        ducc0.sht.synthesis_general(alm=np.asarray(alm)[rows], loc=loc, spin=spin, lmax=24, epsilon=1e-10)
        for rows, spin in ((slice(0, 1), 0), (slice(1, 3), 2))
    ]
    return np.concatenate(parts)


def test_smoothing_in_a_plane_keeps_what_a_source_has():
    patch = FlatPatch.box((10.0, 40.0), (6.0, 6.0), 0.1)
    values = np.zeros((1, patch.n_pix))
    middle = 30 * 60 + 30
    values[0, middle] = 1
    found = SkyMap(values, patch, ("I",), ("K_CMB",)).smooth("1 deg").values[0]
    assert found.sum() == pytest.approx(1, rel=1e-5)  # what falls beside the patch is given back
    half = found.reshape(60, 60)[30, 30 + 5]  # half a FWHM away
    assert half / found[middle] == pytest.approx(0.5, rel=0.02)


def test_what_cannot_be_smoothed():
    with pytest.raises(ConfigError, match="no place"):
        made(pixelization=NumberedPixels(12)).smooth("1 deg")
    with pytest.raises(ConfigError, match="alone"):
        made(["U"]).smooth("1 deg")
    with pytest.raises(ConfigError, match="beam"):
        made().smooth(0.0)
    odd = CarPatch.box((0.0, 0.0), (7.0, 7.0), 0.7)
    with pytest.raises(ConfigError, match="whole number"):
        made(pixelization=odd).smooth("1 deg")


@pytest.mark.parametrize(
    "work",
    [
        lambda one: one - 1 * u.mK,
        lambda one: (2 * u.K) * one,
        lambda one: one / ([1, 2, 3] * u.K),
        lambda one: one + np.ma.masked_all(3072),
        lambda one: one.masked(np.ma.masked_all(3072)),
        lambda one: one.degrade(8, weights=np.ma.masked_all(3072)),
        lambda one: SkyMap.from_healpy(np.zeros(3072) * u.K),
        lambda one: SkyMap.from_healpy([np.zeros(3072) * u.K] * 3),
    ],
)
def test_units_and_masked_values_are_not_dropped(work):
    with pytest.raises(DataError, match=r"unit|is in|masked"):
        work(made())


def test_quantities_are_what_they_say():
    one = made()
    for quantity, text in ((70 * u.GHz, "70 GHz"), (7e10 * u.Hz, "70 GHz"), (7e4 * u.MHz, "70 GHz")):
        found, expected = one.to_unit("K_RJ", quantity), one.to_unit("K_RJ", text)
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-14, atol=0)
    np.testing.assert_allclose(
        one.smooth(600 * u.arcmin).values, one.smooth("10 deg").values, rtol=0, atol=1e-12
    )
    assert (one * (2 * u.dimensionless_unscaled)).unit == one.unit
    with pytest.raises(ConfigError, match="no unit of frequency"):
        one.to_unit("K_RJ", 1 * u.m)


def test_maps_show_themselves():
    one = made()
    one.values[:, :10] = np.nan
    assert repr(one) == (
        "SkyMap(I, Q, U in K_CMB, galactic, Healpix(n_side=16, nest=False), 3,062 of 3,072 pixels observed)"
    )
    html = one._repr_html_()
    assert html.count("<tr>") == 4 and "3,062" in html and "K_CMB" in html
    empty = one.masked(np.zeros(3072, bool))
    assert "0 of 3,072" in repr(empty) and "nan" in empty._repr_html_()


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"values": np.zeros((2, 11))}, "values on 11 pixels for 12 pixels"),
        ({"names": ("I",)}, "1 names for 2 columns"),
        ({"units": ("K",) * 3}, "3 units for 2 columns"),
        ({"frame": "C"}, "unknown frame 'C'"),
    ],
)
def test_columns_fit_their_values(changes, said):
    given = {"values": np.zeros((2, 12)), "names": "QU", "units": "K_CMB", "frame": "galactic"}
    found = SkyMap(**given, pixelization=Healpix(1))
    assert found.names == ("Q", "U") and found.units == ("K_CMB", "K_CMB")
    with pytest.raises((ConfigError, DataError), match=said):
        SkyMap(**{**given, **changes}, pixelization=Healpix(1))


def test_a_map_is_no_array():
    """An array would not say its order, nor what was not observed."""
    one = made()
    for taken in (lambda: np.asarray(one), lambda: hp.anafast(one)):
        with pytest.raises(ConfigError, match="to_healpy"):
            taken()
    for asked in (lambda: one[0], lambda: list(one), lambda: one["I":"Q"]):
        with pytest.raises(ConfigError, match="asked for by name"):
            asked()
