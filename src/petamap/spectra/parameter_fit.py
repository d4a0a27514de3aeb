"""Parameters of a simple model of the sky's spectra, fitted to bandpowers on a grid.

The model is C_l = A (l / l_0)^n C_l^theory + r C_l^tensors: an amplitude and a tilt about a theory, and the
ratio of tensors to scalars. Its bandpowers are linear in A and r. They are compared with those measured by
chi^2 = d' S^-1 d. With a covariance S that is known, ln L = -chi^2 / 2; with one of N realizations, ln L =
-(N / 2) ln(1 + chi^2 / (N - 1)), by the t distribution that Sellentin & Heavens 2016 derive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from petacomm.base.display import Displayed
from petacomm.base.errors import ConfigError, DataError, require_known
from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import FloatArray
from petamap.sky.power_spectra import Spectra
from petamap.spectra.bandpowers import Bandpowers

PARAMETERS = ("amplitude", "tilt", "r")
_DEFAULTS = (1.0, 0.0, 0.0)
_TILTS = (-3.0, 3.0)  # that are searched
_REACH = 5.0  # standard deviations to each side, of the grid
_CREDIBLE = 0.683

Expectation = Callable[[Spectra], Bandpowers]


@dataclass(frozen=True, repr=False)
class ParameterFit(Displayed):
    """Fit of parameters to bandpowers.

    Attributes
    ----------
    names : tuple of str
        Parameters that were fitted.
    best : float64 (n_parameters,)
        Their values of the largest likelihood; r is not negative.
    grids : tuple of float64 (n_grid,)
        Values of each parameter on the grid.
    log_likelihood : float64 (n_grid, ...)
        Less that of the best.
    chi_squared, probability : float
        Of the best, and that of a larger one by chance.
    n_data : int
    """

    names: tuple[str, ...]
    best: FloatArray
    grids: tuple[FloatArray, ...]
    log_likelihood: FloatArray
    chi_squared: float
    probability: float
    n_data: int

    def _facts(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for name in self.names:
            mean, error = self.mean_and_error(name)
            found[name] = f"{mean:.4g} ± {error:.2g}"
        return found | {"chi2": f"{self.chi_squared:.1f} of {self.n_data}", "p": f"{self.probability:.2g}"}

    def density(self, name: str) -> FloatArray:
        """Return the marginal probability density of a parameter on its grid, float64 (n_grid,).

        Priors are flat on the grids.
        """
        axis = self._axis(name)
        others = tuple(i for i in range(len(self.names)) if i != axis)
        values = np.exp(self.log_likelihood).sum(others)
        return np.asarray(values / _integral(values, self.grids[axis]))

    def mean_and_error(self, name: str) -> tuple[float, float]:
        """Return mean and standard deviation of a parameter."""
        grid, density = self.grids[self._axis(name)], self.density(name)
        mean = _integral(grid * density, grid)
        return mean, math.sqrt(_integral((grid - mean) ** 2 * density, grid))

    def as_record(self) -> dict[str, object]:
        """Return the fit as numbers, texts and lists, for JSON."""
        told = {
            name: dict(zip(("mean", "error"), self.mean_and_error(name), strict=True)) for name in self.names
        }
        return {
            "parameters": told, "best": dict(zip(self.names, self.best.tolist(), strict=True)),
            "chi_squared": self.chi_squared, "probability": self.probability, "n_data": self.n_data,
            "grids": {name: grid.tolist() for name, grid in zip(self.names, self.grids, strict=True)},
            "log_likelihood": self.log_likelihood.tolist(),
        }  # fmt: skip

    def limit(self, name: str, probability: float) -> float:
        """Return the value below which a parameter lies with a probability."""
        grid, density = self.grids[self._axis(name)], self.density(name)
        below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
        return float(np.interp(probability, below / below[-1], grid))

    def interval(self, name: str, probability: float = _CREDIBLE) -> tuple[float, float]:
        """Return the interval of a parameter that leaves as much probability below as above."""
        rest = (1 - probability) / 2
        return self.limit(name, rest), self.limit(name, 1 - rest)

    def _axis(self, name: str) -> int:
        require_known("parameter", name, self.names)
        return self.names.index(name)


def fit_parameters(
    found: Bandpowers,
    expected: Expectation,
    theory: Spectra,
    names: Sequence[str],
    *,
    tensors: Spectra | None = None,
    pivot: float = 80.0,
    n_realizations: int | None = None,
    n_grid: int = 101,
) -> ParameterFit:
    """Fit parameters of a model to bandpowers of T, E and B; TB and EB are left out, which it leaves at zero.

    Parameters
    ----------
    found : Bandpowers
        With their covariance.
    expected : callable
        Returns the bandpowers that spectra lead to, as `Measurement.expected`.
    theory : Spectra
    names : sequence of {"amplitude", "tilt", "r"}
        Others stay at 1, 0 and 0.
    tensors : Spectra, optional
        Spectra of tensors for r = 1.
    pivot : float
        Multipole l_0 of the tilt.
    n_realizations : int, optional
        Of the covariance, if it is of realizations.
    n_grid : int
        Points of a grid.

    Returns
    -------
    ParameterFit

    Raises
    ------
    ConfigError
        If a parameter is unknown or named twice, or the spectra of tensors are missing.
    DataError
        If there are no errors, fewer bandpowers than parameters, or too few realizations for them.
    """
    check_parameters(names, tensors is not None, pivot)
    model = _Model(found, expected, theory, tensors, pivot, n_realizations)
    free = [name in names for name in PARAMETERS]
    if model.n_data < sum(free):
        raise DataError(f"{model.n_data} bandpowers for {sum(free)} parameters", mend="fit fewer")
    best = model.best(free)
    errors = model.errors(best, free)
    if errors[1] > _TILTS[1]:
        raise DataError(
            f"the bandpowers do not tell the tilt: its error is {errors[1]:.2g}", mend="fit fewer"
        )
    grids = [
        _grid(name, value, error, n_grid) if fitted else np.array([value])
        for name, value, error, fitted in zip(PARAMETERS, best, errors, free, strict=True)
    ]
    chi_squared = model.chi_squared(*(np.array([one]) for one in best)).item()
    relative = model.log_likelihood(model.chi_squared(*grids)) - model.log_likelihood(chi_squared)
    fitted = [i for i, one in enumerate(free) if one]
    return ParameterFit(
        tuple(PARAMETERS[i] for i in fitted), np.array([best[i] for i in fitted]),
        tuple(grids[i] for i in fitted), relative.reshape([n_grid] * len(fitted)), chi_squared,
        model.probability(chi_squared, len(fitted)), model.n_data,
    )  # fmt: skip


def check_parameters(names: Sequence[str], with_tensors: bool, pivot: float) -> None:
    """Raise ConfigError unless these parameters can be fitted, with the spectra of tensors or without.

    Parameters
    ----------
    names : sequence of str
    with_tensors : bool
    pivot : float
    """
    for name in names:
        require_known("parameter", name, PARAMETERS)
    if not names or len(set(names)) < len(names):
        raise ConfigError("name each parameter once", mend=f"some of {', '.join(PARAMETERS)}")
    if "r" in names and not with_tensors:
        raise ConfigError("r needs the spectra of tensors for r = 1", mend="--tensors FILE")
    if not pivot > 0:
        raise ConfigError(f"a tilt about l = {pivot:g}", mend="give a positive pivot")


def _grid(name: str, best: float, error: float, n: int) -> FloatArray:
    first, last = best - _REACH * error, best + _REACH * error
    return np.linspace(max(first, 0.0) if name == "r" else first, last, n)


class _Model:
    """Bandpowers of the model and of the data, both multiplied by a root of the inverse covariance."""

    def __init__(
        self,
        found: Bandpowers,
        expected: Expectation,
        theory: Spectra,
        tensors: Spectra | None,
        pivot: float,
        n_realizations: int | None,
    ) -> None:
        if found.covariance is None:
            raise DataError("bandpowers without errors cannot be fitted")
        self._expected, self._theory, self._pivot = expected, theory, pivot
        self._rows = [i for i, name in enumerate(found.names) if _is_even(name)]
        self.n_data = len(self._rows) * found.binning.n
        self._n_realizations = n_realizations
        if n_realizations is not None and n_realizations <= self.n_data + 4:
            raise DataError(
                f"the covariance of {self.n_data} bandpowers cannot be inverted: it is of {n_realizations} "
                "realizations", mend="make more, or wider bins (--width)",
            )  # fmt: skip
        kept = found.covariance[self._rows][:, :, self._rows].reshape(self.n_data, self.n_data)
        try:
            with single_blas_thread():
                self._root = np.linalg.cholesky(kept)
        except np.linalg.LinAlgError:
            what = "the covariance of the bandpowers is not positive definite"
            raise DataError(what, mend="measure wider bins, or maps with noise") from None
        self._data = self._whiten(found)
        self._tensors = np.zeros(self.n_data) if tensors is None else self._whiten(expected(tensors))

    def _whiten(self, bandpowers: Bandpowers) -> FloatArray:
        with single_blas_thread():
            return np.linalg.solve(self._root, bandpowers.values[self._rows].ravel())

    def _scalars(self, tilt: float) -> FloatArray:
        theory = self._theory
        factors = (np.maximum(theory.multipoles, 1.0) / self._pivot) ** tilt
        return self._whiten(self._expected(replace(theory, values=theory.values * factors)))

    def chi_squared(self, amplitudes: FloatArray, tilts: FloatArray, ratios: FloatArray) -> FloatArray:
        """Return chi^2 on a grid, float64 (n_amplitudes, n_tilts, n_ratios)."""
        grid = np.empty((len(amplitudes), len(tilts), len(ratios)))
        for j, tilt in enumerate(tilts):
            rest = self._data - np.multiply.outer(amplitudes, self._scalars(float(tilt)))
            rest = rest[:, None] - np.multiply.outer(ratios, self._tensors)
            grid[:, j] = np.einsum("ijk,ijk->ij", rest, rest)
        return grid

    def best(self, free: Sequence[bool]) -> tuple[float, float, float]:
        """Return the parameters of the least chi^2."""
        from scipy.optimize import minimize_scalar

        def at(tilt: float) -> tuple[float, float, float]:
            return self._linear(tilt, free[0], free[2])

        if not free[1]:
            return at(_DEFAULTS[1])
        found = minimize_scalar(
            lambda tilt: self.chi_squared(*(np.array([one]) for one in at(tilt))).item(),
            bounds=_TILTS, method="bounded", options={"xatol": 1e-9},
        )  # fmt: skip
        return at(float(found.x))

    def _linear(self, tilt: float, with_amplitude: bool, with_ratio: bool) -> tuple[float, float, float]:
        """Return the best amplitude and ratio for a tilt; the ratio is not negative."""
        scalars = self._scalars(tilt)
        columns = [one for one, fitted in ((scalars, with_amplitude), (self._tensors, with_ratio)) if fitted]
        fixed = 0.0 if with_amplitude else scalars
        found = []
        if columns:
            with single_blas_thread():
                found = np.linalg.lstsq(np.stack(columns, axis=1), self._data - fixed)[0].tolist()
        amplitude = found[0] if with_amplitude else _DEFAULTS[0]
        ratio = found[-1] if with_ratio else _DEFAULTS[2]
        return self._linear(tilt, with_amplitude, False) if ratio < 0 else (amplitude, tilt, ratio)

    def errors(self, best: tuple[float, float, float], free: Sequence[bool]) -> FloatArray:
        """Return standard deviations by the Fisher matrix, float64 (3,); 0 of parameters that are fixed."""
        amplitude, tilt, _ = best
        step = 1e-4
        slope = (self._scalars(tilt + step) - self._scalars(tilt - step)) * (amplitude / (2 * step))
        fitted = np.flatnonzero(free)
        slopes = np.stack([self._scalars(tilt), slope, self._tensors])[fitted]
        found = np.zeros(len(free))
        with single_blas_thread():
            fisher = slopes @ slopes.T
            if not np.linalg.cond(fisher) < 1e12:
                raise DataError("the bandpowers do not tell the parameters apart", mend="fit fewer of them")
            found[fitted] = np.sqrt(np.diag(np.linalg.inv(fisher)))
        return found

    def log_likelihood(self, chi_squared: FloatArray | float) -> FloatArray:
        """Return ln L but for a constant."""
        n = self._n_realizations
        if n is None:
            return np.asarray(-0.5 * np.asarray(chi_squared))
        return np.asarray(-0.5 * n * np.log1p(np.asarray(chi_squared) / (n - 1)))

    def probability(self, chi_squared: float, n_fitted: int) -> float:
        """Return the probability of a larger chi^2 of the best fit; nan for as many parameters as data."""
        from scipy.stats import chi2, f

        free, n = self.n_data - n_fitted, self._n_realizations
        if free == 0:
            return math.nan
        if n is None:
            return float(chi2.sf(chi_squared, free))
        rest = n - free  # of Hotelling's T^2
        return float(f.sf(chi_squared * rest / (free * (n - 1)), free, rest))


def _integral(values: FloatArray, grid: FloatArray) -> float:
    return float(np.sum((values[1:] + values[:-1]) * np.diff(grid)) / 2)


def _is_even(name: str) -> bool:
    """Return whether a spectrum is none of B with T or E, which parity leaves at zero."""
    return name.count("B") != 1
