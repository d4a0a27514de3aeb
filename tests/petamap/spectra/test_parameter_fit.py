"""Fits of parameters to bandpowers: against the linear solution in closed form, unbiased, as a command."""

import json

import numpy as np
import pytest
from montecarlo_runs import TINY
from scipy.stats import kstest

from petacomm.base.errors import ConfigError, DataError
from petamap.cli.main import main
from petamap.sky.power_spectra import Spectra
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.parameter_fit import fit_parameters

NAMES, L_MAX = ("TT", "EE", "BB", "TE", "EB", "TB"), 121
BINNING = Binning.linear(2, L_MAX, 10)
L = np.arange(L_MAX + 1.0)
THEORY = Spectra(np.outer([100, 10, 1, 5], 1 / (10 + L) ** 2), ("TT", "EE", "BB", "TE"))
TENSORS = Spectra(np.outer([3, 2, 4, 0], 1 / (10 + L) ** 3), ("TT", "EE", "BB", "TE"))


def expected(spectra):
    """Return means of D_l over bins."""
    d = L * (L + 1) / (2 * np.pi)
    rows = [spectra[name] * d if name in spectra else 0 * d for name in NAMES]
    means = [[row[first : last + 1].mean() for first, last in BINNING.ranges] for row in rows]
    return Bandpowers(np.array(means), NAMES, BINNING)


def covariance(seed=3):
    n = len(NAMES) * BINNING.n
    mixing = np.eye(n) + 0.1 * np.random.default_rng(seed).standard_normal((n, n))
    scale = np.repeat([0.3, 0.03, 0.003, 0.05, 0.01, 0.05], BINNING.n)
    return mixing @ mixing.T * np.outer(scale, scale)


def measured(rng, parameters=(1.0, 0.0, 0.0), matrix=None):
    amplitude, tilt, r = parameters
    matrix = covariance() if matrix is None else matrix
    scalars = Spectra(THEORY.values * amplitude * (np.maximum(L, 1) / 80) ** tilt, THEORY.names)
    values = expected(scalars).values + r * expected(TENSORS).values
    noise = np.linalg.cholesky(matrix) @ rng.standard_normal(values.size)
    return Bandpowers(
        values + noise.reshape(values.shape), NAMES, BINNING, covariance=matrix.reshape(values.shape * 2)
    )


def fitted(found, names, **more):
    return fit_parameters(found, expected, THEORY, names, tensors=TENSORS, **more)


def test_an_amplitude_is_that_of_the_linear_solution():
    found = measured(np.random.default_rng(1), (1.3, 0.0, 0.0))
    fit = fitted(found, ["amplitude"], n_grid=401)
    rows = [0, 1, 2, 3]
    n = 4 * BINNING.n
    inverse = np.linalg.inv(found.covariance[rows][:, :, rows].reshape(n, n))
    model, data = expected(THEORY).values[rows].ravel(), found.values[rows].ravel()
    variance = 1 / (model @ inverse @ model)
    mean = variance * (model @ inverse @ data)
    assert fit.best == pytest.approx([mean], rel=1e-10)
    assert fit.mean_and_error("amplitude") == pytest.approx((mean, np.sqrt(variance)), rel=1e-4)
    rest = data - mean * model
    assert fit.chi_squared == pytest.approx(rest @ inverse @ rest) and fit.n_data == n
    assert fit.log_likelihood.max() == pytest.approx(0, abs=1e-12)
    low, high = fit.interval("amplitude")
    assert (high - low) / 2 == pytest.approx(np.sqrt(variance), rel=2e-3)


def test_parameters_and_errors_are_unbiased():
    rng, true = np.random.default_rng(5), np.array([1.1, 0.05, 2.0])
    fits = [fitted(measured(rng, true), ["amplitude", "tilt", "r"], n_grid=41) for _ in range(60)]
    means = np.array([[fit.mean_and_error(name)[0] for name in fit.names] for fit in fits])
    errors = np.array([[fit.mean_and_error(name)[1] for name in fit.names] for fit in fits])
    pulls = (means - true) / errors
    assert np.all(np.abs(pulls.mean(0)) < 4 / np.sqrt(60))
    assert np.all(np.abs(pulls.std(0) - 1) < 4 / np.sqrt(120))
    assert kstest([fit.probability for fit in fits], "uniform").pvalue > 1e-3


def test_a_ratio_is_not_negative_and_has_a_limit():
    fit = fitted(measured(np.random.default_rng(2), (1.0, 0.0, -1.0)), ["r"])
    assert fit.best == [0.0] and fit.grids[0][0] == 0 and fit.limit("r", 0.95) > fit.limit("r", 0.5) > 0
    fit = fitted(measured(np.random.default_rng(2), (1.0, 0.0, -1.0)), ["amplitude", "r"])
    assert fit.best[1] == 0.0


def test_few_realizations_widen_the_likelihood():
    found = measured(np.random.default_rng(4))
    known, sampled = fitted(found, ["tilt"]), fitted(found, ["tilt"], n_realizations=60)
    assert sampled.best == pytest.approx(known.best)
    wide = sampled.log_likelihood[10] / known.log_likelihood[10]
    assert wide < 1
    with pytest.raises(DataError, match="cannot be inverted: it is of 40 realizations"):
        fitted(found, ["tilt"], n_realizations=40)


@pytest.mark.parametrize(
    ("names", "changes", "error", "message"),
    [
        (["ampltude"], {}, ConfigError, "did you mean 'amplitude'"),
        ([], {}, ConfigError, "name each parameter once"),
        (["r", "r"], {}, ConfigError, "name each parameter once"),
        (["r"], {"tensors": None}, ConfigError, "--tensors FILE"),
        (["tilt"], {"pivot": 0.0}, ConfigError, "give a positive pivot"),
        (["amplitude", "r"], {"tensors": THEORY}, DataError, "do not tell the parameters apart"),
    ],
)
def test_what_cannot_be_fitted(names, changes, error, message):
    found = measured(np.random.default_rng(1))
    with pytest.raises(error, match=message):
        fit_parameters(found, expected, THEORY, names, **{"tensors": TENSORS, **changes})


def test_a_tilt_of_nothing_is_not_told():
    found = measured(np.random.default_rng(0), (1e-4, 0.0, 0.0))
    with pytest.raises(DataError, match="do not tell the tilt: its error is"):
        fitted(found, ["amplitude", "tilt"])


def test_bandpowers_without_errors():
    found = measured(np.random.default_rng(1))
    with pytest.raises(DataError, match="without errors"):
        fitted(Bandpowers(found.values, NAMES, BINNING), ["r"])


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    assert main(["run", "tiny.toml", "--out", "maps", "map.n_side=8"]) == 0
    capsys.readouterr()
    words = ["spectra", "maps", "--fwhm", "10 deg", "--no-pixel-window", "--l-max", "9", "--width", "2"]
    assert main([*words, "--fit", "amplitude"]) == 2
    assert "--fit is of a theory (--against planck2018)" in capsys.readouterr().err
    assert main([*words, "--against", "planck2018", "--fit", "r"]) == 2
    assert "--tensors FILE" in capsys.readouterr().err
    assert not list((tmp_path / "maps").glob("*spectra*"))
    assert main([*words, "--against", "planck2018", "--fit", "amplitude,tilt", "--pivot", "5"]) == 0
    told = capsys.readouterr().out
    record = json.loads((tmp_path / "maps" / "tiny_spectra_fit.json").read_text())
    for name in ("amplitude", "tilt"):
        mean, error = record["parameters"][name].values()
        assert error > 0 and len(record["grids"][name]) == 101
        assert f"\n{name:<10}" in told and np.isfinite(mean)
    assert f"fit of {record['n_data']} bandpowers: chi2 {record['chi_squared']:.1f} of" in told
