"""Tests of pixelizations: CAR and flat patches against astropy.wcs, validation, descriptions."""

import math

import numpy as np
import pytest
from astropy.io import fits
from astropy.wcs import WCS
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError, DataError
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.image import unit_vectors
from petamap.sky.numbered import ImageLayout, NumberedPixels

PATCHES = [
    CarPatch.full_sky(0.5),
    CarPatch((0.0, 0.0), (361.0, 181.0), (-0.5, 0.5), (361, 720)),  # poles on pixel centres, as in pixell
    CarPatch((120.0, 0.0), (1.0, 1.0), (0.25, -0.25), (300, 1440)),
    CarPatch.box((30.0, -40.0), (20.0, 10.0), 0.1),
    FlatPatch.box((266.4, -29.0), (40.0, 30.0), 0.1),
    FlatPatch.box((0.0, 90.0), (60.0, 60.0), 0.25),
    FlatPatch((10.0, 45.0), (-20.0, 300.5), (0.1, 0.2), (200, 300)),
]
PIXELIZATIONS = [*PATCHES, Healpix(64), Healpix(64, nest=True), Healpix(100)]


def random_directions(n=100_000, seed=5):
    directions = np.random.default_rng(seed).standard_normal((n, 3))
    return directions / np.linalg.norm(directions, axis=1)[:, None]


def pixels_of(pixelization, directions, n_threads=1):
    pixels = np.empty(len(directions), np.int32)
    pixelization.pixels_of(directions, pixels, n_threads)
    return pixels


def astropy_pixels(patch, directions):
    wcs = WCS(fits.Header(patch.wcs_cards()))
    x, y, z = directions.T
    lon, lat = np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))
    column, row = wcs.all_world2pix(lon, lat, 0)
    column, row = np.floor(column + 0.5), np.floor(row + 0.5)
    if patch.kind == "car":  # longitudes are periodic; astropy returns one period
        period = round(360 / abs(patch.cdelt[0]))
        column = column % period
    rows, columns = patch.shape
    inside = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    return np.where(inside, row * columns + column, -1)


@pytest.mark.parametrize("patch", PATCHES, ids=repr)
def test_pixels_equal_astropy(patch):
    directions = random_directions()
    pixels = pixels_of(patch, directions)
    np.testing.assert_array_equal(pixels, astropy_pixels(patch, directions))
    assert np.count_nonzero(pixels >= 0) > 100


@pytest.mark.parametrize("pixelization", PIXELIZATIONS, ids=repr)
def test_centres_lie_in_their_pixels(pixelization):
    pixels = np.random.default_rng(6).integers(0, pixelization.n_pix, 20_000)
    directions = pixelization.directions_of(pixels)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, rtol=1e-15 * 4)
    at_pole = np.abs(directions[:, 2]) > 1 - 1e-12
    np.testing.assert_array_equal(pixels_of(pixelization, directions, 2)[~at_pole], pixels[~at_pole])
    with pytest.raises(ValueError):
        pixelization.directions_of(np.array([pixelization.n_pix]))


@settings(max_examples=50, deadline=None)
@given(
    centre=st.tuples(st.floats(-400, 400), st.floats(-90, 90)),
    size=st.floats(0.1, 5),
    columns=st.integers(1, 50),
    rows=st.integers(1, 50),
)
def test_centres_of_random_flat_patches(centre, size, columns, rows):
    patch = FlatPatch(centre, (columns / 2, rows / 2), (-size / columns, size / rows), (rows, columns))
    pixels = np.arange(patch.n_pix)
    np.testing.assert_array_equal(pixels_of(patch, patch.directions_of(pixels)), pixels)


@pytest.mark.parametrize("pixelization", PIXELIZATIONS, ids=repr)
def test_invalid_directions(pixelization):
    bad = np.array([[0, 0, 0], [np.nan, 0, 1], [0, np.nan, 0], [np.inf, 0, 0], [0, 0, -np.inf]])
    assert pixels_of(pixelization, bad).tolist() == [-1] * len(bad)


def test_full_sky_is_covered():
    sky = CarPatch.full_sky(1.0)
    longitudes = np.arange(-720, 721) * math.pi / 360
    for latitude in (-90, -45.5, 0, 90):
        lat = np.full(len(longitudes), math.radians(latitude))
        assert pixels_of(sky, unit_vectors(longitudes, lat)).min() >= 0
    assert sky.pixel_area * sky.n_pix == pytest.approx(4 * math.pi)


def test_longitudes_are_periodic():
    patch = CarPatch.box((175.0, 0.0), (20.0, 2.0), 1.0)
    around = CarPatch.box((175.0 - 360, 0.0), (20.0, 2.0), 1.0)
    centres = patch.directions_of(np.arange(patch.n_pix))
    np.testing.assert_array_equal(pixels_of(patch, centres), np.arange(patch.n_pix))
    np.testing.assert_array_equal(pixels_of(around, centres), np.arange(patch.n_pix))


@pytest.mark.parametrize("patch", [PATCHES[3], PATCHES[4], PATCHES[6]], ids=repr)
def test_pixel_area_against_random_directions(patch):
    n = 1_000_000
    inside = np.count_nonzero(pixels_of(patch, random_directions(n, 8)) >= 0)
    expected = patch.pixel_area * patch.n_pix / (4 * math.pi) * n
    assert abs(inside - expected) < 4 * math.sqrt(expected)


@pytest.mark.parametrize(
    ("cls", "arguments"),
    [
        (CarPatch, ((0, 10), (1, 1), (1, 1), (2, 2))),
        (CarPatch, ((0, 0), (1, 1), (1, 1), (2, 361))),
        (CarPatch, ((0, 0), (1, 1), (1, 1), (93, 2))),
        (FlatPatch, ((0, 91), (1, 1), (1, 1), (2, 2))),
        (FlatPatch, ((0, math.nan), (1, 1), (1, 1), (2, 2))),
        (FlatPatch, ((0, 0), (1, 1), (0, 1), (2, 2))),
        (FlatPatch, ((0, 0), (1, 1), (1, 1), (0, 2))),
        (FlatPatch, ((0, 0), (1, 1), (1, 1), (2**16, 2**15))),
    ],
)
def test_invalid_patches(cls, arguments):
    with pytest.raises(ConfigError):
        cls(*arguments)


@pytest.mark.parametrize(
    ("n_side", "nest", "words"),
    [
        ("4", False, "whole number"),
        (0, False, "between 1 and"),
        (48, True, "take 32 or 64"),
        (16384, False, "13377"),
    ],
)
def test_invalid_n_side(n_side, nest, words):
    with pytest.raises(ConfigError, match=words):
        Healpix(n_side, nest)


@pytest.mark.parametrize(
    ("pixelization", "description"),
    [
        (Healpix(64, nest=True), {"kind": "healpix", "n_side": 64, "ordering": "nested"}),
        (NumberedPixels(17), {"kind": "numbered", "n_pix": 17}),
        (
            NumberedPixels(1, ImageLayout((2, 2), np.array([3]))),
            {"kind": "numbered", "n_pix": 1, "image_shape": [2, 2]},
        ),
        (
            FlatPatch.box((266.4, -29.0), (40.0, 30.0), 0.5),
            {
                "kind": "flat",
                "crval_deg": [266.4, -29.0],
                "crpix": [40.5, 30.5],
                "cdelt_deg": [-0.5, 0.5],
                "shape": [60, 80],
            },
        ),
    ],
    ids=repr,
)
def test_descriptions(pixelization, description):
    assert pixelization.describe() == description


def test_numbered_pixels_have_no_directions():
    with pytest.raises(ConfigError, match="n_pix"):
        NumberedPixels(0)
    with pytest.raises(ConfigError, match="no directions"):
        pixels_of(NumberedPixels(3), np.zeros((1, 3)))
    assert np.isnan(NumberedPixels(3).directions_of(np.arange(3))).all()


def test_invalid_layouts():
    with pytest.raises(DataError, match="outside"):
        ImageLayout((2, 2), np.array([4]))
    with pytest.raises(DataError, match="same place"):
        ImageLayout((2, 2), np.array([1, 1]))
    with pytest.raises(ConfigError, match="cannot place"):
        NumberedPixels(3, ImageLayout((2, 2), np.array([0, 3])))


@pytest.mark.parametrize("kind", [CarPatch, FlatPatch])
@pytest.mark.parametrize(
    "size, step", [((20, 10), "0.5 deg"), ((20, None), 1.0), ((20, 10), 0.0), ((0, 10), 1.0)]
)
def test_sizes_of_patches_are_numbers_above_zero(kind, size, step):
    with pytest.raises(ConfigError, match=r"size .*resolution"):
        kind.box((0, 0), size, step)
