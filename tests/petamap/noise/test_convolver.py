"""The in-place convolution of two real blocks, against SciPy's FFT and against its own symmetries."""

import numpy as np
import pytest
import scipy.fft
from hypothesis import given
from hypothesis import strategies as st

from petamap.noise._noise import Convolver


def twin(block, lags):
    """Convolve circularly by a plain FFT of the even kernel."""
    kernel = np.zeros(block.size)
    kernel[: lags.size] = lags
    kernel[block.size - lags.size + 1 :] += lags[:0:-1]
    return scipy.fft.irfft(scipy.fft.rfft(block) * scipy.fft.rfft(kernel), block.size)


def convolve(a, b, lags):
    convolver = Convolver(a.size)
    spectrum = np.empty(a.size)
    convolver.spectrum(lags, spectrum)
    out_a, out_b = a.copy(), b.copy()
    convolver.convolve(out_a, out_b, spectrum)
    return out_a, out_b


@pytest.mark.parametrize("exponent", range(6, 18))
def test_equals_fft(exponent):
    n = 2**exponent
    rng = np.random.default_rng(exponent)
    lags = rng.standard_normal(n // 4)
    a, b = rng.standard_normal((2, n))
    for got, block in zip(convolve(a, b, lags), (a, b), strict=True):
        expected = twin(block, lags)
        assert np.abs(got - expected).max() < 1e-15 * exponent * np.abs(lags).sum()


@given(st.integers(6, 11), st.integers(0, 2**32 - 1), st.floats(1e-3, 1))
def test_self_adjoint(exponent, seed, band):
    """<x, K y> = <K x, y>, the two blocks never mixing."""
    n = 2**exponent
    rng = np.random.default_rng(seed)
    lags = rng.standard_normal(max(1, int(band * (n // 2 - 1))))
    x, y = rng.standard_normal((2, n))
    k_x, k_y = convolve(x, y, lags)
    bound = np.abs(lags).sum() * np.linalg.norm(x) * np.linalg.norm(y)
    assert abs(x @ k_y - k_x @ y) < 1e-13 * bound


def test_unit_kernel_returns_the_data():
    a, b = np.random.default_rng(0).standard_normal((2, 4096))
    for got, block in zip(convolve(a, b, np.ones(1)), (a, b), strict=True):
        assert np.abs(got - block).max() < 1e-14


@pytest.mark.parametrize("n", [0, 32, 96, 1000])
def test_refuses_other_lengths(n):
    with pytest.raises(ValueError, match="power of two"):
        Convolver(n)


def test_refuses_a_kernel_longer_than_the_transform():
    with pytest.raises(ValueError, match="longer"):
        Convolver(64).spectrum(np.ones(34), np.empty(64))
