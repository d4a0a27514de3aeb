"""The exact likelihood: covariance, derivatives, and skies that come back."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petamap.simulation.random_keys import Purpose, random_stream
from petamap.simulation.sky_spectra import gaussian_alm, read_spectra, synthesize
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.spectra import likelihood
from petamap.spectra.likelihood import PixelLikelihood, harmonic_modes
from petamap.spectra.multipole_bins import Binning

SKY, L_MAX = Healpix(4), 8
DIRECTIONS = SKY.directions_of(np.arange(SKY.n_pix))
SEEN = np.tile(np.abs(DIRECTIONS[:, 2]) > 0.2, (3, 1))
WINDOWS = {"T": np.ones(L_MAX + 1), "P": np.ones(L_MAX + 1)}
MODES = harmonic_modes(4, SEEN, L_MAX, WINDOWS)
TRUE = read_spectra("planck2018")[:, : L_MAX + 1] * 1e12
TRUE[1] = 1e-3 * TRUE[0]
TRUE[2], TRUE[3] = 0.5 * TRUE[1], 0.3 * np.sqrt(TRUE[0] * TRUE[1])
FIDUCIAL = Spectra(TRUE, ("TT", "EE", "BB", "TE"))
BINS = Binning(np.array([2, 4, 6, 8]))
SIGMA = np.repeat([2.0, 0.2, 0.2], SEEN[0].sum())
RNG = np.random.default_rng(2)
# white noise and what neighbours in the list share
NOISE = np.diag(SIGMA**2) + 0.3 * np.multiply.outer(SIGMA, SIGMA) * np.exp(
    -np.abs(np.subtract.outer(np.arange(len(SIGMA)), np.arange(len(SIGMA)))) / 4.0
)
TEMPLATES = np.zeros((len(SIGMA), 4))
TEMPLATES[: SEEN[0].sum()] = np.column_stack((np.ones(SEEN[0].sum()), DIRECTIONS[SEEN[0]]))


DATA = RNG.standard_normal(len(SIGMA))


def draw(realization):
    words = np.stack([random_stream(Purpose.SKY, 9, realization, detector=k) for k in range(3)])
    sky = synthesize(gaussian_alm(TRUE, words, L_MAX), L_MAX, 4)[SEEN]
    return sky + np.linalg.cholesky(NOISE) @ RNG.standard_normal(len(SIGMA))


def made(data, **changes):
    return PixelLikelihood(data, NOISE, MODES, BINS, changes.get("fiducial", FIDUCIAL), TEMPLATES)


def test_covariance_is_the_sum_of_legendre_functions():
    n = int(SEEN[0].sum())
    cosines = np.clip(DIRECTIONS[SEEN[0]] @ DIRECTIONS[SEEN[0]].T, -1, 1)
    factors = (2 * np.arange(L_MAX + 1) + 1) / (4 * np.pi) * TRUE[0]
    factors[:2] = 0
    rows = MODES.values[:n, 0]
    expected = np.polynomial.legendre.legval(cosines, factors)
    np.testing.assert_allclose(
        (rows * TRUE[0][MODES.l]) @ rows.T, expected, rtol=0, atol=1e-9 * expected.max()
    )
    # of polarization: Q^2 + U^2 of a pixel is the sum of (2 l + 1) C_l / 4 pi
    q, u = MODES.values[n : 2 * n, 1], MODES.values[2 * n :, 1]
    power = ((q**2 + u**2) * TRUE[1][MODES.l]).sum(axis=1)
    np.testing.assert_allclose(power, np.sum(((2 * np.arange(L_MAX + 1) + 1) * TRUE[1])[2:]) / (4 * np.pi))


def test_derivatives():
    found, powers = made(draw(0)), BINS.binned(FIDUCIAL.select(made(draw(0)).names).values)
    gradient, fisher, _ = found.slope(powers)
    for i in (0, 4, 7, 10, 13, 16):
        step = np.zeros(powers.size)
        step[i] = 1e-3 / np.sqrt(fisher[i, i])
        step = step.reshape(powers.shape)
        change = (found.value(powers + step) - found.value(powers - step)) / 2 / step.sum()
        assert change == pytest.approx(gradient[i], rel=1e-4, abs=1e-4 * np.sqrt(fisher[i, i]))
    assert np.all(np.linalg.eigvalsh(fisher) > 0) and np.allclose(fisher, fisher.T)


def test_templates_do_not_count():
    data = draw(1)
    one, two = made(data).quadratic(), made(data + TEMPLATES @ [1e4, 3e3, -2e3, 1e3]).quadratic()
    np.testing.assert_allclose(two.values, one.values, rtol=1e-5, atol=1e-5 * one.errors.max())


def test_skies_come_back():
    n = 40
    maps = np.array([draw(k) for k in range(n)])
    alone = made(maps[3]).quadratic()
    values = made(maps[0]).estimates(maps)
    np.testing.assert_allclose(values[3], alone.values, rtol=0, atol=1e-9 * alone.errors.max())
    expected = np.einsum("ablm,lm->ab", alone.windows, FIDUCIAL.select(made(draw(0)).names).values)
    pulls = (values.mean(axis=0) - expected) / alone.errors * np.sqrt(n)
    assert np.abs(pulls).max() < 4 and np.mean(pulls**2) < 2
    np.testing.assert_allclose(
        values.std(axis=0).mean(axis=1) / alone.errors.mean(axis=1), 1, rtol=0, atol=0.3
    )


def test_the_maximum():
    wrong = Spectra(TRUE * np.array([[1.3], [1.5], [1.5], [1.2]]), FIDUCIAL.names)
    found = made(draw(3), fiducial=wrong)
    best = found.maximum(1e-4)
    gradient, fisher, _ = found.slope(best.values)
    assert np.all(np.abs(np.linalg.solve(fisher, gradient)) < 1e-3 * best.errors.ravel())
    assert found.value(best.values) > found.value(BINS.binned(wrong.select(found.names).values))


def test_bits_do_not_depend_on_the_threads_of_blas():
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            estimate = made(DATA).quadratic()
        found.append(estimate.values.tobytes() + estimate.errors.tobytes())
    assert found[0] == found[1]


def seeing(n_pixels):
    seen = np.zeros((3, SKY.n_pix), bool)
    seen[:, 40 : 40 + n_pixels] = True
    noise = np.diag(np.repeat([2.0, 0.2, 0.2], n_pixels) ** 2)
    modes = harmonic_modes(4, seen, L_MAX, WINDOWS)
    return PixelLikelihood(DATA[: 3 * n_pixels], noise, modes, BINS, FIDUCIAL)


@pytest.mark.parametrize("estimator", ["quadratic", "maximum"])
@pytest.mark.parametrize("n_pixels", [1, 3])
def test_few_pixels_do_not_tell_all_bandpowers_apart(n_pixels, estimator):
    assert np.isfinite(seeing(12).quadratic().errors).all()
    with pytest.raises(DataError, match=r"not tell 18 bandpowers apart: .* \(ask for fewer: wider bins"):
        getattr(seeing(n_pixels), estimator)()


def test_what_does_not_fit_is_refused(monkeypatch):
    data = draw(0)
    with pytest.raises(DataError, match="data, noise of"):
        PixelLikelihood(data[1:], NOISE, MODES, BINS, FIDUCIAL)
    with pytest.raises(ConfigError, match="between l = 2 and 8"):
        PixelLikelihood(data, NOISE, MODES, Binning(np.array([2, 12])), FIDUCIAL)
    with pytest.raises(DataError, match="not positive"):
        PixelLikelihood(data, -NOISE, MODES, BINS, FIDUCIAL).quadratic()
    monkeypatch.setattr(likelihood, "available_bytes", lambda: 10**6)
    with pytest.raises(ResourceError, match="GB"):
        made(data)
