"""Contents of a plot of bandpowers, as numbers that JSON can hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from petamap.sky.power_spectra import Spectra, cl_to_dl_factor
from petamap.spectra.bandpowers import Bandpowers


def bandpower_plot(
    bandpowers: Bandpowers, theory: Spectra | None = None, expected: Bandpowers | None = None
) -> Any:
    """Return bandpowers, and a theory beside them, as the report plots them.

    Parameters
    ----------
    bandpowers : Bandpowers
    theory : Spectra, optional
        Plotted as a line, as D_l or C_l like the bandpowers.
    expected : Bandpowers, optional
        Bandpowers of the theory.

    Returns
    -------
    dict
        power ("D_l" or "C_l"), unit, and spectra: a list of dicts with name, first, last and middle multipole
        of each bin, value, error (None where unknown), expected and line (l, value; None without a theory).
        K_CMB^2 becomes uK^2.
    """
    kelvin = bandpowers.unit == "K_CMB^2"
    factor = 1e12 if kelvin else 1.0
    errors, ranges = bandpowers.errors, bandpowers.binning.ranges
    spectra = []
    for i, name in enumerate(bandpowers.names):
        spectra.append(
            {
                "name": name,
                "first": [first for first, _ in ranges],
                "last": [last for _, last in ranges],
                "middle": bandpowers.binning.middle.tolist(),
                "value": (bandpowers.values[i] * factor).tolist(),
                "error": None if errors is None else (errors[i] * factor).tolist(),
                "expected": None if expected is None else (expected[name] * factor).tolist(),
                "line": _line(theory, name, bandpowers, factor),
            }
        )
    power = "D_l" if bandpowers.binning.of_d else "C_l"
    return {"power": power, "unit": "uK^2" if kelvin else bandpowers.unit, "spectra": spectra}


def _line(theory: Spectra | None, name: str, bandpowers: Bandpowers, factor: float) -> Any:
    if theory is None or (name not in theory and name[::-1] not in theory):
        return None
    first, stop = 2, min(theory.l_max, bandpowers.binning.l_max) + 1
    l = np.arange(first, stop, dtype=np.float64)  # noqa: E741
    values = theory[name if name in theory else name[::-1]][first:stop] * factor
    return {
        "l": l.tolist(),
        "value": (values * cl_to_dl_factor(l) if bandpowers.binning.of_d else values).tolist(),
    }
