"""A Monte Carlo of maps, calibrated and checked: what is unbiased passes, what is not is found."""

from dataclasses import replace

import numpy as np
import pytest
from made_realizations import CHOICES, NAMES, SIGMA, SKY, noise, realizations, seen, weights

from petacomm.base.errors import ConfigError, DataError
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.validation import ALL, Check, halves
from petamap.spectra.cross_spectra import pseudo_spectra


def parts(made, *names):
    return replace(made, pseudo={name: made.pseudo[name] for name in names})


def test_bandpowers_are_those_that_went_in():
    """Cut sky, beam, noise: all bins of all six spectra."""
    made = realizations()
    check = Check.of(made, Calibration.of(made))
    assert check.failed(0.003) == []
    found = check.deviations[ALL]
    assert len(found.mean) == 6 * 5 and found.worst < 3.7
    assert set(check.probabilities) == {*NAMES, ALL} and set(check.nulls) == {"EB", "TB"}
    assert len(check.probabilities[ALL].probabilities) == 100


def test_noise_left_in_is_found():
    made = realizations()
    calibration = Calibration.of(made)
    # white noise is known without a Monte Carlo: 4 pi / n_pix^2 times the sum of w^2 sigma^2
    level = 4 * np.pi / SKY.n_pix**2 * np.sum(weights()[0] ** 2) * SIGMA[:, 0] ** 2
    for name, expected in (("TT", level[0]), ("EE", level[1]), ("BB", level[2])):
        pulls = (calibration.noise[name] - expected)[6:] / calibration.noise_error[name][6:]
        assert np.abs(pulls).max() < 4.5 and np.mean(pulls**2) < 2
    biased = replace(made, pseudo={"both": made.pseudo["both"]})
    failed = Check.of(biased, replace(calibration, noise=None)).failed()
    assert any(text.startswith("BB: bandpowers are biased") for text in failed)
    assert any(text.startswith("BB: probabilities are not uniform") for text in failed)


def test_a_filter_is_found_and_divided_out():
    made = realizations(filtered=0.3)
    assert any("TT: bandpowers are biased" in text for text in Check.of(made, Calibration.of(made)).failed())
    one, other = halves(made)
    assert set(one.numbers).isdisjoint(other.numbers) and one.n == other.n == 50
    check = Check.of(other, Calibration.of(one, divide=True))
    assert check.failed(0.003) == []


def test_noise_and_transfer_from_the_parts_there_are():
    made = realizations()
    whole = Calibration.of(made)
    for kept in (("sky", "both"), ("noise", "both")):
        found = Calibration.of(parts(made, *kept))
        apart = (found.noise.values - whole.noise.values)[:, 4:] / found.noise_error.values[:, 4:]
        assert np.abs(apart).max() < 4.5
        pulls = (found.transfer.values - whole.transfer.values) / found.transfer.errors
        assert np.abs(pulls).max() < 4
    sky = Calibration.of(parts(made, "sky"))
    assert sky.noise is None and Check.of(parts(made, "sky"), sky).failed(0.003) == []
    noise_alone = replace(parts(made, "noise"), input=None)
    found = Calibration.of(noise_alone)
    assert found.transfer is None
    np.testing.assert_allclose(found.of_realizations(noise_alone).mean(axis=0), 0, atol=1e-22)
    with pytest.raises(DataError, match="does not know"):
        Check.of(noise_alone, found)
    with pytest.raises(DataError, match="no transfer function"):
        Calibration.of(noise_alone, divide=True)


def test_bandpowers_of_data_have_the_covariance():
    made = realizations()
    calibration = Calibration.of(made)
    data = pseudo_spectra(seen(noise(1000)))
    found = calibration.bandpowers(data, made)
    n = found.values.size
    matrix = np.cov(calibration.of_realizations(made).reshape(made.n, n).T)
    np.testing.assert_allclose(found.covariance.reshape(n, n), matrix, rtol=1e-9)
    assert np.abs(found["BB"]).max() < 5 * found.errors[2].max()
    assert found.windows.shape == (6, 5, 6, 33) and found.binning.ranges[-1] == (26, 31)


def test_few_realizations():
    """20 of them give no covariance of 30 bins, but one of each spectrum's five."""
    made = realizations().chosen(slice(0, 20))
    check = Check.of(made, Calibration.of(made))
    assert ALL not in check.probabilities and "TT" in check.probabilities
    assert np.isnan(check.deviations[ALL].probability) and check.failed(0.001) == []
    with pytest.raises(DataError, match="3 realizations say nothing"):
        Check.of(made.chosen([0, 1, 2]), Calibration.of(made))


def test_what_does_not_fit_is_refused():
    made = realizations()
    with pytest.raises(DataError, match="no realization is finished"):
        made.chosen(slice(0, 0))
    with pytest.raises(DataError, match="input"):
        replace(made, input=made.input[:5])
    with pytest.raises(DataError, match="weights"):
        replace(made, weights=made.weights[:, :5])
    with pytest.raises(ConfigError, match="l_max 40 is beyond"):
        Calibration.of(replace(made, choices=replace(CHOICES, l_max=40)))
