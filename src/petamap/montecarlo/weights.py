"""Weights of pixels that all realizations share: from samples and mask, never from the values of a map."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.mapmaking.system import System
from petamap.montecarlo.draws import Draws
from petamap.montecarlo.mapper import Gathering
from petamap.sky.healpix import Healpix
from petamap.spectra.masks import apodized
from petamap.spectra.measure import Choices
from petamap.spectra.run_maps import inverse_variance, read_mask

# the places of II, QQ and UU in the upper triangle, by the number of Stokes parameters
_DIAGONAL = {1: (0,), 2: (0, 2), 3: (0, 3, 5)}


def mask_of(choices: Choices, pixelization: Healpix, frame: str) -> FloatArray:
    """Return the mask that was chosen, 1 everywhere without one, float64 (n_pix,).

    Raises
    ------
    DataError
        If it does not fit the pixels, or leaves none.
    """
    if choices.mask is None:
        return np.ones(pixelization.n_pix)
    mask = read_mask(choices.mask, pixelization, frame, choices.threshold)
    if not mask.any():
        raise DataError("the mask leaves no pixel", where=str(choices.mask))
    return mask


def pixel_weights(
    system: System, gathering: Gathering, draws: Draws, choices: Choices, mask: FloatArray
) -> FloatArray:
    """Return the weights of I, and of Q and U, float64 (2, n_pix), at most 1. Collective.

    ``auto`` are 1 / (sigma^2 + S), sigma^2 the white variance of a pixel and S the variance that the spectra
    drawn give it; of Q and U that are to be pure the mask alone, as others vary too fast.

    Raises
    ------
    DataError
        If no pixel is left.
    """
    statistics, n_stokes = system.statistics, system.projection.stokes.n
    diagonal = statistics.covariance[:, list(_DIAGONAL[n_stokes])]
    alive = ((statistics.hits > 0) & ~statistics.dead).astype(np.float64)
    columns = np.concatenate((alive[:, None], (alive * statistics.hits)[:, None], diagonal), axis=1)
    seen, hits, *variances = gathering.to_all(columns, 0.0)
    pixelization = gathering.pixelization
    soft = apodized(
        seen * mask, pixelization, choices.apodization, choices.kind, band_limited=bool(choices.pure)
    )
    if not soft.any():
        raise DataError("mask and samples have no pixel in common", where=str(choices.mask or "the maps"))
    weights = _weights(choices.weights, seen, hits, variances, draws.sky_variance(pixelization.n_side))
    weights = weights * soft
    if choices.pure and choices.weights == "auto":
        weights[1] = soft
    return weights


def _weights(
    choice: str, seen: FloatArray, hits: FloatArray, variances: list[FloatArray], sky: dict[str, float]
) -> FloatArray:
    if choice == "uniform":
        return np.stack((seen, seen))
    if choice == "hits":
        relative = hits / max(float(hits.max(initial=0.0)), 1.0)
        return np.stack((relative, relative))
    whole = variances[0] if len(variances) != 2 else None
    polarized = 0.5 * (variances[-2] + variances[-1]) if len(variances) > 1 else None
    both = []
    for kind, variance in (("T", whole), ("P", polarized)):
        if variance is not None:
            known = (seen > 0) & (variance > 0)
            both.append(inverse_variance(variance, known, sky[kind] if choice == "auto" else 0.0))
    return np.stack((both[0], both[-1]))
