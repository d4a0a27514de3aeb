"""Validation of a pipeline: comparison of the bandpowers of realizations with their input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.realizations import Realizations
from petamap.montecarlo.statistics import Convergence, MeanTest, Uniformity

ALL_SPECTRA = "all"
NULL_SPECTRA = ("EB", "TB")  # zero without parity violation


@dataclass(frozen=True)
class ConsistencyCheck:
    """Consistency of the bandpowers of realizations with their input.

    Attributes
    ----------
    names : tuple of str
    bandpowers : float64 (n, n_spectra, n_bins)
        Bandpowers of the main part of the realizations.
    expected : float64 (n_spectra, n_bins)
        Bandpowers of the mean input spectra.
    deviations : mapping of str to MeanTest
        Tests of the difference of bandpowers and those of their own sky, by spectrum and for ``all``.
    probabilities : mapping of str to Uniformity
        Tests of the probabilities of realizations given `expected` and the covariance of the others. Spectra
        with too many bins for the number of realizations are missing.
    convergence : Convergence
        Convergence of the covariance of all bandpowers.
    """

    names: tuple[str, ...]
    bandpowers: FloatArray
    expected: FloatArray
    deviations: Mapping[str, MeanTest]
    probabilities: Mapping[str, Uniformity]
    convergence: Convergence

    @staticmethod
    def from_realizations(realizations: Realizations, calibration: Calibration) -> ConsistencyCheck:
        """Compare the bandpowers of realizations with their input.

        A calibration that divides by a transfer function must be from other realizations (`split_halves`):
        for its own realizations it reproduces the mean input by construction. Its error is included in full,
        also for cross-spectra.

        Raises
        ------
        DataError
            If the input is not known, or there are less than 4 realizations.
        """
        if realizations.input is None:
            raise DataError("the Monte Carlo does not know what its skies were drawn with")
        if realizations.n < 4:
            raise DataError(f"{realizations.n} realizations say nothing of their scatter", mend="make more")
        names = realizations.names
        bandpowers = calibration.realization_bandpowers(realizations)
        of_input = calibration.expected(realizations.input)
        expected = of_input.mean(axis=0)
        differences = _without_own_noise(realizations, calibration, bandpowers) - of_input
        deviations, probabilities = {}, {}
        for name in (*names, ALL_SPECTRA):
            index = slice(None) if name == ALL_SPECTRA else slice(names.index(name), names.index(name) + 1)
            fitted = calibration.divided and name not in NULL_SPECTRA
            rows, off = (part[:, index].reshape(len(part), -1) for part in (bandpowers, differences))
            deviations[name] = MeanTest.from_samples(off, calibration.n if fitted else np.inf)
            uniform = Uniformity.from_samples(rows, expected[index].ravel())
            if uniform is not None:
                probabilities[name] = uniform
        convergence = Convergence.from_samples(bandpowers.reshape(len(bandpowers), -1))
        return ConsistencyCheck(names, bandpowers, expected, deviations, probabilities, convergence)

    def failed(self, least: float = 0.01) -> list[str]:
        """Return descriptions of the tests with a probability below `least`."""
        failures = []
        for name, test in self.deviations.items():
            if test.probability < least:
                failures.append(f"{name}: bandpowers are biased, p {test.probability:.2g}")
        for name, uniform in self.probabilities.items():
            if uniform.probability < least:
                failures.append(f"{name}: probabilities are not uniform, p {uniform.probability:.2g}")
        return failures


def _without_own_noise(
    realizations: Realizations, calibration: Calibration, bandpowers: FloatArray
) -> FloatArray:
    """Return the bandpowers with the noise of each realization subtracted instead of the mean noise.

    Their mean is the same, and their scatter gives the error of the mean with the noise bias estimated from
    the same realizations.
    """
    pseudo = realizations.pseudo
    if "both" not in pseudo or "noise" not in pseudo:
        return bandpowers
    return calibration.values(pseudo["both"] - pseudo["noise"], noisy=False)


def split_halves(realizations: Realizations) -> tuple[Realizations, Realizations]:
    """Return realizations with even and with odd index, one half to calibrate, the other to validate."""
    return realizations.select(slice(0, None, 2)), realizations.select(slice(1, None, 2))
