"""Covariances and probabilities of realizations, against NumPy and known distributions."""

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_t

from petacomm.base.errors import DataError
from petamap.montecarlo.statistics import (
    Convergence,
    MeanTest,
    Uniformity,
    covariance,
    hartlap,
    hotelling,
    left_out,
    standard_error,
)

RNG = np.random.default_rng(11)
MIX = RNG.standard_normal((5, 5))


def draws(n, p=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p)) @ MIX[:p, :p]


def test_covariance_is_numpys():
    values = draws(40) + 7
    np.testing.assert_allclose(covariance(values), np.cov(values.T), rtol=1e-12)
    np.testing.assert_allclose(standard_error(values), np.std(values, axis=0, ddof=1) / np.sqrt(40))
    assert np.isnan(standard_error(values[:1])).all()
    with pytest.raises(DataError, match="one realization"):
        covariance(values[:1])


def test_each_is_held_against_the_covariance_of_the_others():
    values, expected = draws(30) + 2, np.full(5, 2.0)
    for i, found in enumerate(left_out(values, expected)):
        others = np.delete(values, i, axis=0)
        off = values[i] - expected
        assert found == pytest.approx(off @ np.linalg.solve(np.cov(others.T), off), rel=1e-9)


def test_scale_of_a_number_does_not_matter():
    """Bandpowers in K^2 lie 1e-24 from one another in variance."""
    values, scale = draws(30), 10.0 ** np.array([-24, -12, 0, 6, 3])
    np.testing.assert_allclose(
        left_out(values * scale, np.zeros(5)), left_out(values, np.zeros(5)), rtol=1e-9
    )
    found, other = MeanTest.of(values * scale), MeanTest.of(values)
    assert found.probability == pytest.approx(other.probability, rel=1e-9)


def test_probabilities_of_gaussian_draws_are_uniform():
    """Also of few draws, where chi-squared with the inverse covariance would lie far off."""
    probabilities = np.concatenate(
        [Uniformity.of(draws(12, seed=seed), np.zeros(5)).probabilities[:1] for seed in range(400)]
    )
    assert kstest(probabilities, "uniform").pvalue > 0.01
    means = [MeanTest.of(draws(12, seed=seed)).probability for seed in range(400)]
    assert kstest(means, "uniform").pvalue > 0.01


def test_the_t_distribution_of_sellentin_and_heavens():
    """Their density (1 + T^2 / (n - 1))^(-n / 2) has the probabilities of `hotelling`."""
    n, p = 12, 3
    matrix = np.cov(draws(n, p).T)
    # as SciPy writes it: shape parameter S (n - 1) / (n - p), n - p degrees
    drawn = multivariate_t(shape=matrix * (n - 1) / (n - p), df=n - p).rvs(20000, random_state=3)
    squared = np.einsum("ni,ij,nj->n", drawn, np.linalg.inv(matrix), drawn)
    assert kstest(hotelling(squared, n - 1, p), "uniform").pvalue > 0.01


def test_hartlap_makes_the_inverse_unbiased():
    inverses = [np.linalg.inv(covariance(draws(15, seed=seed))) for seed in range(3000)]
    true = np.linalg.inv(MIX.T @ MIX)
    ratio = np.mean(inverses, axis=0).diagonal() / true.diagonal()
    np.testing.assert_allclose(ratio * hartlap(15, 5), 1, atol=0.06)
    assert ratio.min() > 1.5 and hartlap(15, 20) == 0


def test_a_bias_is_found():
    values = draws(200) + 0.5 * MIX.std(axis=0)
    found = MeanTest.of(values)
    assert found.probability < 1e-6 and found.worst > 2
    assert Uniformity.of(values, values.mean(axis=0) + 2 * MIX[0]).probability < 1e-6
    assert Uniformity.of(values, values.mean(axis=0)).probability > 0.01
    assert MeanTest.of(draws(200)).chance() == pytest.approx(0.015, abs=0.002)


def test_too_few_for_a_covariance():
    few = draws(7)
    assert Uniformity.of(few, np.zeros(5)) is None
    found = MeanTest.of(few)
    assert np.isnan(found.probability) and np.isfinite(found.pulls).all()


def test_convergence_is_as_of_gaussian_draws():
    found = Convergence.of(draws(4000))
    assert found.steps[0] == 4 and found.steps[-1] < 4000
    assert found.error == pytest.approx(np.sqrt(2 / 3999))
    later = np.array(found.steps) > 50
    ratio = found.variances[later] / found.expected[later]
    assert ratio.min() > 0.4 and ratio.max() < 2.2
    assert 0.2 < found.halves / found.expected_halves < 2.2
    assert found.correlations[later].max() < 0.4 and found.hartlap == pytest.approx(3993 / 3999)
