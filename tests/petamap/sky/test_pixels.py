"""Tests of the HEALPix kernels against healpy: ordering, centres, interpolation, edges, bad input."""

import healpy
import numpy as np
import pytest

from petamap.sky import _sky

N_SIDES = [1, 2, 16, 512, 8192]


def grid_of(n_side, nest):
    return np.array([int(nest), n_side], np.float64)


def pixels_of(n_side, nest, directions, n_threads=1):
    pixels = np.empty(len(directions), np.int32)
    _sky.pixels_of(grid_of(n_side, nest), np.ascontiguousarray(directions, np.float64), pixels, n_threads)
    return pixels


def random_directions(n, seed=1):
    directions = np.random.default_rng(seed).standard_normal((n, 3))
    return directions / np.linalg.norm(directions, axis=1)[:, None]


def special_directions():
    """Return poles, equator, the borders z = +-2/3 of the caps, z near +-0.99, and longitude 0."""
    heights = np.array([0.0, 2 / 3, 0.99, 0.5, 1 / 3, 1 - 1e-9, 1 - 1e-15, 1.0])
    heights = np.unique(np.concatenate([heights, np.nextafter(heights[:-1], 2)]))
    heights = np.concatenate([heights, -heights])
    longitudes = np.concatenate([[0.0, 1e-300, 1e-17], np.random.default_rng(2).uniform(0, 7, 50)])
    longitudes = np.concatenate([longitudes, -longitudes])
    z, phi = (a.ravel() for a in np.meshgrid(heights, longitudes))
    sine = np.sqrt((1 - z) * (1 + z))
    return np.stack([sine * np.cos(phi), sine * np.sin(phi), z], axis=1)


def near_edges(n_side, n=20_000):
    """Return points inside and outside random pixel edges, 1e-9 of the distance from the centre."""
    rng = np.random.default_rng(n_side)
    pixels = rng.integers(0, 12 * n_side**2, n)
    edges = healpy.boundaries(n_side, pixels, step=8)[np.arange(n), :, rng.integers(0, 32, n)]
    centres = np.stack(healpy.pix2vec(n_side, pixels), axis=1)
    return np.concatenate([edges + 1e-9 * (edges - centres), edges - 1e-9 * (edges - centres)])


@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize("n_side", N_SIDES)
def test_pixels_equal_healpy(n_side, nest):
    directions = np.concatenate([random_directions(100_000), special_directions(), near_edges(n_side)])
    expected = healpy.vec2pix(n_side, *directions.T, nest=nest)
    np.testing.assert_array_equal(pixels_of(n_side, nest, directions), expected)


@pytest.mark.parametrize("n_side", [3, 100, 13377])
def test_ring_pixels_of_any_n_side(n_side):
    directions = random_directions(50_000, n_side)
    expected = healpy.vec2pix(n_side, *directions.T)
    np.testing.assert_array_equal(pixels_of(n_side, False, directions), expected)


def test_pixels_do_not_depend_on_length_or_threads():
    directions = random_directions(10_000)
    pixels = pixels_of(256, True, directions)
    np.testing.assert_array_equal(pixels_of(256, True, 2.0**40 * directions), pixels)
    np.testing.assert_array_equal(pixels_of(256, True, directions, n_threads=3), pixels)


@pytest.mark.parametrize("nest", [False, True])
def test_invalid_directions(nest):
    bad = [[0, 0, 0], [np.nan, 0, 1], [0, np.nan, 1], [1, 0, np.nan], [np.inf, 0, 0], [0, -np.inf, np.inf]]
    assert pixels_of(64, nest, [*bad, [0, 0, 1]])[:-1].tolist() == [-1] * len(bad)


@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize("n_side", N_SIDES)
def test_centres(n_side, nest):
    n_pix = 12 * n_side**2
    pixels = np.unique(np.random.default_rng(3).integers(0, n_pix, 20_000))
    pixels = np.unique(np.concatenate([[0, n_pix - 1], pixels]))
    directions = np.empty((len(pixels), 3))
    _sky.healpix_directions(grid_of(n_side, nest), pixels, directions, 2)
    expected = np.stack(healpy.pix2vec(n_side, pixels, nest=nest), axis=1)
    np.testing.assert_allclose(directions, expected, rtol=0, atol=2e-15)
    np.testing.assert_array_equal(pixels_of(n_side, nest, directions), pixels)


@pytest.mark.parametrize("n_side", N_SIDES)
def test_reordering(n_side):
    pixels = np.random.default_rng(4).integers(0, 12 * n_side**2, 20_000)
    nested, ring = np.empty_like(pixels), np.empty_like(pixels)
    _sky.healpix_reordered(grid_of(n_side, False), pixels, nested, 1)
    _sky.healpix_reordered(grid_of(n_side, True), nested, ring, 2)
    np.testing.assert_array_equal(nested, healpy.ring2nest(n_side, pixels))
    np.testing.assert_array_equal(ring, pixels)


@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize("n_side", [1, 2, 64, 2048])
def test_interpolation(n_side, nest):
    directions = np.concatenate([random_directions(20_000), [[0, 1e-9, 1], [1e-9, 0, -1], [1e-3, 2e-3, 1]]])
    pixels, weights = np.empty((len(directions), 4), np.int32), np.empty((len(directions), 4))
    _sky.healpix_interpolation(grid_of(n_side, nest), directions, pixels, weights, 2)
    # healpy.vec2ang takes an arc cosine, accurate to only 1e-8 near the poles.
    theta = np.arctan2(np.hypot(directions[:, 0], directions[:, 1]), directions[:, 2])
    phi = np.arctan2(directions[:, 1], directions[:, 0])
    expected_pixels, expected = healpy.get_interp_weights(n_side, theta, phi, nest=nest)
    np.testing.assert_array_equal(pixels, expected_pixels.T)
    np.testing.assert_allclose(weights, expected.T, rtol=0, atol=1e-15 * n_side + 1e-12)


def test_interpolation_of_invalid_directions():
    pixels, weights = np.empty((1, 4), np.int32), np.empty((1, 4))
    _sky.healpix_interpolation(grid_of(8, False), np.array([[np.nan, 0, 1]]), pixels, weights, 1)
    assert pixels.tolist() == [[-1] * 4] and weights.tolist() == [[0.0] * 4]


@pytest.mark.parametrize(
    "grid",
    [[0, 0], [1, 3], [0, 13378], [0, np.nan], [5, 1], [-1, 1], [0], [2, 0, 1, 1, 0, 1, 5, 5], [4, 2**31]],
)
def test_invalid_grids(grid):
    with pytest.raises(ValueError):
        _sky.pixels_of(np.array(grid, np.float64), np.zeros((1, 3)), np.zeros(1, np.int32), 1)


def test_pixels_outside_raise():
    with pytest.raises(ValueError):
        _sky.healpix_directions(grid_of(1, False), np.array([12]), np.empty((1, 3)), 1)
