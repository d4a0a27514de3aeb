"""Groups of neighbouring pixels."""

import healpy
import numpy as np
import pytest

from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import ImageLayout, NumberedPixels
from petamap.sky.parents import parent_pixels

FLAT = FlatPatch(crval=(10.0, 0.0), crpix=(6.0, 4.0), cdelt=(-1.0, 1.0), shape=(7, 11))


def test_parents_of_nested_pixels():
    pixels = np.arange(12 * 16**2)
    parents = parent_pixels(Healpix(16, nest=True), pixels, 2)
    centres = np.array(healpy.pix2vec(16, pixels, nest=True))
    np.testing.assert_array_equal(parents, healpy.vec2pix(4, *centres, nest=True))


@pytest.mark.parametrize(
    "pixelization", [FLAT, NumberedPixels(77, ImageLayout((7, 11), np.arange(77)))], ids=["flat", "layout"]
)
def test_squares_of_an_image(pixelization):
    coarse = parent_pixels(pixelization, np.arange(77), 1).reshape(7, 11)
    assert len(np.unique(coarse)) == 4 * 6
    for number in np.unique(coarse):
        rows, columns = np.nonzero(coarse == number)
        assert set(rows // 2) == {rows[0] // 2} and set(columns // 2) == {columns[0] // 2}


@pytest.mark.parametrize("pixelization", [FLAT, Healpix(8, nest=True), Healpix(8), NumberedPixels(500)])
def test_levels_are_nested(pixelization):
    pixels = np.arange(pixelization.n_pix)
    np.testing.assert_array_equal(parent_pixels(pixelization, pixels, 0), pixels)
    for first in (1, 2):
        middle = parent_pixels(pixelization, pixels, first)
        direct = parent_pixels(pixelization, pixels, 3)
        np.testing.assert_array_equal(parent_pixels(pixelization, middle, 3, start=first), direct)
