"""Tests of noise spectra: formula, tables, invalid models."""

import numpy as np
import pytest
from astropy import units

from petacomm.base.errors import DataError
from petamap.noise.model import InverseLags, OneOverF, TabulatedPsd
from petamap.noise.psd import check_noise_model, is_white, noise_psd


def test_one_over_f_against_its_limits():
    model = OneOverF(net=2.0, fknee=0.1, fmin=1e-5, alpha=-1.5)
    f = np.array([0.0, 1e-3, 0.1, 50.0])
    expected_colour = (1e-3**1.5 + 0.1**1.5) / (1e-3**1.5 + 1e-5**1.5)
    assert noise_psd(model, f)[1] == pytest.approx(8 * expected_colour, rel=1e-13)
    assert noise_psd(model, f)[0] == pytest.approx(8 * (0.1 / 1e-5) ** 1.5, rel=1e-12)
    assert noise_psd(model, f)[2] == pytest.approx(16, rel=1e-5)
    assert noise_psd(model, f)[3] == pytest.approx(8, rel=1e-3)


def test_white_noise_and_zero_fmin():
    assert np.all(noise_psd(OneOverF(net=3.0, fmin=1e-4), np.array([0.0, 1.0])) == 18)
    assert noise_psd(OneOverF(net=1.0, fknee=1.0), np.array([0.0]))[0] == np.inf


def test_interpolation_of_tables():
    table = TabulatedPsd(np.array([0.0, 0.1, 10.0]), np.array([0.0, 100.0, 1.0]))
    f = np.array([0.0, 0.01, 0.1, 1.0, 10.0, 99.0])
    np.testing.assert_allclose(noise_psd(table, f), [100, 100, 100, 10, 1, 1], rtol=1e-13)


def test_frequencies_are_any_numbers():
    model = OneOverF(net=2.0, fknee=0.1, fmin=1e-3)
    expected = noise_psd(model, np.array([1.0, 20.0]))
    for frequencies in ([1, 20], np.array([1, 20]), [1e3, 2e4] * units.mHz):
        np.testing.assert_array_equal(noise_psd(model, frequencies), expected)


def test_is_white():
    assert is_white(OneOverF(1.0)) and not is_white(OneOverF(1.0, 0.1))
    assert is_white(InverseLags(np.array([1.0, 0.0]))) and not is_white(InverseLags(np.array([1.0, -0.1])))
    assert is_white(TabulatedPsd(np.array([1.0, 2.0]), np.array([3.0, 3.0])))


def table(frequencies, values):
    return TabulatedPsd(np.array(frequencies, float), np.array(values, float))


@pytest.mark.parametrize(
    ("model", "word"),
    [
        (table([0.1, 1, 2], [1, 0, 1]), "entry 1"),
        (table([0.1, 1, 2], [1, 1, -3]), "entry 2"),
        (table([0.1, 1, 2], [1, np.nan, 1]), "entry 1"),
        (table([0.1, 0.1, 2], [1, 1, 1]), "entry 1 is 0.1, not above"),
        (table([0.1, np.inf], [1, 1]), "entry 1"),
        (table([], []), "don't match"),
        (OneOverF(0.0), "net"),
        (OneOverF(np.nan), "net"),
        (OneOverF(1e-300), "net is 1e-300, below 1e-60"),
        (OneOverF(1e300), "net is 1e\\+300, .* above 1e\\+60"),
        (table([0.1, 1], [1, 1e200]), "entry 1 is 1e\\+200, .* above 1e\\+120"),
        (InverseLags(np.array([1e-200, 0.0])), "entry 0 is 1e-200, which is below 1e-120"),
        (OneOverF(1.0, 0.1, alpha=0.5), "alpha"),
        (OneOverF(1.0, 0.1, fmin=1.0), "fmin"),
        (InverseLags(np.array([0.0, 1.0])), "lag 0"),
        (InverseLags(np.array([1.0, np.nan])), "entry 1"),
    ],
)
def test_invalid_models(model, word):
    with pytest.raises(DataError, match=word) as caught:
        check_noise_model(model, where="scan-1, detector 27M")
    assert str(caught.value).startswith("scan-1, detector 27M: ")
