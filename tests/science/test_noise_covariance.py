"""Noise maps scatter as the full covariance of their pixels says, with the band that is chosen by default."""

import numpy as np
import pytest
from noise_maps import noise_maps

SMALLER = {"n_side": 1, "rate": 0.5, "hours": 4, "fmin": 0.4}


def test_scatter_of_small_maps():
    """64 lags, more than the sample rate over the knee, give the slowest mode thrice what is claimed."""
    found = noise_maps(400, **SMALLER)
    assert found.n_lag == 768
    assert abs(found.chi_squared - 1) < 3 * np.sqrt(2 / found.modes.size) < 0.04
    assert found.probability > 0.01
    assert found.variances.max() < 1 + 4 * np.sqrt(2 / 400)
    assert noise_maps(100, "n_lag = 64", **SMALLER).variances.max() > 2


@pytest.mark.long
def test_scatter_of_a_small_satellite():
    """The scan and noise of the first map for 12 h with gaps, 363 unknowns, 500 maps at defaults."""
    found = noise_maps(500)
    assert found.n_lag == 8192
    assert found.modes.shape == (500, 363)
    assert abs(found.chi_squared - 1) < 0.005
    assert found.probability > 0.01
    assert found.variances.max() < 1 + 5 * np.sqrt(2 / 500)
