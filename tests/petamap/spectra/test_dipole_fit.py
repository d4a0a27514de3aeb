"""What the fit of monopole and dipole takes, against maps of every mode."""

from functools import cache

import numpy as np
import pytest

from petamap.sky.harmonics import multipoles, synthesise
from petamap.sky.healpix import Healpix
from petamap.spectra.coupling import mode_coupling
from petamap.spectra.cross_spectra import pseudo_spectra
from petamap.spectra.dipole_fit import DipoleFit, subtract_dipole_fit
from petamap.spectra.masks import apodize
from petamap.spectra.pseudo_cl import PseudoClEstimator
from petamap.spectra.transforms import Harmonics, weighted_harmonics

N_SIDE, LAST = 8, 11
SKY = Healpix(N_SIDE)
DIRECTIONS = SKY.directions_of(np.arange(SKY.n_pix))


def weights(seed, sky=SKY):
    """Of I, with a rugged cut, and of Q and U, which vary."""
    x, y, z = sky.directions_of(np.arange(sky.n_pix)).T
    hard = (np.abs(z + 0.2 * np.sin((3 + seed) * np.arctan2(y, x))) > 0.3).astype(float)
    soft = apodize(hard, sky, np.radians(10))
    return soft, hard * (1 + 0.5 * x)


def modes(l_max, degree):
    """Coefficients of orthonormal real fields of one degree, complex128 (2 degree + 1, n_alm)."""
    l, rows = multipoles(l_max), []  # noqa: E741
    for place in np.flatnonzero(l == degree):
        for factor in (1.0,) if place <= l_max else (np.sqrt(0.5), 1j * np.sqrt(0.5)):
            rows.append(np.zeros(len(l), np.complex128))
            rows[-1][place] = factor
    return np.stack(rows)


@cache
def seen(seed, keep, l_max=3 * N_SIDE - 1):
    """Coefficients of the weighted maps of all fields up to LAST, by degree, in T and in E."""
    sight = PseudoClEstimator(SKY, np.stack(weights(seed)), 3, keep_dipole=keep)
    found = []
    for degree in range(LAST + 1):
        rows = []
        for alm in modes(l_max, degree):
            e = alm if degree >= 2 else 0 * alm
            intensity = synthesise(alm[None], N_SIDE, l_max, 0)
            polarization = synthesise(np.stack((e, 0 * e)), N_SIDE, l_max, 2)
            rows.append(sight.harmonics(np.concatenate((intensity, polarization))))
        found.append(rows)
    return found


def taken(first, second, name):
    """What the fit takes of the pseudo-spectra, (l_max + 1, LAST + 1), as maps have it."""
    columns = []
    for degree in range(LAST + 1):
        total = 0.0
        for keep, sign in ((False, 1), (True, -1)):
            pairs = zip(seen(first, keep)[degree], seen(second, keep)[degree], strict=True)
            total += sign * sum(pseudo_spectra(*pair)[name] for pair in pairs)
        columns.append(total)
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 2)])
def test_what_a_fit_takes_is_what_it_takes_of_all_modes(first, second):
    parts = [weighted_harmonics(np.zeros((3, SKY.n_pix)), SKY, *weights(seed)) for seed in (first, second)]
    fits = [DipoleFit(*weights(seed), SKY) for seed in (first, second)]
    auto = first == second
    plain = mode_coupling(parts[0], None if auto else parts[1])
    fitted = subtract_dipole_fit(plain, fits[0], None if auto else fits[1])
    names = ("TT", "TE") if auto else ("TT", "TE", "ET")
    for name in names:
        found = fitted.block(name, name, names) - plain.block(name, name, names)
        expected = taken(first, second, name)
        size = np.abs(expected[:, 2:]).max()
        assert size > 1e-3
        # pixels so large do not hold the edges better, nor transforms
        off = found[2 : LAST + 1, 2 : LAST + 1] - expected[2 : LAST + 1, 2:]
        assert np.abs(off).max() < 0.03 * size
    np.testing.assert_array_equal(fitted.block("EE", "EE", names), plain.block("EE", "EE", names))


@pytest.mark.parametrize("n_side", [16, 64])
def test_nothing_is_left_of_monopole_and_dipole(n_side):
    sky = Healpix(n_side)
    both = weights(1, sky)
    plain = mode_coupling(weighted_harmonics(np.zeros((1, sky.n_pix)), sky, both[0]))
    fitted = subtract_dipole_fit(plain, DipoleFit(both[0], None, sky))
    end = 3 * min(n_side, 32)
    before, after = (one.matrices[0][:end, :2] for one in (plain, fitted))
    assert np.abs(after).max() < 2e-3 * np.abs(before).max()
    assert np.array_equal(plain.matrices[1:], fitted.matrices[1:])


def test_of_the_whole_sky_the_fit_takes_monopole_and_dipole_alone():
    alm = np.zeros((1, len(multipoles(23))), np.complex128)
    whole = np.ones(SKY.n_pix)
    window = weighted_harmonics(np.zeros((1, SKY.n_pix)), SKY, whole)
    fitted = subtract_dipole_fit(
        mode_coupling(Harmonics(alm, "T", window.weights, 23, 23)), DipoleFit(whole, None, SKY)
    )
    expected = np.diag(np.where(np.arange(24) < 2, 0.0, 1.0))
    np.testing.assert_allclose(fitted.matrices[0], expected, rtol=0, atol=2e-3)
