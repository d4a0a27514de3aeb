"""Whether a pipeline gives back what went in: means, probabilities, and what must be nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.realizations import Realizations
from petamap.montecarlo.statistics import Convergence, MeanTest, Uniformity

ALL = "all"
NULLS = ("EB", "TB")


@dataclass(frozen=True)
class Check:
    """What realizations say of a calibration.

    Attributes
    ----------
    names : tuple of str
    bandpowers : float64 (n, n_spectra, n_bins)
        Of the part most like data.
    expected : float64 (n_spectra, n_bins)
        By the mean of the skies that were drawn.
    deviations : mapping of str to MeanTest
        Of bandpowers from those of their own sky; by spectrum, and ``all`` together.
    probabilities : mapping of str to Uniformity
        Of realizations held against `expected`, each with the covariance of the others. Spectra with too many
        bins for the realizations are left out.
    convergence : Convergence
        Of the covariance of all bandpowers.
    """

    names: tuple[str, ...]
    bandpowers: FloatArray
    expected: FloatArray
    deviations: Mapping[str, MeanTest]
    probabilities: Mapping[str, Uniformity]
    convergence: Convergence

    @staticmethod
    def of(realizations: Realizations, calibration: Calibration) -> Check:
        """Hold realizations against what went into them.

        A calibration that divides by a transfer function must be from other realizations (`halves`), since it
        finds the mean input of its own by construction; its error is counted in full, in cross-spectra too.

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
        found = calibration.of_realizations(realizations)
        own = calibration.expected(realizations.input)
        expected, apart = own.mean(axis=0), _less_own_noise(realizations, calibration, found) - own
        deviations, probabilities = {}, {}
        for name in (*names, ALL):
            places = slice(None) if name == ALL else slice(names.index(name), names.index(name) + 1)
            fitted = calibration.divided and name not in NULLS
            rows, off = (part[:, places].reshape(len(found), -1) for part in (found, apart))
            deviations[name] = MeanTest.of(off, calibration.n if fitted else np.inf)
            uniform = Uniformity.of(rows, expected[places].ravel())
            if uniform is not None:
                probabilities[name] = uniform
        convergence = Convergence.of(found.reshape(len(found), -1))
        return Check(names, found, expected, deviations, probabilities, convergence)

    @property
    def nulls(self) -> dict[str, MeanTest]:
        """The spectra that a sky without parity violation does not have."""
        return {name: self.deviations[name] for name in NULLS if name in self.deviations}

    def failed(self, least: float = 0.01) -> list[str]:
        """Return what is less probable than `least`, in words; nothing where all is well."""
        found = []
        for name, test in self.deviations.items():
            if test.probability < least:
                found.append(f"{name}: bandpowers are biased, p {test.probability:.2g}")
        for name, uniform in self.probabilities.items():
            if uniform.probability < least:
                found.append(f"{name}: probabilities are not uniform, p {uniform.probability:.2g}")
        return found


def _less_own_noise(realizations: Realizations, calibration: Calibration, found: FloatArray) -> FloatArray:
    """Return the bandpowers with each realization's own noise taken off instead of the mean of all.

    Their mean is the same, and their scatter is that of the mean, whatever noise does to both.
    """
    pseudo = realizations.pseudo
    if "both" not in pseudo or "noise" not in pseudo:
        return found
    return calibration.values(pseudo["both"] - pseudo["noise"], noisy=False)


def halves(realizations: Realizations) -> tuple[Realizations, Realizations]:
    """Return every other realization, and the rest: one to calibrate with, one to check with."""
    return realizations.chosen(slice(0, None, 2)), realizations.chosen(slice(1, None, 2))
