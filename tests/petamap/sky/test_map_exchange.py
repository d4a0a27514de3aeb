"""Maps to and from healpy and pixell: order, unobserved pixels and signs of polarization."""

import healpy as hp
import numpy as np
import pytest

from petacomm.base.errors import ConfigError, DataError
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.sky_map import SkyMap

RNG = np.random.default_rng(8)


def test_healpy_has_unseen_where_nothing_was_observed():
    values = RNG.normal(size=(3, 192))
    values[:, 7] = np.nan
    one = SkyMap(values, Healpix(4, nest=True), ("I", "Q", "U"), ("K_CMB",) * 3, "galactic", "COSMO")
    ring = one.to_healpy()
    assert ring.shape == (3, 192)
    np.testing.assert_array_equal(hp.reorder(ring, r2n=True), one.to_healpy(nest=True))
    np.testing.assert_array_equal(np.flatnonzero(ring[0] == hp.UNSEEN), [hp.nest2ring(4, 7)])
    assert one["I"].to_healpy().shape == (192,)
    back = SkyMap.from_healpy(ring, unit="K_CMB", frame="galactic").reordered()
    np.testing.assert_array_equal(back.values, values)
    assert (back.names, back.unit, back.frame, back.polarization) == (one.names, "K_CMB", "galactic", "COSMO")


def test_all_that_healpy_takes_for_unobserved():
    plain = RNG.normal(size=48)
    masked = hp.ma(np.where(np.arange(48) < 5, hp.UNSEEN, plain))
    for given in (
        masked,
        masked.filled(),
        np.where(masked.mask, np.nan, plain),
        masked.filled().astype("f4"),
    ):
        found = SkyMap.from_healpy(given)
        np.testing.assert_array_equal(np.flatnonzero(~found.observed), np.arange(5))
    assert found.names == ("I",)


def test_units_and_conventions_are_those_of_files():
    values = RNG.normal(size=(3, 48))
    found = SkyMap.from_healpy(values, unit="uK", polarization="IAU")
    np.testing.assert_allclose(found.values, values * [[1e-6], [1e-6], [-1e-6]])
    assert (found.unit, found.polarization) == ("K_CMB", "COSMO")
    covariance = SkyMap.from_healpy(np.ones((3, 48)), names=("QQ", "QU", "UU"), polarization="IAU")
    np.testing.assert_array_equal(covariance.values[:, 0], [1, -1, 1])


@pytest.mark.parametrize(
    ("maps", "options", "error", "said"),
    [
        (np.ones(13), {}, DataError, "n_side"),
        (np.full(12, np.inf), {}, DataError, "infinite"),
        (np.full(12, 1j), {}, DataError, "complex"),
        (np.ones((5, 12)), {}, ConfigError, "names"),
        (np.ones(12), {"names": "IQ"}, ConfigError, "2 names"),
        (np.ones(12), {"frame": "galatic"}, ConfigError, "galactic"),
        (np.ones(12), {"polarization": "iau"}, ConfigError, "IAU"),
        (np.ones(12 * 9), {"nest": True}, ConfigError, "power of two"),
    ],
)
def test_what_is_no_map_of_healpy(maps, options, error, said):
    with pytest.raises(error, match=said):
        SkyMap.from_healpy(maps, **options)


def test_images_are_no_maps_of_healpy():
    patch = CarPatch.full_sky(30.0)
    with pytest.raises(ConfigError, match="to_enmap"):
        SkyMap(np.ones((1, patch.n_pix)), patch, ("I",), ("",)).to_healpy()
    with pytest.raises(ConfigError, match="two orders"):
        SkyMap(np.ones((1, patch.n_pix)), patch, ("I",), ("",)).reordered()


PATCHES = [CarPatch.box((30.0, -40.0), (20.0, 10.0), 0.5), FlatPatch.box((266.4, -29.0), (4.0, 3.0), 0.1)]


@pytest.mark.parametrize("patch", [*PATCHES, CarPatch.full_sky(2.0)], ids=["box", "flat", "full"])
def test_pixell_sees_the_same_pixels(patch):
    pytest.importorskip("pixell")
    values = RNG.normal(size=(3, patch.n_pix))
    values[:, 5] = np.nan
    one = SkyMap(values, patch, ("I", "Q", "U"), ("K_CMB",) * 3, "equatorial", "COSMO")
    image = one.to_enmap()
    assert image.shape == (3, *patch.shape) and image.reshape(3, -1)[0, 5] == 0
    dec, ra = image.posmap().reshape(2, -1)
    directions = np.stack([np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)], axis=1)
    np.testing.assert_allclose(directions, patch.directions_of(np.arange(patch.n_pix)), rtol=0, atol=1e-12)
    back = SkyMap.from_enmap(image, unit="K_CMB")
    np.testing.assert_array_equal(back.values, values)
    assert back.pixelization == patch and back.polarization == "COSMO"
    iau = one.to_enmap(polarization="IAU")
    np.testing.assert_array_equal(iau[2], -image[2])
    np.testing.assert_array_equal(SkyMap.from_enmap(iau, polarization="IAU").values, values)


def test_what_is_no_map_of_pixell():
    with pytest.raises(DataError, match="no pixell map"):
        SkyMap.from_enmap(np.ones((3, 4)))
