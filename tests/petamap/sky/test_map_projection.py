"""Tests of map projections: the pixel at known directions, and nan outside."""

import healpy
import numpy as np
import pytest

from petacomm.base.errors import ConfigError
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.map_projection import project
from petamap.sky.numbered import ImageLayout, NumberedPixels


def pixel_at(n_side, lon, lat, nest=False):
    return healpy.ang2pix(n_side, lon, lat, lonlat=True, nest=nest)


@pytest.mark.parametrize("nest", [False, True])
def test_mollweide_shows_known_directions(nest):
    sky = Healpix(16, nest)
    values = np.random.default_rng(1).standard_normal(sky.n_pix)
    image, index = project(values, sky, "mollweide", 401 * 2)
    assert image.shape == index.shape == (401, 802)
    # Along the equator, longitude decreases linearly from 180 at the left to -180 at the right.
    lon = 180 * (1 - (2 * np.arange(802) + 1) / 802)
    np.testing.assert_array_equal(index[200], pixel_at(16, lon, 0.0, nest))
    # The central meridian: y = sin(a), lat = asin((2 a + sin 2 a) / pi).
    a = np.arcsin((400 - 2 * np.arange(401)) / 401)
    lat = np.degrees(np.arcsin((2 * a + np.sin(2 * a)) / np.pi))
    half_step = 180 / 802 / np.cos(a)
    np.testing.assert_array_equal(index[:, 401], pixel_at(16, -half_step, lat, nest))
    np.testing.assert_array_equal(image[index >= 0], values[index[index >= 0]])


def test_mollweide_is_an_ellipse_of_equal_areas():
    sky = Healpix(8)
    image, index = project(np.ones(sky.n_pix), sky, width=1600)
    y, x = np.mgrid[0:800, 0:1600]
    inside = ((2 * x - 1599) / 1600) ** 2 + ((2 * y - 799) / 800) ** 2 <= 1
    np.testing.assert_array_equal(index >= 0, inside)
    np.testing.assert_array_equal(np.isnan(image), ~inside)
    n_points = np.bincount(index[inside], minlength=sky.n_pix)
    assert np.abs(n_points / n_points.mean() - 1).max() < 0.06


def test_centre_of_the_image():
    sky = Healpix(32)
    values = np.zeros(sky.n_pix)
    _, index = project(values, sky, width=301 * 2, centre_deg=(100.0, 40.0))
    expected = pixel_at(32, 100.0, 40.0)
    assert expected in index[149:152, 299:303]
    _, index = project(values, sky, "gnomonic", 101, centre_deg=(100.0, 40.0), size_deg=20.0)
    assert index[50, 50] == expected
    up, left = index[0, 50], index[50, 0]
    lon, lat = healpy.pix2ang(32, np.array([up, left]), lonlat=True)
    assert abs(lat[0] - 50) < 2.5 and 110 < lon[1] < 117


def test_gnomonic_is_the_tan_projection():
    patch = FlatPatch((266.0, -29.0), (50.5, 50.5), (-0.1, 0.1), (100, 100))
    size = 2 * np.degrees(np.arctan(np.radians(5.0)))
    _, index = project(
        np.zeros(patch.n_pix), patch, "gnomonic", 100, centre_deg=(266.0, -29.0), size_deg=size
    )
    np.testing.assert_array_equal(index[::-1].ravel(), np.arange(patch.n_pix))


def test_gnomonic_shows_all_observed_pixels():
    sky = Healpix(64)
    values = np.full(sky.n_pix, np.nan)
    centre = healpy.ang2vec(30.0, -70.0, lonlat=True)
    disc = healpy.query_disc(64, centre, np.radians(5))
    values[disc] = 1.0
    image, index = project(values, sky, "gnomonic", 300)
    assert set(disc) <= set(index.ravel())
    assert 0.5 < np.isfinite(image).mean() < 0.9


def test_native_image_has_the_last_row_at_the_top():
    patch = CarPatch.box((0.0, 0.0), (6.0, 4.0), 1.0)
    image, index = project(np.arange(24.0), patch, "image")
    np.testing.assert_array_equal(index, np.arange(24).reshape(4, 6)[::-1])
    np.testing.assert_array_equal(image, index)
    assert project(np.arange(24.0), patch, "image", 3)[1].shape == (2, 3)


def test_numbered_pixels_with_layout():
    numbered = NumberedPixels(2, ImageLayout((2, 2), np.array([3, 0])))
    image, index = project(np.array([5.0, 6.0]), numbered, "image")
    assert index.tolist() == [[-1, 0], [1, -1]]
    assert image[0, 1] == 5 and image[1, 0] == 6 and np.isnan(image[0, 0])


@pytest.mark.parametrize(
    ("pixelization", "options", "words"),
    [
        (Healpix(1), {"projection": "molweide"}, "did you mean 'mollweide'"),
        (Healpix(1), {"projection": "image"}, "no image"),
        (NumberedPixels(12), {"projection": "image"}, "no image"),
        (NumberedPixels(12), {"projection": "mollweide"}, "no directions"),
        (Healpix(2), {}, "48 pixels"),
        (Healpix(1), {"width": 1}, "width 1"),
        (Healpix(1), {"projection": "gnomonic", "size_deg": 180.0}, "between 0 and 180"),
    ],
)
def test_invalid_projections(pixelization, options, words):
    with pytest.raises(ConfigError, match=words):
        project(np.zeros(12), pixelization, **options)
