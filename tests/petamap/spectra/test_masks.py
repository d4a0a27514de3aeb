"""Apodization and the weights of pixels."""

import healpy
import numpy as np
import pytest

from petacomm.base.errors import ConfigError, DataError
from petamap.sky.healpix import Healpix
from petamap.spectra import masks
from petamap.spectra.masks import (
    APODIZATIONS,
    apodize,
    distance_to_masked,
    effective_fraction,
    sky_fraction,
    subtract_monopole,
)

SKY = Healpix(16)
DIRECTIONS = np.array(healpy.pix2vec(16, np.arange(SKY.n_pix))).T


def cap(radius_deg):
    return (DIRECTIONS[:, 2] > np.cos(np.radians(radius_deg))).astype(float)


def test_distances_are_those_on_the_sphere(monkeypatch):
    mask = (np.random.default_rng(1).random(SKY.n_pix) > 0.01).astype(float)
    cosines = np.clip(DIRECTIONS @ DIRECTIONS[mask == 0].T, -1, 1).max(axis=1)
    found = distance_to_masked(mask, SKY)
    np.testing.assert_allclose(found, np.where(mask > 0, np.arccos(cosines), 0), rtol=0, atol=1e-7)
    np.testing.assert_array_equal(distance_to_masked(mask, SKY, 3), found)
    monkeypatch.setattr(masks, "_SEARCHED", 100)
    np.testing.assert_array_equal(distance_to_masked(mask, SKY), found)
    assert distance_to_masked(np.ones(SKY.n_pix), SKY).min() == np.pi
    assert distance_to_masked(np.zeros(SKY.n_pix), SKY).max() == 0


@pytest.mark.parametrize("kind", APODIZATIONS)
def test_edges_are_soft_inside_the_mask(kind):
    mask, width = cap(100), np.radians(20)
    soft = apodize(mask, SKY, width, kind)
    assert soft.min() == 0 and soft.max() == pytest.approx(1, abs=1e-3) and np.all(soft <= mask)
    distance = distance_to_masked(mask, SKY)
    ordered = soft[np.argsort(distance)]
    assert np.all(np.diff(ordered) > -0.05)
    assert np.abs(np.diff(ordered[ordered > 0])).max() < 0.4
    nested = apodize(healpy.reorder(mask, r2n=True), Healpix(16, nest=True), width, kind)
    np.testing.assert_allclose(nested, healpy.reorder(soft, r2n=True), rtol=0, atol=1e-12)


def test_formulas_of_the_edges():
    mask, width = cap(60), np.radians(20)
    distance = distance_to_masked(mask, SKY)
    x = np.sqrt((1 - np.cos(distance)) / (1 - np.cos(width)))
    expected = np.where(x < 1, x - np.sin(2 * np.pi * x) / (2 * np.pi), 1)
    np.testing.assert_allclose(apodize(mask, SKY, width, "C1"), mask * expected, rtol=0, atol=1e-12)
    expected = np.where(x < 1, 0.5 * (1 - np.cos(np.pi * x)), 1)
    np.testing.assert_allclose(apodize(mask, SKY, width, "C2"), mask * expected, rtol=0, atol=1e-12)


def test_fractions_of_the_sky():
    mask = cap(90)
    half = 0.5 * mask
    assert sky_fraction(mask) == pytest.approx(mask.mean()) and sky_fraction(half, 2) == pytest.approx(
        mask.mean() / 4
    )
    assert effective_fraction(mask) == effective_fraction(half) == pytest.approx(mask.mean())
    assert effective_fraction(mask, 1 - mask) == 0
    soft = apodize(mask, SKY, np.radians(20))
    assert effective_fraction(soft) < mask.mean()


def test_monopole_and_dipole_are_taken_off_as_healpy_does():
    rng = np.random.default_rng(2)
    mask = cap(100)
    sky = rng.standard_normal(SKY.n_pix) + 3 + DIRECTIONS @ [1.0, 2.0, -4.0]
    masked = np.where(mask > 0, sky, healpy.UNSEEN)
    used = mask > 0
    expected = healpy.remove_monopole(masked)
    np.testing.assert_allclose(subtract_monopole(sky, mask, None)[used], expected[used], rtol=0, atol=1e-12)
    expected = healpy.remove_dipole(masked)
    np.testing.assert_allclose(
        subtract_monopole(sky, mask, DIRECTIONS)[used], expected[used], rtol=0, atol=1e-10
    )
    uneven = mask * rng.uniform(0.1, 1, SKY.n_pix)
    assert np.array_equal(
        subtract_monopole(sky, uneven, DIRECTIONS), subtract_monopole(sky, mask, DIRECTIONS)
    )
    assert np.array_equal(subtract_monopole(sky, 0 * mask, None), sky)


def test_what_is_no_mask_is_refused():
    with pytest.raises(DataError, match="n_side 16"):
        apodize(np.ones(12), SKY, 0.1)
    with pytest.raises(DataError, match="negative"):
        apodize(-cap(10), SKY, 0.1)
    with pytest.raises(ConfigError, match="width"):
        apodize(cap(10), SKY, -0.1)
    with pytest.raises(ConfigError, match="no apodization"):
        apodize(cap(10), SKY, 0.1, "C3")
