"""Beams, and the product of beam and pixel windows of two maps."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.spectra.pixel_window import pixel_window


def gaussian_beam(fwhm: float, l_max: int) -> dict[str, FloatArray]:
    """Return b_l = exp(-(l (l + 1) - s^2) sigma^2 / 2) of T (s = 0) and P (s = 2), each float64 (l_max + 1,).

    `fwhm` in radians (Challinor et al. 2000).
    """
    l = np.arange(l_max + 1.0)  # noqa: E741
    variance = fwhm**2 / (8 * np.log(2))
    return {kind: np.exp(-0.5 * (l * (l + 1) - spin**2) * variance) for kind, spin in (("T", 0), ("P", 2))}


def map_window(n_side: int | None, fwhm: float, l_max: int) -> dict[str, FloatArray]:
    """Return the product of beam and pixel window (none for None) of a_lm of ``T`` and ``P``."""
    window = gaussian_beam(fwhm, l_max)
    if n_side is not None:
        for kind, values in zip("TP", pixel_window(n_side, l_max), strict=True):
            window[kind] = window[kind] * values
    return window


def window_products(
    names: tuple[str, ...], first: dict[str, FloatArray], second: dict[str, FloatArray] | None = None
) -> dict[str, FloatArray]:
    """Return the product of the windows of two maps for each spectrum."""
    other = first if second is None else second
    return {name: first["TP"[name[0] != "T"]] * other["TP"[name[1] != "T"]] for name in names}
