"""Bandpowers: binned spectra of the sky, with their errors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from petacomm.base.arguments import real_array
from petacomm.base.display import Displayed, some_names
from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.spectra.multipole_bins import Binning


@dataclass(frozen=True, repr=False)
class Bandpowers(Displayed):
    """Binned spectra.

    Parameters
    ----------
    values : float64 (n_spectra, n_bins)
        Means of D_l or C_l, as the binning says.
    names : tuple of str
        As of `Spectra`.
    binning : Binning
    unit : str
    covariance : float64 (n_spectra, n_bins, n_spectra, n_bins) or None
        None where errors are unknown.
    windows : float64 (n_spectra, n_bins, n_spectra, l_max + 1) or None
        Bandpower windows: the expectation of `values` is windows . C_l of the sky.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> from petamap.spectra.multipole_bins import Binning
    >>> found = petamap.Bandpowers(np.array([[1.0, 2.0]]), ("TT",), Binning.linear(2, 21, 10))
    >>> found["TT"]
    array([1., 2.])
    >>> found.with_errors(np.array([[0.1, 0.2]])).errors
    array([[0.1, 0.2]])
    """

    values: FloatArray
    names: tuple[str, ...]
    binning: Binning
    unit: str = "K_CMB^2"
    covariance: FloatArray | None = None
    windows: FloatArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", real_array(self.values, "bandpowers", 2))

    def _facts(self) -> dict[str, object]:
        ranges = self.binning.ranges
        return {
            "names": some_names(self.names, 6),
            "bins": f"{len(ranges)} of {'D_l' if self.binning.of_d else 'C_l'}",
            "l": f"{ranges[0][0]} to {ranges[-1][1]}" if len(ranges) else None,
            "unit": self.unit,
            "errors": "unknown" if self.covariance is None else "known",
        }

    def __getitem__(self, name: str) -> FloatArray:
        """Return one spectrum, float64 (n_bins,)."""
        if name not in self.names:
            raise DataError(f"has no {name} bandpowers, but {', '.join(self.names)}")
        row: FloatArray = self.values[self.names.index(name)]
        return row

    @property
    def errors(self) -> FloatArray | None:
        """Standard deviations, float64 (n_spectra, n_bins)."""
        if self.covariance is None:
            return None
        n = self.values.size
        return np.sqrt(self.covariance.reshape(n, n).diagonal()).reshape(self.values.shape)

    def with_errors(self, errors: FloatArray) -> Bandpowers:
        """Return the same bandpowers with independent errors.

        Parameters
        ----------
        errors : float64 (n_spectra, n_bins)

        Returns
        -------
        Bandpowers
        """
        sigma = real_array(errors, "errors of bandpowers", 2)
        if sigma.shape != self.values.shape:
            raise DataError(f"errors of shape {sigma.shape} for bandpowers of shape {self.values.shape}")
        covariance = np.diag((sigma**2).ravel()).reshape(self.values.shape * 2)
        return replace(self, covariance=covariance)

    def cut(self, n_bins: int) -> Bandpowers:
        """Return the first bins alone.

        Parameters
        ----------
        n_bins : int

        Returns
        -------
        Bandpowers
        """
        return replace(
            self,
            values=self.values[:, :n_bins],
            binning=replace(self.binning, edges=self.binning.edges[: n_bins + 1]),
            covariance=None if self.covariance is None else self.covariance[:, :n_bins, :, :n_bins],
            windows=None if self.windows is None else self.windows[:, :n_bins],
        )
