"""Bandpowers of a run's map by its pixel likelihood."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petacomm.base.host import available_bytes
from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import FloatArray
from petamap.simulation.random_keys import Purpose, gaussians, random_stream
from petamap.sky.map_units import unit_mend
from petamap.sky.power_spectra import Spectra
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.cross_spectra import spectra_names
from petamap.spectra.likelihood import PixelLikelihood, harmonic_modes, likelihood_bytes
from petamap.spectra.lowres import LowResolutionMap, downgrade_map, native_map
from petamap.spectra.measure import SpectraChoices
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.run_maps import RunMaps, read_mask
from petamap.spectra.transforms import COMPONENTS

Estimator = Literal["quadratic", "maximum"]
ESTIMATORS: tuple[Estimator, ...] = ("quadratic", "maximum")
_N_SIDE = 8  # of maps that are downgrade_map
_WIDTH = 4  # multipoles in a bin
_LARGEST = 16  # maps of at most this n_side are taken as they are


@dataclass(frozen=True)
class LikelihoodMeasurement:
    """Bandpowers from the pixel likelihood.

    Attributes
    ----------
    bandpowers : Bandpowers
        With Fisher errors.
    f_sky : dict
        Of the data, for ``TT`` and ``PP``.
    notes : tuple of str
        Remarks for the user.
    n_realizations : None
        Errors do not come from a Monte Carlo.
    """

    bandpowers: Bandpowers
    f_sky: dict[str, float]
    notes: tuple[str, ...]
    n_realizations: None = None

    def expected(self, theory: Spectra) -> Bandpowers:
        """Return the expected bandpowers of skies with these spectra.

        Raises
        ------
        DataError
            If the theory ends before the bins do.
        """
        found, windows = self.bandpowers, self.bandpowers.windows
        assert windows is not None, "the likelihood gives windows"
        last = found.binning.l_max
        if theory.l_max < last:
            raise DataError(f"the theory ends at l = {theory.l_max}, the bins at {last}")
        sky = theory.select(found.names, last).values
        values = np.einsum("ablm,lm->ab", windows[..., : last + 1], sky)
        return Bandpowers(values, found.names, found.binning, found.unit)


def measure_likelihood(
    maps: RunMaps,
    choices: SpectraChoices,
    fiducial: Spectra,
    n_side: int | None = None,
    estimator: Estimator = "quadratic",
    report: Callable[[str], None] = lambda line: None,
) -> LikelihoodMeasurement:
    """Return bandpowers of a run's map by the likelihood of its pixels (`PixelLikelihood`).

    Parameters
    ----------
    maps : RunMaps
    choices : SpectraChoices
        Mask, beam, pixel window and bins; the others are for pseudo-spectra.
    fiducial : Spectra
        The powers of multipoles outside the bins, and where the estimate starts; K_CMB^2.
    n_side : int, optional
        Of the data; by default that of the map up to 16, of larger ones 8.
    estimator : {"quadratic", "maximum"}
    report : callable
        Called with the cost, before it is incurred.

    Raises
    ------
    ConfigError, DataError
        If map, mask, covariance and choices do not fit together.
    ResourceError
        If the memory does not suffice; before anything is computed.
    """
    own = maps.pixelization.n_side
    n_side = (own if own <= _LARGEST else _N_SIDE) if n_side is None else n_side
    if not 1 <= n_side <= own or n_side & (n_side - 1):
        mend = "choose that of the map, or a smaller power of 2"
        raise ConfigError(f"n_side {n_side}, of a map of {own}", mend=mend)
    if maps.sky.unit != "K_CMB":
        raise DataError(
            f"a map in {maps.sky.unit or 'no unit'} has no likelihood",
            where=str(maps.path),
            mend=unit_mend(maps.sky.unit, "K_CMB"),
        )
    last = 2 * n_side if choices.l_max is None else choices.l_max
    if last > 3 * n_side - 1:
        raise ConfigError(
            f"l_max {last} is beyond the reach of n_side {n_side}", mend=f"at most {3 * n_side - 1}"
        )
    width = choices.width or _WIDTH
    if choices.l_min + width > last + 1:
        what = f"no bin of {width} multipoles fits from {choices.l_min} to {last}"
        raise ConfigError(what, mend="make it narrower, or choose other multipoles")
    binning = Binning.linear(choices.l_min, last, width, choices.of_d)
    mask = maps.seen
    if choices.mask is not None:
        mask = mask * read_mask(choices.mask, maps.pixelization, maps.sky.frame, choices.threshold)
    if not np.any(mask):
        raise DataError("the mask leaves no pixel", where=str(choices.mask or maps.path))
    n_stokes, l_max = len(maps.sky.values), 3 * n_side - 1
    _report_cost(int(n_stokes * 12 * n_side**2 * np.mean(mask)), n_stokes, l_max, report)
    low, note = _low_map(maps, np.where(mask > 0, 1.0, 0.0), n_side, choices)
    modes = harmonic_modes(n_side, low.seen, l_max, low.windows, choices.n_threads)
    likelihood = PixelLikelihood(low.data, low.noise, modes, binning, fiducial, low.templates)
    found = likelihood.quadratic() if estimator == "quadratic" else likelihood.maximum()
    f_sky = float(low.seen[0].mean())
    return LikelihoodMeasurement(found, {"TT": f_sky, "PP": f_sky}, note)


def _low_map(
    maps: RunMaps, mask: FloatArray, n_side: int, choices: SpectraChoices
) -> tuple[LowResolutionMap, tuple[str, ...]]:
    if n_side < maps.pixelization.n_side:
        size = len(maps.sky.values) * 12 * n_side**2
        normal = gaussians(random_stream(Purpose.REGULAR, maps.summary.seed, 0), size)
        low = downgrade_map(maps, mask, n_side, choices.fwhm, choices.pixel_window, normal, choices.n_threads)
        return low, ("the noise is white, of the run's covariance: correlations of 1/f noise are not in it",)
    covariance = maps.pixel_covariance
    low = native_map(maps, mask, choices.fwhm, choices.pixel_window, covariance)
    notes = ["multipoles beyond 3 n_side are not in the covariance: the sky should end there, by its beam"]
    if covariance is None:
        notes.append("the noise is white; products.pixel_covariance = true gives its correlations")
    return low, tuple(notes)


def _report_cost(n_data: int, n_stokes: int, l_max: int, report: Callable[[str], None]) -> None:
    """Report memory and time of a step of the likelihood; raise where memory does not suffice."""
    n_modes = n_stokes * ((l_max + 1) ** 2 - 4)
    needed = likelihood_bytes(n_data, n_modes)
    if needed > available_bytes():
        raise ResourceError(
            f"the likelihood of {n_data} data needs {needed / 1e9:.1f} GB",
            mend="mask more, or lower --n-side",
        )
    flops = n_data**3 / 3 + 3 * n_data**2 * n_modes + 2 * n_data * n_modes**2
    n_spectra = len(spectra_names(COMPONENTS[n_stokes]))
    flops += 8 * n_spectra**2 * (n_modes / n_stokes) ** 2
    seconds = flops / _speed()
    time_of = f"about {seconds:.0f} s" if seconds >= 1 else "less than a second"
    report(f"likelihood of {n_data} data and {n_modes} modes: {needed / 1e9:.2g} GB, {time_of} a step")


def _speed() -> float:
    """Return the floating-point operations a second of one thread of BLAS."""
    matrix = np.ones((384, 384))
    with single_blas_thread():
        matrix @ matrix
        begin = time.perf_counter()
        matrix @ matrix
        return 2 * 384**3 / (time.perf_counter() - begin)
