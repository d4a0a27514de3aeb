"""Calibration of bandpowers by a Monte Carlo: noise bias, transfer function and covariance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.montecarlo.realizations import Realizations
from petamap.montecarlo.statistics import covariance
from petamap.montecarlo.transfer import DEFAULT_SPECTRA, TransferFunction, transfer_function
from petamap.sky.power_spectra import Spectra
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.beams import map_window, window_products
from petamap.spectra.coupling import Coupling, mode_coupling
from petamap.spectra.dipole_fit import DipoleFit, subtract_dipole_fit
from petamap.spectra.master import MasterEstimator
from petamap.spectra.measure import make_bins
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.transforms import weighted_harmonics


@dataclass(frozen=True)
class Calibration:
    """Conversion of pseudo-spectra to bandpowers: noise bias, mode coupling, transfer function.

    Attributes
    ----------
    master : MasterEstimator
        Estimator with beam, pixel window and, if `divided`, the transfer function.
    n_bins : int
        Number of requested bins; the estimator has further bins beyond them.
    noise : Spectra or None
        Mean pseudo-spectra of the noise; None if the Monte Carlo has no noise.
    transfer : TransferFunction or None
        None if the input is not known, or has no power.
    divided : bool
        Whether bandpowers are divided by the transfer function.
    n : int
        Number of realizations of the calibration.
    """

    master: MasterEstimator
    n_bins: int
    noise: Spectra | None
    transfer: TransferFunction | None
    divided: bool
    n: int

    @staticmethod
    def from_realizations(
        realizations: Realizations,
        divide: bool = False,
        fitted: tuple[str, ...] | None = None,
        n_threads: int = 1,
    ) -> Calibration:
        """Return the calibration by realizations.

        Parameters
        ----------
        realizations : Realizations
        divide : bool
            Divide bandpowers by the transfer function.
        fitted : tuple of str, optional
            Auto-spectra whose transfer function is fitted (see `transfer_function`). Default: TT and EE; of
            maps that are filtered, BB too.
        n_threads : int

        Raises
        ------
        DataError
            If `divide` and the Monte Carlo has no transfer function.
        """
        if fitted is None:
            fitted = DEFAULT_SPECTRA if realizations.unfiltered is None else (*DEFAULT_SPECTRA, "BB")
        choices, names, l_max = realizations.choices, realizations.names, realizations.l_max
        n_side = realizations.pixelization.n_side
        binning, n_bins = make_bins(choices, n_side, l_max)
        if choices.l_max is None and realizations.input is not None:
            n_bins = min(n_bins, _bins_with_power(binning, realizations.input) or n_bins)
        coupling = _coupling(realizations, n_threads)
        pixels = n_side if choices.pixel_window else None
        window = window_products(names, map_window(pixels, choices.fwhm, l_max))
        sky = _sky_pseudo(realizations)
        transfer = None
        if sky is not None and realizations.input is not None and realizations.n > 1:
            requested = replace(binning, edges=binning.edges[: n_bins + 1])
            if any(name in names for name in fitted):
                transfer = transfer_function(
                    sky, realizations.input, names, coupling, window, requested, fitted,
                    unfiltered=realizations.unfiltered,
                )  # fmt: skip
        if divide:
            if transfer is None:
                raise DataError("the Monte Carlo has no transfer function", mend="simulate the sky too")
            window = {name: window[name] * row for name, row in transfer.at_multipoles(names, l_max).items()}
        master = MasterEstimator(coupling, binning, names, window)
        return Calibration(master, n_bins, _noise(realizations), transfer, divide, realizations.n)

    def values(self, pseudo: FloatArray, noisy: bool = True) -> FloatArray:
        """Return bandpowers, (n, n_spectra, n_bins), of pseudo-spectra, (n, n_spectra, l_max + 1).

        The noise bias is subtracted if `noisy`.
        """
        if noisy and self.noise is not None:
            pseudo = pseudo - self.noise.values
        return self.master.decoupled(pseudo)[..., : self.n_bins]

    def expected(self, true: FloatArray) -> FloatArray:
        """Return the expected bandpowers of skies with spectra (n, n_spectra, l_max + 1)."""
        bandpowers: FloatArray = np.einsum("ablm,nlm->nab", self.master.windows[:, : self.n_bins], true)
        return bandpowers

    def realization_bandpowers(self, realizations: Realizations) -> FloatArray:
        """Return the bandpowers of the main part of all realizations, float64 (n, n_spectra, n_bins)."""
        noisy = "both" in realizations.pseudo or "sky" not in realizations.pseudo
        return self.values(realizations.main, noisy)

    @property
    def binning(self) -> Binning:
        """Requested bins."""
        return replace(self.master.binning, edges=self.master.binning.edges[: self.n_bins + 1])

    def bandpowers(self, pseudo: Spectra, realizations: Realizations) -> Bandpowers:
        """Return the bandpowers of data, with the covariance of the realizations.

        Parameters
        ----------
        pseudo : Spectra
            Pseudo-spectra of a map, measured like those of the realizations.
        realizations : Realizations

        Raises
        ------
        DataError
            If spectra or multipoles are missing.
        """
        rows = pseudo.select(realizations.names, realizations.l_max).values
        samples = self.realization_bandpowers(realizations)
        matrix = covariance(samples.reshape(len(samples), -1)).reshape(samples.shape[1:] * 2)
        return Bandpowers(
            self.values(rows[None])[0],
            realizations.names,
            self.binning,
            pseudo.unit,
            matrix,
            self.master.windows[:, : self.n_bins],
        )


def _bins_with_power(binning: Binning, true: FloatArray) -> int:
    """Return the number of bins that begin where spectra (n, n_spectra, l_max + 1) still have power."""
    multipoles = np.flatnonzero(true.any(axis=(0, 1)))
    return int(np.searchsorted(binning.edges[:-1], multipoles[-1], side="right")) if len(multipoles) else 0


def _coupling(realizations: Realizations, n_threads: int) -> Coupling:
    """Return the mode coupling of the weights."""
    letters = {letter for name in realizations.names for letter in name}
    n_stokes = ("T" in letters) + 2 * bool(letters & {"E", "B"})
    sky = realizations.pixelization
    weights, choices, empty = realizations.weights, realizations.choices, np.zeros((n_stokes, sky.n_pix))
    seen = weighted_harmonics(
        empty, sky, weights[0], weights[1], realizations.l_max, choices.iterations, n_threads
    )
    coupling = mode_coupling(replace(seen, pure=choices.pure), n_threads=n_threads)
    if choices.keep_dipole or "T" not in letters:
        return coupling
    return subtract_dipole_fit(coupling, DipoleFit(weights[0], weights[1] if "E" in letters else None, sky))


def _sky_pseudo(realizations: Realizations) -> FloatArray | None:
    """Return pseudo-spectra whose mean is that of the sky, or None."""
    pseudo = realizations.pseudo
    if "sky" in pseudo:
        return pseudo["sky"]
    if "both" in pseudo and "noise" in pseudo:
        return pseudo["both"] - pseudo["noise"]
    return None


def _noise(realizations: Realizations) -> Spectra | None:
    """Return the mean pseudo-spectra of the noise, or None.

    Without maps of the noise alone, uses that sky and noise are uncorrelated on average.
    """
    pseudo = realizations.pseudo
    rows = pseudo.get("noise")
    if rows is None and "both" in pseudo and "sky" in pseudo:
        rows = pseudo["both"] - pseudo["sky"]
    return None if rows is None else Spectra(rows.mean(axis=0), realizations.names, realizations.unit)
