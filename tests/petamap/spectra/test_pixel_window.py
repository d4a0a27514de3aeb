"""Pixel windows against pixels taken to pieces."""

import numpy as np
import pytest
from scipy.special import eval_legendre

from petamap.sky.healpix import Healpix
from petamap.spectra.pixel_window import pixel_window


def exact(n_side, l_max, order=3):
    """Mean over pixels of the mean of P_l over all pairs of points in a pixel; points are tiny pixels."""
    fine, n = Healpix(n_side << order, nest=True), 4**order
    points = fine.directions_of(np.arange(fine.n_pix)).reshape(-1, n, 3)
    points = points[: 5 * n_side**2]  # a polar and, by face 4, an equatorial base pixel
    cosines = np.clip(np.einsum("pix,pjx->pij", points, points), -1, 1)
    found = []
    for l in range(l_max + 1):  # noqa: E741
        by_face = eval_legendre(l, cosines).mean(axis=(1, 2)).reshape(5, -1).mean(axis=1)
        found.append(np.sqrt((2 * by_face[0] + by_face[4]) / 3))
    # points stand for tiny pixels, which smooth as well
    return np.array(found) * pixel_window(fine.n_side, l_max)[0]


@pytest.mark.parametrize(("n_side", "tolerance"), [(2, 4e-3), (4, 1.5e-3)])
def test_against_pieces(n_side, tolerance):
    found, _ = pixel_window(n_side, 3 * n_side - 1)
    np.testing.assert_allclose(found, exact(n_side, 3 * n_side - 1), rtol=tolerance)


def test_small_pixels_leave_all_and_polarization_a_little_more():
    temperature, polarization = pixel_window(64, 256)
    assert temperature[0] == pytest.approx(1, abs=1e-9) and np.all(polarization[:2] == 0)
    assert np.all(np.diff(temperature) < 0)
    ratio = polarization[2:] / temperature[2:]
    assert np.all(ratio > 1) and np.allclose(ratio, 1 + 0.18 / 64**2, atol=1e-5)


def test_against_the_tables_of_healpix():
    """At l = n_side and 2 n_side, from the files pixel_window_n0032.fits and pixel_window_n1024.fits."""
    for n_side, tables, tolerance in (
        (32, ((0.95290741, 0.82491764), (0.95308227, 0.82507304)), 1e-4),
        (1024, ((0.95424514, 0.8272798), (0.95424521, 0.82727986)), 2e-5),
    ):
        for found, table in zip(pixel_window(n_side, 2 * n_side), tables, strict=True):
            np.testing.assert_allclose(found[[n_side, 2 * n_side]], table, rtol=tolerance)
