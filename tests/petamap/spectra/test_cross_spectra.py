"""Pseudo-spectra against healpy, and what must not change them."""

import healpy
import numpy as np
import pytest

from petacomm.base.errors import ConfigError, DataError
from petamap.sky.healpix import Healpix
from petamap.spectra.cross_spectra import pseudo_spectra, spectra_names
from petamap.spectra.transforms import weighted_harmonics

NAMES = ("TT", "EE", "BB", "TE", "EB", "TB")
SKY = Healpix(16)
RNG = np.random.default_rng(4)
MAPS = RNG.standard_normal((3, SKY.n_pix))
OTHER = RNG.standard_normal((3, SKY.n_pix))
WEIGHTS = RNG.random(SKY.n_pix) * (RNG.random(SKY.n_pix) > 0.3)


@pytest.mark.parametrize("iterations", [0, 3])
def test_all_six_against_anafast(iterations):
    found = pseudo_spectra(weighted_harmonics(MAPS, SKY, WEIGHTS, l_max=40, iterations=iterations))
    expected = healpy.anafast(MAPS * WEIGHTS, lmax=40, iter=iterations)
    assert found.names == NAMES and found.l_max == 40
    for name, row in zip(NAMES, expected, strict=True):
        np.testing.assert_allclose(found[name], row, rtol=0, atol=1e-13 * np.abs(row).max())


def test_cross_spectra_tell_te_from_et():
    one = weighted_harmonics(MAPS, SKY, WEIGHTS, l_max=40)
    two = weighted_harmonics(OTHER, SKY, WEIGHTS, WEIGHTS**2, l_max=40)
    found, turned = pseudo_spectra(one, two), pseudo_spectra(two, one)
    assert found.names == (*NAMES, "ET", "BE", "BT")
    alm = [
        healpy.map2alm(maps * np.array([WEIGHTS, weight, weight]), lmax=40)
        for maps, weight in ((MAPS, WEIGHTS), (OTHER, WEIGHTS**2))
    ]
    for name in found.names:
        i, j = ("TEB".index(letter) for letter in name)
        expected = healpy.alm2cl(alm[0][i], alm[1][j])
        np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-13 * np.abs(expected).max())
        np.testing.assert_array_equal(turned[name[::-1]], found[name])


def test_some_components_alone_and_both_orders():
    whole = pseudo_spectra(weighted_harmonics(MAPS, SKY, WEIGHTS, l_max=20))
    intensity = pseudo_spectra(weighted_harmonics(MAPS[:1], SKY, WEIGHTS, l_max=20))
    polarized = pseudo_spectra(weighted_harmonics(MAPS[1:], SKY, WEIGHTS, l_max=20))
    assert intensity.names == ("TT",) and polarized.names == ("EE", "BB", "EB")
    for part in (intensity, polarized):
        for name in part.names:
            np.testing.assert_array_equal(part[name], whole[name])
    nest = Healpix(16, nest=True)
    nested = [healpy.reorder(row, r2n=True) for row in (*MAPS, WEIGHTS)]
    again = weighted_harmonics(np.array(nested[:3]), nest, nested[3], l_max=20)
    np.testing.assert_array_equal(pseudo_spectra(again).values, whole.values)


def test_bits_do_not_depend_on_threads():
    sky = Healpix(32)
    maps = RNG.standard_normal((3, sky.n_pix))
    one = weighted_harmonics(maps, sky, l_max=95, n_threads=1)
    for n_threads in (2, 3, 8):
        again = weighted_harmonics(maps, sky, l_max=95, n_threads=n_threads)
        assert np.array_equal(again.alm, one.alm) and np.array_equal(again.weights, one.weights)


def test_pixels_without_a_value_need_no_weight():
    holes = MAPS.copy()
    holes[:, WEIGHTS == 0] = np.nan
    expected = weighted_harmonics(MAPS, SKY, WEIGHTS, l_max=20).alm
    np.testing.assert_array_equal(weighted_harmonics(holes, SKY, WEIGHTS, l_max=20).alm, expected)
    seen = np.isfinite(holes[0]).astype(float)
    expected = weighted_harmonics(MAPS, SKY, seen, l_max=20).alm
    np.testing.assert_array_equal(weighted_harmonics(holes, SKY, l_max=20).alm, expected)


def test_what_does_not_fit_is_refused():
    holes = MAPS.copy()
    holes[1, 77] = np.nan
    with pytest.raises(DataError, match="QU of pixel 77"):
        weighted_harmonics(holes, SKY, np.ones(SKY.n_pix))
    with pytest.raises(DataError, match="768 pixels, not 3072 of n_side 16"):
        weighted_harmonics(MAPS, SKY, np.ones(768))
    with pytest.raises(DataError, match="negative or not finite in pixel 3"):
        weighted_harmonics(MAPS, SKY, np.where(np.arange(SKY.n_pix) == 3, -1.0, 1.0))
    with pytest.raises(ConfigError, match="beyond the reach"):
        weighted_harmonics(MAPS, SKY, l_max=65)
    with pytest.raises(DataError, match="no cross-spectrum"):
        pseudo_spectra(weighted_harmonics(MAPS, SKY, l_max=20), weighted_harmonics(MAPS, SKY, l_max=21))
    with pytest.raises(DataError, match="no Q and U"):
        weighted_harmonics(np.ones((4, SKY.n_pix)), SKY)
    assert spectra_names("T", "EB") == ("TE", "TB")
