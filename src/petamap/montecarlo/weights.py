"""Pixel weights common to all realizations, from samples and mask, not from the values of a map."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petacomm.mpi import agree, agree_on_errors, spread_on_nodes
from petamap.mapmaking.binning import DIAGONAL
from petamap.mapmaking.system import MapmakingSystem
from petamap.montecarlo.draws import Draws
from petamap.montecarlo.mapper import MapGatherer
from petamap.sky.healpix import Healpix
from petamap.sky.ring_distribution import RingDistribution
from petamap.spectra.masks import apodize
from petamap.spectra.measure import SpectraChoices
from petamap.spectra.run_maps import inverse_variance, read_mask


def load_mask(choices: SpectraChoices, pixelization: Healpix, frame: str | None) -> FloatArray | None:
    """Return the chosen mask, float64 (n_pix,), or None where none is chosen.

    Raises
    ------
    DataError
        If the mask does not match the pixelization, or leaves no pixel.
    """
    if choices.mask is None:
        return None
    mask = read_mask(choices.mask, pixelization, frame, choices.threshold)
    if not mask.any():
        raise DataError("the mask leaves no pixel", where=str(choices.mask))
    return mask


def pixel_weights(
    system: MapmakingSystem, gatherer: MapGatherer, draws: Draws, choices: SpectraChoices,
    mask: FloatArray | None,
) -> FloatArray:  # fmt: skip
    """Return the weights of I, and of Q and U, float64 (2, n_pix), at most 1. Collective.

    The mask, (n_pix,), is that of rank 0. Weights are whole, once on each node, or those of the rank's rings.

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
    if gatherer.distributed:
        part = gatherer.to_rings(columns, 0.0)
        if choices.mask is not None:
            part[0] *= spread_on_nodes(system.comm, mask)[gatherer.rings.pixels]
        return _weights_of(part, gatherer.rings, draws, choices, system.projection.n_threads)
    gathered, weights = gatherer.gather(0, columns, 0.0), None
    with agree_on_errors(system.comm):
        if gathered is not None:
            gathered[0] *= 1.0 if mask is None else mask
            weights = _weights_of(gathered, gatherer.rings, draws, choices)
    return spread_on_nodes(system.comm, weights)


def _weights_of(
    columns: FloatArray, rings: RingDistribution, draws: Draws, choices: SpectraChoices, n_threads: int = 1
) -> FloatArray:
    """Return weights of mask where pixels are mapped, of hits, and of variances, (n, n_pix). Collective."""
    masked, hits, *variances = columns
    soft = apodize(
        masked, Healpix(rings.n_side), choices.apodization, choices.kind, n_threads, bool(choices.pure), rings
    )
    nothing = DataError("mask and samples have no pixel in common", where=str(choices.mask or "the maps"))
    agree(rings.comm, None if rings.comm.max(float(soft.any())) else nothing)
    weights = _weights(choices.weights, hits, variances, draws.sky_variance(rings.n_side), rings)
    weights = weights * soft
    if choices.pure and choices.weights == "auto":
        weights[1] = soft
    return weights


def _weights(
    choice: str, hits: FloatArray, variances: list[FloatArray], sky: dict[str, float], rings: RingDistribution
) -> FloatArray:
    if choice in ("uniform", "hits"):
        most = 1.0 if choice == "uniform" else rings.comm.max(float(hits.max(initial=1.0)))
        weights = (hits > 0).astype(np.float64) if choice == "uniform" else hits / most
        return np.stack((weights, weights))
    by_kind = {"T": variances[0]} if len(variances) != 2 else {}
    if len(variances) > 1:
        by_kind["P"] = 0.5 * (variances[-2] + variances[-1])
    inverse = [
        inverse_variance(
            variance, (hits > 0) & (variance > 0), sky[kind] if choice == "auto" else 0.0, rings.comm
        )
        for kind, variance in by_kind.items()
    ]
    return np.stack((inverse[0], inverse[-1]))
