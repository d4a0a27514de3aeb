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
    """Return the weights of I, and of Q and U, float64 (2, n), at most 1. Collective.

    The mask, (n_pix,), is that of rank 0. Weights are of the pixels of the gatherer's maps: once a node, or
    of the rank's rings.

    Weights ``auto`` are proportional to 1 / (sigma^2 + S), with the white noise variance sigma^2 of a pixel
    and the variance S of the simulated sky. With purification, the weights of Q and U are the apodized mask,
    since others vary too fast.

    Raises
    ------
    DataError
        If no pixel is left.
    """
    statistics = system.statistics
    alive = ((statistics.hits > 0) & ~statistics.dead).astype(np.float64)
    sky = draws.sky_variance(gatherer.pixelization.n_side)
    rows = np.stack(_weights(choices.weights, alive, system, sky), axis=1)
    n_threads = system.projection.n_threads if gatherer.distributed else 1
    if gatherer.distributed:
        whole = None if choices.mask is None else spread_on_nodes(system.comm, mask)
        soft = _soft_mask(gatherer.to_rings(alive[:, None], 0.0)[0], whole, gatherer, choices, n_threads)
        return _with_mask(gatherer.to_rings(rows, 0.0), soft, choices)
    gathered, weights = [gatherer.gather(0, one, 0.0) for one in (alive[:, None], rows)], None
    with agree_on_errors(system.comm):
        if gathered[0] is not None and gathered[1] is not None:
            soft = _soft_mask(gathered[0][0], mask, gatherer, choices, n_threads)
            weights = _with_mask(gathered[1], soft, choices)
    return spread_on_nodes(system.comm, weights)


def _soft_mask(
    alive: FloatArray, mask: FloatArray | None, gatherer: MapGatherer, choices: SpectraChoices, n_threads: int
) -> FloatArray:
    """Return the mask where pixels are mapped, with soft edges, (n,). Collective on the ranks of the rings.

    Parameters
    ----------
    alive : float64 (n,)
        1 where pixels are mapped, else 0.
    mask : float64 (n_pix,), optional
        Of all pixels of the sky.
    """
    rings, places = gatherer.rings, gatherer.places
    soft = alive if mask is None else alive * mask[gatherer.pixels]
    if choices.apodization:
        every = soft
        if places is not None:
            every = np.zeros(rings.n_pix)
            every[places] = soft
        every = apodize(
            every,
            gatherer.pixelization,
            choices.apodization,
            choices.kind,
            n_threads,
            bool(choices.pure),
            rings,
        )
        soft = every if places is None else every[places]
    nothing = DataError("mask and samples have no pixel in common", where=str(choices.mask or "the maps"))
    agree(rings.comm, None if rings.comm.max(float(soft.any())) else nothing)
    return soft


def _with_mask(weights: FloatArray, soft: FloatArray, choices: SpectraChoices) -> FloatArray:
    """Return weights, (2, n), times the mask, in place."""
    weights *= soft
    if choices.pure and choices.weights == "auto":
        weights[1] = soft
    return weights


def _weights(
    choice: str, alive: FloatArray, system: MapmakingSystem, sky: dict[str, float]
) -> tuple[FloatArray, FloatArray]:
    """Return the weights of I, and of Q and U, of pixels that this rank owns. Collective."""
    comm, hits = system.comm, alive * system.statistics.hits
    if choice in ("uniform", "hits"):
        most = 1.0 if choice == "uniform" else comm.max(float(hits.max(initial=1.0)))
        weights = (hits > 0).astype(np.float64) if choice == "uniform" else hits / most
        return weights, weights
    variances = list(system.statistics.covariance[:, DIAGONAL[system.projection.stokes.n]].T)
    by_kind = {"T": variances[0]} if len(variances) != 2 else {}
    if len(variances) > 1:
        by_kind["P"] = 0.5 * (variances[-2] + variances[-1])
    inverse = [
        inverse_variance(variance, (hits > 0) & (variance > 0), sky[kind] if choice == "auto" else 0.0, comm)
        for kind, variance in by_kind.items()
    ]
    return inverse[0], inverse[-1]
