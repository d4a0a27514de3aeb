"""Data of the plots of a Monte Carlo, for JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.realizations import Realizations
from petamap.montecarlo.statistics import Convergence, MeanTest, Uniformity
from petamap.montecarlo.transfer import TransferFunction
from petamap.montecarlo.validation import ALL_SPECTRA, NULL_SPECTRA, ConsistencyCheck
from petamap.sky.power_spectra import Spectra
from petamap.spectra.bandpower_plot import bandpower_plot
from petamap.spectra.bandpowers import Bandpowers

_BARS = 10  # of a histogram of probabilities


def plot_data(
    realizations: Realizations,
    calibration: Calibration,
    check: ConsistencyCheck | None,
    theory: Spectra | None = None,
) -> dict[str, Any]:
    """Return the data for ``montecarlo.js``.

    Parameters
    ----------
    realizations : Realizations
    calibration : Calibration
    check : ConsistencyCheck, optional
        None if the input is not known.
    theory : Spectra, optional
        Spectra of the simulated skies; by default the mean of their input spectra.

    Returns
    -------
    dict
        n, parts, divided; narrow, what is said of bins that are too narrow; bandpowers, as of
        `bandpower_plot`, with the means over realizations, the scatter of one realization as errors, and for
        each spectrum ``pull``, the deviation of the mean from the mean input in standard errors; tests,
        transfer, probabilities, iterations, convergence (None if there is none).
    """
    samples = calibration.realization_bandpowers(realizations) if check is None else check.bandpowers
    scatter = samples.std(axis=0, ddof=1) if len(samples) > 1 else np.full(samples.shape[1:], np.nan)
    binning = calibration.binning
    means = Bandpowers(samples.mean(axis=0), realizations.names, binning, realizations.unit).with_errors(
        scatter
    )
    expected = None
    if check is not None:
        expected = Bandpowers(check.expected, realizations.names, binning, realizations.unit)
    bandpowers = bandpower_plot(means, theory or realizations.mean_input, expected)
    for row in bandpowers["spectra"]:
        row["error"] = _plain(row["error"])
        row["pull"] = None if check is None else _plain(check.deviations[row["name"]].pulls.tolist())
    return {
        "n": realizations.n,
        "first": int(realizations.numbers.min()),
        "last": int(realizations.numbers.max()),
        "parts": sorted(realizations.pseudo),
        "divided": calibration.divided,
        "noise": calibration.noise is not None,
        "narrow": calibration.master.narrow_bins(calibration.n_bins),
        "bandpowers": bandpowers,
        "tests": [] if check is None else [_test(check, name) for name in (*check.names, ALL_SPECTRA)],
        "transfer": None if calibration.transfer is None else _transfer(calibration.transfer),
        "probabilities": [] if check is None else [_bars(*item) for item in check.probabilities.items()],
        "iterations": _counts(realizations),
        "convergence": None if check is None else _convergence(check.convergence),
    }


def _plain(values: Any) -> Any:
    """Return numbers with None for those that are not finite."""
    if isinstance(values, list):
        return [_plain(value) for value in values]
    return values if values is not None and math.isfinite(values) else None


def _test(check: ConsistencyCheck, name: str) -> dict[str, Any]:
    test: MeanTest = check.deviations[name]
    uniform = check.probabilities.get(name)
    return {
        "name": name,
        "bins": len(test.mean),
        "worst": _plain(test.worst),
        "chance": _plain(test.chance()),
        "chi_squared": _plain(test.chi_squared),
        "probability": _plain(test.probability),
        "uniform": None if uniform is None else _plain(uniform.probability),
        "null": name in NULL_SPECTRA,
    }


def _transfer(transfer: TransferFunction) -> dict[str, Any]:
    return {
        "middle": transfer.binning.middle.tolist(),
        "spectra": [
            {"name": name, "value": row.tolist(), "error": _plain(errors.tolist())}
            for name, row, errors in zip(transfer.names, transfer.values, transfer.errors, strict=True)
        ],
        "over_unfiltered": transfer.over_unfiltered,
        "probability": _plain(transfer.against_one.probability),
        "worst": _plain(transfer.against_one.worst),
        "bins": int(transfer.values.size),
    }


def _bars(name: str, uniform: Uniformity) -> dict[str, Any]:
    counts, _ = np.histogram(uniform.probabilities, _BARS, (0.0, 1.0))
    return {"name": name, "counts": counts.tolist(), "probability": _plain(uniform.probability)}


def _counts(realizations: Realizations) -> dict[str, Any] | None:
    """Return a histogram of the iterations of realizations, of at most 40 bars."""
    if realizations.iterations is None:
        return None
    each = np.asarray(realizations.iterations).reshape(realizations.n, -1).max(axis=1)
    low, high = int(each.min()), int(each.max())
    width = -(-(high - low + 1) // 40)
    counts = np.bincount((each - low) // width)
    return {"first": low, "width": width, "counts": counts.tolist()}


def _convergence(convergence: Convergence) -> dict[str, Any]:
    def points(values: FloatArray) -> Any:
        return [[step, value] for step, value in zip(convergence.steps, values.tolist(), strict=True)]

    return {
        "variances": points(convergence.variances),
        "expected": points(convergence.expected),
        "correlations": points(convergence.correlations),
        "bins": convergence.p,
        "error": convergence.error,
        "hartlap": convergence.hartlap,
        "halves": convergence.halves,
        "expected_halves": convergence.expected_halves,
    }
