"""Data of the Monte Carlo sections of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from petacomm.base.errors import DataError
from petacomm.base.threads import available_threads
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.plots import plot_data
from petamap.montecarlo.reader import find_montecarlo_file, read_results
from petamap.montecarlo.realizations import Realizations
from petamap.montecarlo.validation import ConsistencyCheck
from petamap.sky.power_spectra import Spectra

_LEAST = 4  # realizations needed for a meaningful scatter


def read_montecarlo_data(folder: Path) -> dict[str, Any] | None:
    """Return the data for ``montecarlo.js``; None if a folder has no Monte Carlo, or too few realizations.

    Where bandpowers cannot be made, as in bins that are too narrow, the data say why.

    Raises
    ------
    DataError
        If the file cannot be read.
    """
    if find_montecarlo_file(folder) is None:
        return None
    results = read_results(folder)
    realizations = results.realizations
    if realizations.n < _LEAST:
        return None
    try:
        data = _plots(realizations, results.theory)
    except DataError as error:  # what is stored is whole, and can be binned in another way
        return {"n": realizations.n, "untold": str(error)}
    return data | {"failed": [list(item) for item in results.failed], "left": results.n_remaining}


def _plots(realizations: Realizations, theory: Spectra | None) -> dict[str, Any]:
    calibration = Calibration.from_realizations(realizations, n_threads=available_threads())
    check = None
    if realizations.input is not None:
        check = ConsistencyCheck.from_realizations(realizations, calibration)
    return plot_data(realizations, calibration, check, theory)
