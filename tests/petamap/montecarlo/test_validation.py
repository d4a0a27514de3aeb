"""Tests of calibration and validation with a Monte Carlo of maps: biases are detected."""

from dataclasses import replace

import numpy as np
import pytest
from made_realizations import CHOICES, NAMES, SIGMA, SKY, noise, realizations, seen, weights

from petacomm.base.errors import ConfigError, DataError
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.statistics import standard_error
from petamap.montecarlo.validation import ALL_SPECTRA, ConsistencyCheck, split_halves
from petamap.spectra.cross_spectra import pseudo_spectra


def parts(made, *names):
    return replace(made, pseudo={name: made.pseudo[name] for name in names})


def test_unbiased_bandpowers():
    """Cut sky, beam, noise: all bins of all six spectra."""
    made = realizations()
    check = ConsistencyCheck.from_realizations(made, Calibration.from_realizations(made))
    assert check.failed(0.003) == []
    found = check.deviations[ALL_SPECTRA]
    assert len(found.mean) == 6 * 5 and found.worst < 3.7
    assert set(check.probabilities) == {*NAMES, ALL_SPECTRA}
    assert len(check.probabilities[ALL_SPECTRA].probabilities) == 100


def test_residual_noise_is_detected():
    made = realizations()
    calibration = Calibration.from_realizations(made)
    # the bias of white noise: 4 pi / n_pix^2 times the sum of w^2 sigma^2
    level = 4 * np.pi / SKY.n_pix**2 * np.sum(weights()[0] ** 2) * SIGMA[:, 0] ** 2
    for name, expected in (("TT", level[0]), ("EE", level[1]), ("BB", level[2])):
        error = standard_error(made.pseudo["noise"][:, NAMES.index(name)])
        pulls = (calibration.noise[name] - expected)[6:] / error[6:]
        assert np.abs(pulls).max() < 4.5 and np.mean(pulls**2) < 2
    biased = replace(made, pseudo={"both": made.pseudo["both"]})
    failed = ConsistencyCheck.from_realizations(biased, replace(calibration, noise=None)).failed()
    assert any(text.startswith("BB: bandpowers are biased") for text in failed)
    assert any(text.startswith("BB: probabilities are not uniform") for text in failed)


def test_filter_is_detected_and_divided_out():
    made = realizations(filtered=0.3)
    assert any(
        "TT: bandpowers are biased" in text
        for text in ConsistencyCheck.from_realizations(made, Calibration.from_realizations(made)).failed()
    )
    one, other = split_halves(made)
    assert set(one.numbers).isdisjoint(other.numbers) and one.n == other.n == 50
    check = ConsistencyCheck.from_realizations(other, Calibration.from_realizations(one, divide=True))
    assert check.failed(0.003) == []


def test_noise_and_transfer_from_available_parts():
    made = realizations()
    reference = Calibration.from_realizations(made)
    for kept in (("sky", "both"), ("noise", "both")):
        found = Calibration.from_realizations(parts(made, *kept))
        rows = made.pseudo["both"] - made.pseudo["sky"] if "sky" in kept else made.pseudo["noise"]
        apart = (found.noise.values - reference.noise.values)[:, 4:] / standard_error(rows)[:, 4:]
        assert np.abs(apart).max() < 4.5
        pulls = (found.transfer.values - reference.transfer.values) / found.transfer.errors
        assert np.abs(pulls).max() < 4
    sky = Calibration.from_realizations(parts(made, "sky"))
    assert (
        sky.noise is None and ConsistencyCheck.from_realizations(parts(made, "sky"), sky).failed(0.003) == []
    )
    noise_alone = replace(parts(made, "noise"), input=None)
    found = Calibration.from_realizations(noise_alone)
    assert found.transfer is None
    np.testing.assert_allclose(found.realization_bandpowers(noise_alone).mean(axis=0), 0, rtol=0, atol=1e-22)
    with pytest.raises(DataError, match="does not know"):
        ConsistencyCheck.from_realizations(noise_alone, found)
    with pytest.raises(DataError, match="no transfer function"):
        Calibration.from_realizations(noise_alone, divide=True)


def test_covariance_of_data():
    made = realizations()
    calibration = Calibration.from_realizations(made)
    data = pseudo_spectra(seen(noise(1000)))
    found = calibration.bandpowers(data, made)
    n = found.values.size
    matrix = np.cov(calibration.realization_bandpowers(made).reshape(made.n, n).T)
    np.testing.assert_allclose(found.covariance.reshape(n, n), matrix, rtol=1e-9)
    assert np.abs(found["BB"]).max() < 5 * found.errors[2].max()
    assert found.windows.shape == (6, 5, 6, 33) and found.binning.ranges[-1] == (26, 31)


def test_few_realizations():
    """20 realizations give no covariance of 30 bins, but one of the five bins of each spectrum."""
    made = realizations().select(slice(0, 20))
    check = ConsistencyCheck.from_realizations(made, Calibration.from_realizations(made))
    assert ALL_SPECTRA not in check.probabilities and "TT" in check.probabilities
    assert np.isnan(check.deviations[ALL_SPECTRA].probability) and check.failed(0.001) == []
    with pytest.raises(DataError, match="3 realizations say nothing"):
        ConsistencyCheck.from_realizations(made.select([0, 1, 2]), Calibration.from_realizations(made))


def test_inconsistent_arguments():
    made = realizations()
    with pytest.raises(DataError, match="no realization is finished"):
        made.select(slice(0, 0))
    with pytest.raises(DataError, match="input"):
        replace(made, input=made.input[:5])
    with pytest.raises(DataError, match="weights"):
        replace(made, weights=made.weights[:, :5])
    with pytest.raises(ConfigError, match="l_max 40 is beyond"):
        Calibration.from_realizations(replace(made, choices=replace(CHOICES, l_max=40)))
