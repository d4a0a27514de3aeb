"""Data of the Monte Carlo sections of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from petacomm.base.threads import available_threads
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.plots import plot_data
from petamap.montecarlo.reader import find_montecarlo_file, read_results
from petamap.montecarlo.validation import ConsistencyCheck

_LEAST = 4  # realizations needed for a meaningful scatter


def read_montecarlo_data(folder: Path) -> dict[str, Any] | None:
    """Return the data for ``montecarlo.js``; None if a folder has no Monte Carlo, or too few realizations.

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
    calibration = Calibration.from_realizations(realizations, n_threads=available_threads())
    check = (
        None if realizations.input is None else ConsistencyCheck.from_realizations(realizations, calibration)
    )
    data = plot_data(realizations, calibration, check, results.theory)
    return data | {"failed": [list(item) for item in results.failed], "left": results.n_remaining}
