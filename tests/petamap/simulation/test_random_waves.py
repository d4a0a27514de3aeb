"""Random waves: their multipoles, and their spin."""

import numpy as np
import pytest

from petamap.simulation.random_waves import random_waves
from petamap.sky.healpix import Healpix

hp = pytest.importorskip("healpy")

N_SIDE = 32
DIRECTIONS = Healpix(N_SIDE).directions_of(np.arange(12 * N_SIDE**2))


def power(l_first, l_last, *, polarized):
    """Return (2 l + 1) C_l of T, or of E and B."""
    waves = random_waves(DIRECTIONS, l_first, l_last, polarized=polarized).T
    maps = np.zeros((3, waves.shape[1]))
    maps[1 if polarized else 0 :][: len(waves)] = waves
    spectra = hp.anafast(maps, lmax=2 * N_SIDE, iter=3)
    return [(2 * np.arange(2 * N_SIDE + 1) + 1) * spectra[k] for k in ((1, 2) if polarized else (0,))]


@pytest.mark.parametrize(("l_first", "l_last"), [(4, 7), (16, 31)])
def test_intensity_is_of_the_scale(l_first, l_last):
    (found,) = power(l_first, l_last, polarized=False)
    assert found[l_last + 2 :].sum() < 0.01 * found.sum()
    assert found[: l_first // 2].sum() < 0.2 * found.sum()


def test_polarization_is_e_and_b_alike():
    e, b = power(16, 31, polarized=True)
    for one in (e, b):
        assert one[:2].sum() < 1e-4 * one.sum()
        assert one[34:].sum() < 0.01 * one.sum()
        assert 0.3 < one.sum() / (e.sum() + b.sum()) < 0.7


def test_values_do_not_depend_on_who_asks():
    whole = random_waves(DIRECTIONS, 8, 15, polarized=True)
    np.testing.assert_allclose(
        random_waves(DIRECTIONS[100:117], 8, 15, polarized=True), whole[100:117], rtol=0, atol=1e-12
    )
    pole = random_waves(np.array([[0.0, 0.0, 1.0]]), 8, 15, polarized=True)
    assert np.isfinite(pole).all()
