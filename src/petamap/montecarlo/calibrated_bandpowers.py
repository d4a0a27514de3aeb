"""The bandpowers of a run's map, with noise bias, transfer function and covariance from a Monte Carlo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from petacomm.base.errors import ConfigError, DataError
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.reader import Finished, read_finished, weights_of
from petamap.montecarlo.realizations import Realizations
from petamap.spectra.cross_spectra import pseudo_spectra
from petamap.spectra.masks import effective_fraction
from petamap.spectra.measure import Measurement, coefficients
from petamap.spectra.run_maps import RunMaps


def measure_with(
    maps: RunMaps, montecarlo: Path, divide: bool = False, n_threads: int = 1, **changes: Any
) -> Measurement:
    """Return the bandpowers of a run, seen as the realizations of a Monte Carlo were.

    Parameters
    ----------
    maps : RunMaps
    montecarlo : Path
        Its file, or the folder that this is in.
    divide : bool
        Divide by the transfer function.
    n_threads : int
    **changes
        Other `l_min`, `l_max`, `width` or `of_d` than the Monte Carlo had: its pseudo-spectra have no bins.

    Raises
    ------
    DataError
        If map and realizations do not fit together, or there are too few of these.
    """
    finished = read_finished(montecarlo)
    _fits(maps, finished)
    choices = replace(finished.realizations.choices, n_threads=n_threads, **changes)
    realizations = replace(finished.realizations, choices=choices)
    weights = weights_of(realizations, maps.pixelization)
    seen = coefficients(maps.sky, maps.pixelization, list(weights), choices, realizations.l_max)
    pseudo = pseudo_spectra(seen, unit=realizations.unit)
    calibration = Calibration.of(realizations, divide, n_threads=n_threads)
    bandpowers = calibration.bandpowers(pseudo, realizations)
    f_sky = {
        a + b: effective_fraction(weights[i], weights[j])
        for i, a in enumerate("TP")
        for j, b in enumerate("TP")
    }
    notes = _notes(calibration, realizations)
    return Measurement(bandpowers, calibration.master, f_sky, notes, realizations.n)


def _fits(maps: RunMaps, finished: Finished) -> None:
    unit, stokes = maps.sky.unit, maps.sky.stokes
    made = finished.realizations
    letters = {"T": "I", "E": "Q", "B": "U"}
    wanted = {letters[name[0]] for name in made.names if name[0] == name[1]}
    if stokes is None or set(stokes.value) != wanted:
        has = "no Stokes parameters" if stokes is None else stokes.value
        raise ConfigError(f"the map has {has}, the Monte Carlo {' '.join(made.names)}", where=str(maps.path))
    for what, own, other in (
        ("in", f"{unit}^2", made.unit),
        ("in frame", maps.sky.frame or finished.frame, finished.frame),
    ):
        if own != other:
            raise DataError(f"the map is {what} {own}, the Monte Carlo {what} {other}", where=str(maps.path))


def _notes(calibration: Calibration, made: Realizations) -> tuple[str, ...]:
    error = (2 / max(made.n - 1, 1)) ** 0.5
    notes = [f"errors are the scatter of {made.n} realizations, themselves known to {50 * error:.0f} %"]
    if calibration.noise is None:
        notes.append("the Monte Carlo has no noise alone: no noise bias is taken off")
    else:
        notes.append("the noise bias is the mean of the realizations'")
    found = calibration.transfer
    if calibration.divided:
        notes.append("the transfer function is divided out")
    elif found is not None and found.against_one.probability < 0.01:
        notes.append(
            f"the transfer function is not 1 (p {found.against_one.probability:.1g}): see --transfer"
        )
    if "both" not in made.pseudo:
        notes.append(f"realizations have {' and '.join(made.pseudo)} alone: so have the errors")
    return tuple(notes)
