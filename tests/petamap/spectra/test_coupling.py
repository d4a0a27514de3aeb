"""Coupling matrices against exact Wigner symbols, and what they must be for skies that are known."""

import ducc0
import numpy as np
import pytest
from coupled_spectra import coupled
from hypothesis import given, settings
from hypothesis import strategies as st
from wigner import three_j

from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.spectra import coupling
from petamap.spectra.coupling import KINDS, WINDOWS, coupling_of_windows, mode_coupling
from petamap.spectra.transforms import weighted_harmonics


def dense(windows, l_max):
    """The definition, with symbols from whole numbers."""
    out = np.zeros((5, l_max + 1, l_max + 1))
    for a in range(l_max + 1):
        for b in range(l_max + 1):
            for c in range(len(windows["TT"])):
                zero, two = three_j(a, b, c, 0, 0), three_j(a, b, c, 2, -2)
                factor = (2 * b + 1) * (2 * c + 1) / (4 * np.pi)
                out[0, a, b] += factor * windows["TT"][c] * zero * zero
                out[1, a, b] += factor * windows["TP"][c] * zero * two
                out[2, a, b] += factor * windows["PT"][c] * zero * two
                out[3 if (a + b + c) % 2 == 0 else 4, a, b] += factor * windows["PP"][c] * two * two
    return out


@pytest.mark.parametrize(("l_max", "n_window"), [(0, 1), (1, 3), (9, 1), (9, 2), (9, 8), (9, 19), (9, 30)])
def test_against_exact_symbols(l_max, n_window):
    rng = np.random.default_rng(n_window)
    windows = {kind: rng.standard_normal(n_window) for kind in WINDOWS}
    found, expected = coupling_of_windows(windows, l_max).matrices, dense(windows, l_max)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14 * max(np.abs(expected).max(), 1))


@pytest.mark.parametrize("part", [1, 5000, 1 << 40])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_no_bit_depends_on_parts(monkeypatch, part, n_threads):
    rng = np.random.default_rng(1)
    windows = {kind: rng.standard_normal(50) for kind in WINDOWS}
    whole = coupling_of_windows(windows, 40).matrices
    monkeypatch.setattr(coupling, "_PART", part)
    edges = [0, *(stop for _, stop in coupling._parts(40))]
    assert edges == sorted(edges) and edges[-1] == 41 and (part > 1) == (len(edges) < 40)
    assert np.array_equal(coupling_of_windows(windows, 40, n_threads).matrices, whole)


def test_at_high_multipoles_against_another_recursion():
    l_max, rng = 700, np.random.default_rng(5)
    windows = {kind: rng.random(2 * l_max + 1) for kind in WINDOWS}
    found = coupling_of_windows(windows, l_max).matrices
    l3 = np.arange(2 * l_max + 1)
    for a, b in ((700, 700), (700, 2), (643, 411), (3, 5), (699, 698)):
        symbols = np.zeros((2, len(l3)))
        for row, s in zip(symbols, (0, 2), strict=True):
            first, values = ducc0.misc.wigner3j_int(a, b, s, -s)
            row[first : first + len(values)] = values
        zero, two = symbols
        factor = (2 * b + 1) * (2 * l3 + 1) / (4 * np.pi)
        even = (a + b + l3) % 2 == 0
        sums = (
            factor * windows["TT"] * zero**2,
            factor * windows["TP"] * zero * two,
            factor * windows["PT"] * zero * two,
            factor * windows["PP"] * two**2 * even,
            factor * windows["PP"] * two**2 * ~even,
        )
        scale = (factor * two**2).sum()
        for kind, terms in enumerate(sums):
            assert abs(found[kind, a, b] - terms.sum()) < 1e-12 * scale, (KINDS[kind], a, b)


def test_the_whole_sky_couples_nothing():
    matrices = coupling_of_windows({kind: np.array([4 * np.pi]) for kind in WINDOWS}, 60).matrices
    for kind, matrix in zip(KINDS, matrices, strict=True):
        expected = np.zeros((61, 61)) if kind == "--" else np.eye(61)
        expected[:2] *= kind == "00"
        np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-14)


def test_the_whole_sky_on_pixels_couples_next_to_nothing():
    ones = np.ones((3, Healpix(16).n_pix))
    matrices = mode_coupling(weighted_harmonics(ones, Healpix(16), l_max=24)).matrices
    np.testing.assert_allclose(matrices[0], np.eye(25), rtol=0, atol=1e-4)
    np.testing.assert_allclose(matrices[3][2:, 2:], np.eye(23), rtol=0, atol=1e-4)


def test_no_power_is_lost():
    """Rows of a white sky: sum over l' of M_ll' is the mean of W^2 (Hivon et al. 2002, equation 15)."""
    l_max_w = 12
    window = np.random.default_rng(1).random(l_max_w + 1)
    mean_square = np.sum((2 * np.arange(l_max_w + 1) + 1) * window) / (4 * np.pi)
    matrices = coupling_of_windows(dict.fromkeys(WINDOWS, window), 60).matrices
    np.testing.assert_allclose(matrices[0].sum(axis=1)[: 60 - l_max_w], mean_square, rtol=1e-13)
    both = (matrices[3] + matrices[4]).sum(axis=1)
    np.testing.assert_allclose(both[2 + l_max_w : 60 - l_max_w], mean_square, rtol=1e-13)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 3), st.integers(1, 40))
def test_linear_in_the_windows_and_symmetric(seed, factor, n_window):
    rng, l_max = np.random.default_rng(seed), 14
    one, other = ({kind: rng.standard_normal(n_window) for kind in WINDOWS} for _ in range(2))
    both = {kind: one[kind] + factor * other[kind] for kind in WINDOWS}
    a, b, c = (coupling_of_windows(windows, l_max).matrices for windows in (one, other, both))
    np.testing.assert_allclose(c, a + factor * b, rtol=0, atol=1e-12 * n_window)
    bare = a / (2 * np.arange(l_max + 1) + 1)
    np.testing.assert_allclose(bare, bare.transpose(0, 2, 1), rtol=0, atol=1e-15 * n_window)


def test_bits_do_not_depend_on_threads():
    windows = {kind: np.random.default_rng(2).random(200) for kind in WINDOWS}
    one = coupling_of_windows(windows, 150, 1).matrices
    for n_threads in (2, 3, 8):
        assert np.array_equal(coupling_of_windows(windows, 150, n_threads).matrices, one)


def test_mixing_of_e_and_b():
    rng = np.random.default_rng(3)
    coupling = coupling_of_windows({kind: rng.random(8) for kind in WINDOWS}, 10)
    names = ("EE", "BB", "EB", "BE")
    true = Spectra(rng.standard_normal((4, 11)), names)
    found = coupled(coupling, true)
    plus, minus = coupling.matrices[3:]
    np.testing.assert_allclose(found["EE"], plus @ true["EE"] + minus @ true["BB"], rtol=1e-12)
    np.testing.assert_allclose(found["BE"], plus @ true["BE"] - minus @ true["EB"], rtol=1e-11, atol=1e-12)
    one = Spectra(true.values[2:3], ("EB",))
    np.testing.assert_allclose(
        coupled(coupling, one)["EB"], (plus - minus) @ true["EB"], rtol=1e-11, atol=1e-12
    )
