"""Data of the section of a report on the amplitudes of templates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from petamap.data.formats.amplitudes import read_amplitudes
from petamap.data.product_file import require_pixels
from petamap.data.run_summary import Summary


def read_amplitude_data(summary: Summary, folder: Path) -> list[dict[str, Any]]:
    """Return what the page tells of each template: amplitudes, and their rms of each detector.

    Raises
    ------
    DataError
        If the file of the amplitudes cannot be read.
    """
    product = next((one for one in summary.products if one.kind == "amplitudes"), None)
    if product is None:
        return []
    table = read_amplitudes(folder / product.file)
    require_pixels(folder / product.file, product, table.values)
    names, detectors = np.array(table.templates), np.array(table.detectors)
    found = []
    for name in dict.fromkeys(names.tolist()):
        own = names == name
        of_detectors = dict.fromkeys(detectors[own].tolist())
        rms = [float(np.sqrt(np.mean(table.values[own & (detectors == one)] ** 2))) for one in of_detectors]
        found.append(
            {
                "name": name,
                "unit": table.unit if table.has_unit[own][0] else "",
                "n": int(own.sum()),
                "detectors": [*of_detectors],
                "rms": rms,
            }
        )
    return found
