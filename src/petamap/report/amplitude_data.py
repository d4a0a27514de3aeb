"""Data of the section of a report on the amplitudes of templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base.errors import DataError
from petamap.data.run_summary import Summary


def read_amplitude_data(summary: Summary, folder: Path) -> list[dict[str, Any]]:
    """Return what the page tells of each template: amplitudes, and their rms of each detector.

    Raises
    ------
    DataError
        If the file of the amplitudes cannot be read.
    """
    from astropy.io import fits

    files = [folder / product.file for product in summary.products if product.kind == "amplitudes"]
    if not files:
        return []
    try:
        with fits.open(files[0]) as hdus:
            table = hdus["AMPLITUDES"].data
            names, detectors, units = (np.char.strip(table[key]) for key in ("TEMPLATE", "DETECTOR", "UNIT"))
            values = np.asarray(table["VALUE"], np.float64)
    except (OSError, KeyError) as error:
        raise DataError(f"cannot be read: {error}", where=str(files[0])) from error
    found = []
    for name in dict.fromkeys(names.tolist()):
        own = names == name
        of_detectors = dict.fromkeys(detectors[own].tolist())
        rms = [float(np.sqrt(np.mean(values[own & (detectors == one)] ** 2))) for one in of_detectors]
        found.append(
            {
                "name": name,
                "unit": str(units[own][0]),
                "n": int(own.sum()),
                "detectors": [*of_detectors],
                "rms": rms,
            }
        )
    return found
