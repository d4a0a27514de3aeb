"""Pixel weights common to all realizations, from samples and mask, not from the values of a map."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petacomm.mpi import agree_on_errors, spread_on_nodes
from petamap.mapmaking.binning import DIAGONAL
from petamap.mapmaking.system import MapmakingSystem
from petamap.montecarlo.draws import Draws
from petamap.montecarlo.mapper import MapGatherer
from petamap.sky.healpix import Healpix
from petamap.spectra.masks import apodize
from petamap.spectra.measure import SpectraChoices
from petamap.spectra.run_maps import inverse_variance, read_mask


def load_mask(choices: SpectraChoices, pixelization: Healpix, frame: str) -> FloatArray:
    """Return the chosen mask, or 1 everywhere without one, float64 (n_pix,).

    Raises
    ------
    DataError
        If the mask does not match the pixelization, or leaves no pixel.
    """
    if choices.mask is None:
        return np.ones(pixelization.n_pix)
    mask = read_mask(choices.mask, pixelization, frame, choices.threshold)
    if not mask.any():
        raise DataError("the mask leaves no pixel", where=str(choices.mask))
    return mask


def pixel_weights(
    system: MapmakingSystem, gatherer: MapGatherer, draws: Draws, choices: SpectraChoices,
    mask: FloatArray | None,
) -> FloatArray:  # fmt: skip
    """Return the weights of I, and of Q and U, float64 (2, n_pix), at most 1, once on each node. Collective.

    The mask, (n_pix,), is that of rank 0.

    Weights ``auto`` are proportional to 1 / (sigma^2 + S), with the white noise variance sigma^2 of a pixel
    and the variance S of the simulated sky. With purification, the weights of Q and U are the apodized mask,
    since others vary too fast.

    Raises
    ------
    DataError
        If no pixel is left.
    """
    statistics = system.statistics
    diagonal = statistics.covariance[:, DIAGONAL[system.projection.stokes.n]]
    alive = ((statistics.hits > 0) & ~statistics.dead).astype(np.float64)
    columns = np.concatenate((alive[:, None], (alive * statistics.hits)[:, None], diagonal), axis=1)
    gathered, weights = gatherer.gather(0, columns, 0.0), None
    with agree_on_errors(system.comm):
        if gathered is not None and mask is not None:
            weights = _weights_of(gathered, gatherer.pixelization, draws, choices, mask)
    return spread_on_nodes(system.comm, weights)


def _weights_of(
    columns: FloatArray, pixelization: Healpix, draws: Draws, choices: SpectraChoices, mask: FloatArray
) -> FloatArray:
    """Return the weights of whether pixels are mapped, of hits, and of variances, (n, n_pix)."""
    seen, hits, *variances = columns
    soft = apodize(
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
    if choice in ("uniform", "hits"):
        weights = seen if choice == "uniform" else hits / hits.max(initial=1.0)
        return np.stack((weights, weights))
    by_kind = {"T": variances[0]} if len(variances) != 2 else {}
    if len(variances) > 1:
        by_kind["P"] = 0.5 * (variances[-2] + variances[-1])
    inverse = [
        inverse_variance(variance, (seen > 0) & (variance > 0), sky[kind] if choice == "auto" else 0.0)
        for kind, variance in by_kind.items()
    ]
    return np.stack((inverse[0], inverse[-1]))
