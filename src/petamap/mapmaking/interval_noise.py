"""Noise of the detectors of an interval, and what they share, in what maps leave of their streams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import ComplexArray
from petamap.mapmaking.residual_streams import ResidualStreams, residual_psd
from petamap.noise.mode_estimate import (
    EstimatedModes,
    ModeBasis,
    ModeStreams,
    detector_spectra,
    fit_modes,
    line_bins,
    spectral_lines,
)
from petamap.noise.model import EstimatedPsd
from petamap.noise.spectrum_estimate import segments_of


def measure_interval(
    streams: ResidualStreams, numbers: Sequence[int], n_modes: int
) -> tuple[list[EstimatedPsd | DataError], EstimatedModes]:
    """Return the spectrum of each detector of an interval, and what all of them share.

    Streams are read three times, one after the other: for couplings, amplitudes, and what these leave.

    Parameters
    ----------
    streams : ResidualStreams
    numbers : sequence of int
        Segments of the detectors.
    n_modes : int

    Returns
    -------
    spectra : list of EstimatedPsd, or DataError where there is none
        The error says why; such a detector has no coupling.
    modes : EstimatedModes
    """
    errors, basis = _couplings(streams, numbers, n_modes)
    left, whole = _amplitudes(streams, numbers, basis)
    z, known = left.amplitudes()
    simulated, _ = whole.amplitudes()
    rate, where = streams.rate(numbers[0]), f"{streams.where(numbers[0])} and those that share its noise"
    amplitudes = tuple(
        residual_psd(one, other, known, rate, where) for one, other in zip(z, simulated, strict=True)
    )
    rest: list[EstimatedPsd | None] = []
    for detector, number in enumerate(numbers):
        residuals, good = streams.residuals(number)
        left.subtract(detector, z, residuals)
        noises = streams.simulated(number)
        whole.subtract(detector, simulated, noises)
        try:
            rest.append(residual_psd(residuals, noises, good & known, rate, streams.where(number)))
        except DataError as error:
            rest.append(None)
            errors.setdefault(detector, error.with_traceback(None))  # its frames hold `streams`, and `errors`
    spectra: list[EstimatedPsd | DataError] = []
    for detector, one in enumerate(detector_spectra(basis, rest)):
        spectra.append(errors[detector] if one is None else one)
    return spectra, EstimatedModes(basis, amplitudes)


def _couplings(
    streams: ResidualStreams, numbers: Sequence[int], n_modes: int
) -> tuple[dict[int, DataError], ModeBasis]:
    """Return why detectors have no spectrum, and the amplitudes of the modes of the others."""
    data, lines = streams.of_data(), list[ComplexArray]()
    errors: dict[int, DataError] = {}
    for detector, number in enumerate(numbers):
        residuals, good = data.residuals(number)
        rate = data.rate(number)
        used, bins = line_bins(len(good))
        try:
            segments_of(residuals[0], good, rate, where=data.where(number))
            lines.append(spectral_lines(residuals[0], good, rate))
        except DataError as error:
            errors[detector] = error.with_traceback(None)
            lines.append(np.zeros(len(used), np.complex128))
    return errors, fit_modes(np.array(lines), bins, n_modes)


def _amplitudes(
    streams: ResidualStreams, numbers: Sequence[int], basis: ModeBasis
) -> tuple[ModeStreams, ModeStreams]:
    """Return the amplitudes of the modes in residuals, and those in whole simulations."""
    sums: list[ModeStreams] = []
    for detector, number in enumerate(numbers):
        residuals, good = streams.residuals(number)
        simulated = streams.simulated(number)
        sums = sums or [ModeStreams(basis, residuals.shape), ModeStreams(basis, simulated.shape)]
        # one without a spectrum has no coupling; in simulations no sample is missing
        sums[0].add(detector, residuals, good)
        sums[1].add(detector, simulated, np.ones_like(good))
    return sums[0], sums[1]
