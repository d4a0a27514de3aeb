"""Expected pseudo-spectra of a sky."""

import numpy as np

from petamap.sky.power_spectra import Spectra


def coupled(coupling, true, transfer=None):
    """Return the expected pseudo-spectra of a sky without noise: sum over l' of M_ll' F_l' C_l'."""
    names, end = true.names, coupling.l_max + 1
    rows = np.zeros((len(names), end))
    for row, pseudo in zip(rows, names, strict=True):
        for name in names:
            block = coupling.block(pseudo, name, names)
            if block is not None:
                seen = true[name][:end] * (1.0 if transfer is None else transfer[name])
                row += np.einsum("ij,j->i", block, seen)
    return Spectra(rows, names, true.unit)
