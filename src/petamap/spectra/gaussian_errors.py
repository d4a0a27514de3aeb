"""Approximate errors of bandpowers of Gaussian skies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.multipole_bins import Binning


def modes_per_bin(binning: Binning, f_sky: float) -> FloatArray:
    """Return the number of modes in each bin: sum of (2 l + 1) f_sky, float64 (n_bins,)."""
    first, stop = binning.edges[:-1], binning.edges[1:]
    return (stop**2 - first**2).astype(np.float64) * f_sky


def knox_errors(
    cross: Bandpowers, first: Bandpowers, second: Bandpowers, f_sky: Mapping[str, float]
) -> FloatArray:
    """Return the standard deviations for Gaussian skies (Knox 1995; Hivon et al. 2002, section 4.3).

    var C^xy = (C^xx C^yy + C^xy C^yx) / modes_per_bin, noise included in the C.

    Parameters
    ----------
    cross : Bandpowers
        Spectra whose errors are wanted, noise included; an auto-spectrum is its own cross-spectrum.
    first, second : Bandpowers
        Auto-spectra of the two maps, noise included; none below 0 is taken.
    f_sky : mapping of str to float
        `effective_fraction` of the weights, for the kinds ``TT``, ``TP``, ``PT``, ``PP``.

    Returns
    -------
    float64 (n_spectra, n_bins)
    """
    rows = []
    for name in cross.names:
        x, y = name[0], name[1]
        autos = np.maximum(first[x + x], 0) * np.maximum(second[y + y], 0)
        turned = cross[name[::-1]] if name[::-1] in cross.names else cross[name]
        counted = modes_per_bin(cross.binning, f_sky["".join("TP"[letter != "T"] for letter in name)])
        rows.append(np.sqrt(np.maximum(autos + cross[name] * turned, 0) / counted))
    return np.stack(rows)
