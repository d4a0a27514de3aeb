"""Bandpowers of a map with noise bias, transfer function and covariance from a Monte Carlo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from petacomm.base.errors import ConfigError, DataError
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.file_layout import FILTER_AND_BIN
from petamap.montecarlo.reader import MonteCarloResults, read_results, reordered_weights
from petamap.montecarlo.realizations import Realizations
from petamap.spectra.cross_spectra import pseudo_spectra
from petamap.spectra.masks import effective_fractions
from petamap.spectra.measure import Measurement, coefficients
from petamap.spectra.run_maps import RunMaps


def measure_calibrated(
    maps: RunMaps, montecarlo: Path, divide: bool = False, n_threads: int = 1, **changes: Any
) -> Measurement:
    """Return the bandpowers of a run, measured like those of the realizations of a Monte Carlo.

    Parameters
    ----------
    maps : RunMaps
        Its filter-and-bin map is measured where that is what the Monte Carlo made.
    montecarlo : Path
        File of the Monte Carlo, or its folder.
    divide : bool
        Divide by the transfer function.
    n_threads : int
    **changes
        Values of `l_min`, `l_max`, `width` or `of_d` that differ from those of the Monte Carlo, whose
        pseudo-spectra are not binned.

    Raises
    ------
    DataError
        If map and realizations do not match, or there are too few realizations.
    """
    results = read_results(montecarlo)
    kind = "filtered" if results.estimator == FILTER_AND_BIN else "map"
    if kind != maps.kind:
        maps = RunMaps(maps.folder, maps.of, kind)
    _check_match(maps, results)
    choices = replace(results.realizations.choices, n_threads=n_threads, **changes)
    realizations = replace(results.realizations, choices=choices)
    weights = reordered_weights(realizations, maps.pixelization)
    seen = coefficients(maps.sky, maps.pixelization, list(weights), choices, realizations.l_max)
    pseudo = pseudo_spectra(seen, unit=realizations.unit)
    calibration = Calibration.from_realizations(realizations, divide, n_threads=n_threads)
    bandpowers = calibration.bandpowers(pseudo, realizations)
    notes = _notes(calibration, realizations)
    return Measurement(
        bandpowers, calibration.master, effective_fractions(weights, weights), notes, realizations.n
    )


def _check_match(maps: RunMaps, results: MonteCarloResults) -> None:
    unit, stokes = maps.sky.unit, maps.sky.stokes
    realizations = results.realizations
    letters = {"T": "I", "E": "Q", "B": "U"}
    wanted = {letters[name[0]] for name in realizations.names if name[0] == name[1]}
    if stokes is None or set(stokes.value) != wanted:
        has = "no Stokes parameters" if stokes is None else stokes.value
        names = " ".join(realizations.names)
        raise ConfigError(f"the map has {has}, the Monte Carlo {names}", where=str(maps.path))
    for what, of_map, of_montecarlo in (
        ("in", f"{unit}^2", realizations.unit),
        ("in frame", maps.sky.frame or results.frame, results.frame),
    ):
        if of_map != of_montecarlo:
            text = f"the map is {what} {of_map}, the Monte Carlo {what} {of_montecarlo}"
            raise DataError(text, where=str(maps.path))


def _notes(calibration: Calibration, realizations: Realizations) -> tuple[str, ...]:
    n = realizations.n
    error = (2 / max(n - 1, 1)) ** 0.5
    notes = ["bandpowers are those of the filter-and-bin map"] if realizations.unfiltered is not None else []
    notes.append(f"errors are the scatter of {n} realizations, themselves known to {50 * error:.0f} %")
    if calibration.noise is None:
        notes.append("the Monte Carlo has no noise alone: no noise bias is taken off")
    else:
        notes.append("the noise bias is the mean of the realizations'")
    transfer = calibration.transfer
    if calibration.divided:
        notes.append("the transfer function is divided out")
    elif transfer is not None and transfer.against_one.probability < 0.01:
        notes.append(
            f"the transfer function is not 1 (p {transfer.against_one.probability:.1g}): see --transfer"
        )
    if "both" not in realizations.pseudo:
        notes.append(f"realizations have {' and '.join(realizations.pseudo)} alone: so have the errors")
    if narrow := calibration.master.narrow_bins(calibration.n_bins):
        notes.append(narrow)
    return tuple(notes)
