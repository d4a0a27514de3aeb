"""Tests of covariances and probabilities against NumPy and known distributions."""

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_t

from petacomm.base.errors import DataError
from petamap.montecarlo.statistics import (
    Convergence,
    MeanTest,
    Uniformity,
    covariance,
    hartlap_factor,
    hotelling_probability,
    leave_one_out_t2,
    standard_error,
)

RNG = np.random.default_rng(11)
MIX = RNG.standard_normal((5, 5))


def draws(n, p=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p)) @ MIX[:p, :p]


def test_covariance_against_numpy():
    values = draws(40) + 7
    np.testing.assert_allclose(covariance(values), np.cov(values.T), rtol=1e-12)
    np.testing.assert_allclose(standard_error(values), np.std(values, axis=0, ddof=1) / np.sqrt(40))
    assert np.isnan(standard_error(values[:1])).all()
    with pytest.raises(DataError, match="one realization"):
        covariance(values[:1])


def test_leave_one_out_t2():
    values, expected = draws(30) + 2, np.full(5, 2.0)
    for i, found in enumerate(leave_one_out_t2(values, expected)):
        others = np.delete(values, i, axis=0)
        off = values[i] - expected
        assert found == pytest.approx(off @ np.linalg.solve(np.cov(others.T), off), rel=1e-9)


def test_scale_invariance():
    """Variances of bandpowers in K^2 are of the order of 1e-24."""
    values, scale = draws(30), 10.0 ** np.array([-24, -12, 0, 6, 3])
    np.testing.assert_allclose(
        leave_one_out_t2(values * scale, np.zeros(5)), leave_one_out_t2(values, np.zeros(5)), rtol=1e-9
    )
    found, other = MeanTest.from_samples(values * scale), MeanTest.from_samples(values)
    assert found.probability == pytest.approx(other.probability, rel=1e-9)


def test_probabilities_of_gaussian_samples_are_uniform():
    """Also for few samples, for which chi-squared with the inverse covariance is biased."""
    probabilities = np.concatenate(
        [Uniformity.from_samples(draws(12, seed=seed), np.zeros(5)).probabilities[:1] for seed in range(400)]
    )
    assert kstest(probabilities, "uniform").pvalue > 0.01
    means = [MeanTest.from_samples(draws(12, seed=seed)).probability for seed in range(400)]
    assert kstest(means, "uniform").pvalue > 0.01


def test_the_t_distribution_of_sellentin_and_heavens():
    """The density (1 + T^2 / (n - 1))^(-n / 2) has the probabilities of `hotelling_probability`."""
    n, p = 12, 3
    matrix = np.cov(draws(n, p).T)
    # in SciPy: shape matrix S (n - 1) / (n - p), n - p degrees of freedom
    drawn = multivariate_t(shape=matrix * (n - 1) / (n - p), df=n - p).rvs(20000, random_state=3)
    squared = np.einsum("ni,ij,nj->n", drawn, np.linalg.inv(matrix), drawn)
    assert kstest(hotelling_probability(squared, n - 1, p), "uniform").pvalue > 0.01


def test_hartlap_makes_the_inverse_unbiased():
    inverses = [np.linalg.inv(covariance(draws(15, seed=seed))) for seed in range(3000)]
    true = np.linalg.inv(MIX.T @ MIX)
    ratio = np.mean(inverses, axis=0).diagonal() / true.diagonal()
    np.testing.assert_allclose(ratio * hartlap_factor(15, 5), 1, rtol=0, atol=0.06)
    assert ratio.min() > 1.5 and hartlap_factor(15, 20) == 0


def test_bias_is_detected():
    values = draws(200) + 0.5 * MIX.std(axis=0)
    found = MeanTest.from_samples(values)
    assert found.probability < 1e-6 and found.worst > 2
    assert Uniformity.from_samples(values, values.mean(axis=0) + 2 * MIX[0]).probability < 1e-6
    assert Uniformity.from_samples(values, values.mean(axis=0)).probability > 0.01
    assert MeanTest.from_samples(draws(200)).chance() == pytest.approx(0.015, abs=0.002)


def test_too_few_samples():
    few = draws(7)
    assert Uniformity.from_samples(few, np.zeros(5)) is None
    found = MeanTest.from_samples(few)
    assert np.isnan(found.probability) and np.isfinite(found.pulls).all()


def test_convergence_of_gaussian_samples():
    found = Convergence.from_samples(draws(4000))
    assert found.steps[0] == 4 and found.steps[-1] < 4000
    assert found.error == pytest.approx(np.sqrt(2 / 3999))
    later = np.array(found.steps) > 50
    ratio = found.variances[later] / found.expected[later]
    assert ratio.min() > 0.4 and ratio.max() < 2.2
    assert 0.2 < found.halves / found.expected_halves < 2.2
    assert found.correlations[later].max() < 0.4 and found.hartlap == pytest.approx(3993 / 3999)
