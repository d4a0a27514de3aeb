"""Samples of the sky: what is estimated from them is unbiased."""

import numpy as np

from petamap.planning.sky_regions import draw_sky_sample
from petamap.sky.healpix import Healpix


def test_a_thinned_out_sample_is_unbiased():
    grid = Healpix(32, nest=True)  # of 192 regions
    hits = np.random.default_rng(1).exponential(size=48)
    values = np.random.default_rng(2).exponential(size=192)
    sums = []
    for seed in range(2000):
        sample = draw_sky_sample(grid, 0.4, seed, hits).thinned(3, seed + 1)
        assert sample.weights.sum() == 192
        assert np.all(np.diff(sample.regions) > 0)
        assert np.all(sample.stratum_of(sample.regions << 6) == np.arange(len(sample.regions)))
        sums.append(sample.weights @ values[sample.regions])
    assert abs(np.mean(sums) - values.sum()) < 4 * np.std(sums) / np.sqrt(2000)
