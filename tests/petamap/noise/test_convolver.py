"""Tests of the in-place convolution of two real blocks against SciPy's FFT, and of its symmetries."""

import numpy as np
import pytest
import scipy.fft
from hypothesis import given
from hypothesis import strategies as st

from petamap.noise._noise import Convolver


def reference_convolution(block, lags):
    """Return the circular convolution with the even kernel, by FFT."""
    kernel = np.zeros(block.size)
    kernel[: lags.size] = lags
    kernel[block.size - lags.size + 1 :] += lags[:0:-1]
    return scipy.fft.irfft(scipy.fft.rfft(block) * scipy.fft.rfft(kernel), block.size)


def convolve(a, b, lags, *lanes):
    convolver = Convolver(a.size, *lanes)
    spectrum = np.empty(a.size)
    convolver.spectrum(lags, spectrum)
    out_a, out_b = a.copy(), b.copy()
    convolver.convolve(out_a, out_b, spectrum)
    return out_a, out_b


@pytest.mark.parametrize("exponent", range(6, 18))
def test_against_fft(exponent):
    n = 2**exponent
    rng = np.random.default_rng(exponent)
    lags = rng.standard_normal(n // 4)
    a, b = rng.standard_normal((2, n))
    for result, block in zip(convolve(a, b, lags), (a, b), strict=True):
        expected = reference_convolution(block, lags)
        assert np.abs(result - expected).max() < 1e-15 * exponent * np.abs(lags).sum()


@given(st.integers(6, 11), st.integers(0, 2**32 - 1), st.floats(1e-3, 1))
def test_self_adjoint(exponent, seed, band):
    """<x, K y> = <K x, y>, without mixing of the two blocks."""
    n = 2**exponent
    rng = np.random.default_rng(seed)
    lags = rng.standard_normal(max(1, int(band * (n // 2 - 1))))
    x, y = rng.standard_normal((2, n))
    k_x, k_y = convolve(x, y, lags)
    bound = np.abs(lags).sum() * np.linalg.norm(x) * np.linalg.norm(y)
    assert abs(x @ k_y - k_x @ y) < 1e-13 * bound


def test_unit_kernel_returns_the_data():
    a, b = np.random.default_rng(0).standard_normal((2, 4096))
    for result, block in zip(convolve(a, b, np.ones(1)), (a, b), strict=True):
        assert np.abs(result - block).max() < 1e-14


@pytest.mark.parametrize("exponent", range(6, 16))
def test_lanes_change_no_bit(exponent):
    n = 2**exponent
    rng = np.random.default_rng(exponent)
    lags, (a, b) = rng.standard_normal(n // 4), rng.standard_normal((2, n))
    expected = convolve(a, b, lags)
    for lanes in (2, 4, 8):
        for result, block in zip(convolve(a, b, lags, lanes), expected, strict=True):
            assert np.array_equal(result, block)


@pytest.mark.parametrize("lanes", [0, 1, 3, 16])
def test_invalid_lanes(lanes):
    with pytest.raises(ValueError, match="2, 4 or 8 lanes"):
        Convolver(64, lanes)


@pytest.mark.parametrize("n", [0, 32, 96, 1000])
def test_invalid_lengths(n):
    with pytest.raises(ValueError, match="power of two"):
        Convolver(n)


def test_kernel_longer_than_the_transform():
    with pytest.raises(ValueError, match="longer"):
        Convolver(64).spectrum(np.ones(34), np.empty(64))
