"""What a Monte Carlo says of its spectra, and of those of data: noise bias, transfer function, covariance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.montecarlo.realizations import Realizations
from petamap.montecarlo.statistics import covariance, standard_error
from petamap.montecarlo.transfer import OWN, TransferFunction, transfer_function
from petamap.sky.power_spectra import Spectra
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.beams import map_window, transfer_of
from petamap.spectra.coupling import Coupling, mode_coupling
from petamap.spectra.dipole_fit import Fit, without_fit
from petamap.spectra.master import Master
from petamap.spectra.measure import bins_of
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.transforms import harmonics


@dataclass(frozen=True)
class Calibration:
    """From pseudo-spectra to bandpowers: decoupled, less the noise, over the transfer function.

    Attributes
    ----------
    master : Master
        With beam, pixels and, where it is divided out, the transfer function.
    n_bins : int
        The bins asked for; those beyond are solved for too.
    noise, noise_error : Spectra or None
        The mean pseudo-spectra of the noise, with standard errors; None where the Monte Carlo had none.
    transfer : TransferFunction or None
        None where the input is not known, or has no power.
    divided : bool
        Whether bandpowers are divided by it.
    n : int
        Realizations that all this is from.
    """

    master: Master
    n_bins: int
    noise: Spectra | None
    noise_error: Spectra | None
    transfer: TransferFunction | None
    divided: bool
    n: int

    @staticmethod
    def of(
        realizations: Realizations, divide: bool = False, own: tuple[str, ...] = OWN, n_threads: int = 1
    ) -> Calibration:
        """Return what realizations say.

        Parameters
        ----------
        realizations : Realizations
        divide : bool
            Divide bandpowers by the transfer function.
        own : tuple of str
            As of `transfer_function`.
        n_threads : int

        Raises
        ------
        DataError
            If a transfer function is to be divided out and the Monte Carlo has none.
        """
        choices, names, l_max = realizations.choices, realizations.names, realizations.l_max
        n_side = realizations.pixelization.n_side
        binning, n_bins = bins_of(choices, n_side, l_max)
        coupling = _coupling(realizations, n_threads)
        pixels = n_side if choices.pixel_window else None
        window = transfer_of(names, map_window(pixels, choices.fwhm, l_max))
        sky = _sky_alone(realizations)
        transfer = None
        if sky is not None and realizations.input is not None and realizations.n > 1:
            shown = replace(binning, edges=binning.edges[: n_bins + 1])
            if any(name in names for name in own):
                transfer = transfer_function(sky, realizations.input, names, coupling, window, shown, own)
        if divide:
            if transfer is None:
                raise DataError("the Monte Carlo has no transfer function", mend="simulate the sky too")
            window = {name: window[name] * row for name, row in transfer.of(names, l_max).items()}
        master = Master(coupling, binning, names, window)
        return Calibration(master, n_bins, *_noise(realizations), transfer, divide, realizations.n)

    def values(self, pseudo: FloatArray, noisy: bool = True) -> FloatArray:
        """Return bandpowers (n, n_spectra, n_bins) of pseudo-spectra (n, n_spectra, l_max + 1).

        `noisy` takes the noise bias off.
        """
        if noisy and self.noise is not None:
            pseudo = pseudo - self.noise.values
        return self.master.decoupled(pseudo)[..., : self.n_bins]

    def expected(self, true: FloatArray) -> FloatArray:
        """Return the bandpowers that skies (n, n_spectra, l_max + 1) have on average."""
        found: FloatArray = np.einsum("ablm,nlm->nab", self.master.windows[:, : self.n_bins], true)
        return found

    def of_realizations(self, realizations: Realizations) -> FloatArray:
        """Return the bandpowers of each, of the part most like data, float64 (n, n_spectra, n_bins)."""
        noisy = "both" in realizations.pseudo or "sky" not in realizations.pseudo
        return self.values(realizations.main, noisy)

    @property
    def shown(self) -> Binning:
        """The bins asked for."""
        return replace(self.master.binning, edges=self.master.binning.edges[: self.n_bins + 1])

    def bandpowers(self, pseudo: Spectra, realizations: Realizations) -> Bandpowers:
        """Return the bandpowers of data, with the covariance of the realizations.

        Parameters
        ----------
        pseudo : Spectra
            Of a map that was seen as those of the realizations.
        realizations : Realizations

        Raises
        ------
        DataError
            If spectra or multipoles are others.
        """
        rows = pseudo.chosen(realizations.names, realizations.l_max).values
        found = self.of_realizations(realizations)
        matrix = covariance(found.reshape(len(found), -1)).reshape(found.shape[1:] * 2)
        return Bandpowers(
            self.values(rows[None])[0],
            realizations.names,
            self.shown,
            pseudo.unit,
            matrix,
            self.master.windows[:, : self.n_bins],
        )


def _coupling(realizations: Realizations, n_threads: int) -> Coupling:
    """Return the coupling of the weights."""
    letters = {letter for name in realizations.names for letter in name}
    n_stokes = ("T" in letters) + 2 * bool(letters & {"E", "B"})
    sky = realizations.pixelization
    weights, iterations = realizations.weights, realizations.choices.iterations
    seen = harmonics(
        np.zeros((n_stokes, sky.n_pix)),
        sky,
        weights[0],
        weights[1],
        realizations.l_max,
        iterations,
        n_threads,
    )
    coupling = mode_coupling(replace(seen, pure=realizations.choices.pure), n_threads=n_threads)
    if realizations.choices.keep_dipole or "T" not in letters:
        return coupling
    return without_fit(coupling, Fit(weights[0], weights[1] if "E" in letters else None, sky))


def _sky_alone(realizations: Realizations) -> FloatArray | None:
    """Return pseudo-spectra that are those of the sky on average."""
    pseudo = realizations.pseudo
    if "sky" in pseudo:
        return pseudo["sky"]
    if "both" in pseudo and "noise" in pseudo:
        return pseudo["both"] - pseudo["noise"]
    return None


def _noise(realizations: Realizations) -> tuple[Spectra | None, Spectra | None]:
    """Return the mean of the noise and its error; sky and noise are uncorrelated on average."""
    pseudo = realizations.pseudo
    rows = pseudo.get("noise")
    if rows is None and "both" in pseudo and "sky" in pseudo:
        rows = pseudo["both"] - pseudo["sky"]
    if rows is None:
        return None, None
    names, unit = realizations.names, realizations.unit
    return Spectra(rows.mean(axis=0), names, unit), Spectra(standard_error(rows), names, unit)
