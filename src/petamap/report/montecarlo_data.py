"""From the realizations in a folder to what the page shows of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from petacomm.base.threads import available_threads
from petamap.montecarlo.calibration import Calibration
from petamap.montecarlo.plots import drawn
from petamap.montecarlo.reader import file_in, read_finished
from petamap.montecarlo.validation import Check

_LEAST = 4  # realizations that have a scatter worth a picture


def read_montecarlo(folder: Path) -> dict[str, Any] | None:
    """Return what ``montecarlo.js`` draws; None where a folder has no Monte Carlo, or hardly begun.

    Raises
    ------
    DataError
        If there is a file that cannot be read.
    """
    if file_in(folder) is None:
        return None
    found = read_finished(folder)
    realizations = found.realizations
    if realizations.n < _LEAST:
        return None
    calibration = Calibration.of(realizations, n_threads=available_threads())
    check = None if realizations.input is None else Check.of(realizations, calibration)
    data = drawn(realizations, calibration, check, found.theory)
    return data | {"failed": [list(one) for one in found.failed], "left": found.left}
