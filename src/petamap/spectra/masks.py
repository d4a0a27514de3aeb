"""Weights of pixels: apodized masks, inverse variances, what of the sky they leave."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from petamap.base.errors import ConfigError, DataError
from petamap.base.typing import FloatArray
from petamap.sky.healpix import Healpix

Apodization = Literal["C1", "C2", "smooth"]
APODIZATIONS: tuple[Apodization, ...] = ("C1", "C2", "smooth")


def distance_to_masked(
    mask: FloatArray, pixelization: Healpix, n_threads: int = 1, reach: float = math.pi
) -> FloatArray:
    """Return the angle from each pixel's centre to the nearest centre of a pixel that is masked.

    Parameters
    ----------
    mask : float64 (n_pix,)
        Zero where masked.
    pixelization : Healpix
    n_threads : int
    reach : float
        Radians; what is farther away is not looked for, which is much quicker.

    Returns
    -------
    float64 (n_pix,)
        Radians along a great circle; 0 where masked, pi where nothing is within `reach`.
    """
    from scipy.spatial import cKDTree

    masked = mask <= 0
    if not masked.any():
        return np.full(len(mask), math.pi)
    distance = np.zeros(len(mask))
    if masked.all():
        return distance
    directions = pixelization.directions_of(np.arange(pixelization.n_pix), n_threads)
    chords, _ = cKDTree(directions[masked]).query(
        directions[~masked], workers=n_threads, distance_upper_bound=2 * math.sin(reach / 2) + 1e-9
    )
    distance[~masked] = np.where(np.isinf(chords), math.pi, 2 * np.arcsin(np.minimum(chords / 2, 1.0)))
    return distance


def apodized(
    mask: FloatArray, pixelization: Healpix, width: float, kind: Apodization = "C2", n_threads: int = 1
) -> FloatArray:
    """Return a mask with soft edges inside those it has.

    With x^2 = (1 - cos d) / (1 - cos width), d the distance to the nearest masked pixel, and x < 1, the
    mask is multiplied by x - sin(2 pi x) / 2 pi (C1) or (1 - cos pi x) / 2 (C2) (Grain, Tristram & Stompor
    2009, section III). ``smooth`` masks all within 2.5 `width`, convolves with a Gaussian of deviation
    `width`, and multiplies with the mask: all derivatives are continuous.

    Parameters
    ----------
    mask : float64 (n_pix,)
        At least 0; 0 where masked.
    pixelization : Healpix
    width : float
        Radians.
    kind : {"C1", "C2", "smooth"}
    n_threads : int

    Returns
    -------
    float64 (n_pix,)

    Raises
    ------
    ConfigError
        For a width that is negative or more than pi, or another kind.
    DataError
        If the mask does not fit the pixels, is negative or not finite.
    """
    check_weights(mask, pixelization, "the mask")
    if not 0 <= width <= math.pi:
        raise ConfigError(f"the width of apodization {width} is not between 0 and pi radians")
    if kind not in APODIZATIONS:
        raise ConfigError(f"no apodization '{kind}'", mend=f"one of {', '.join(APODIZATIONS)}")
    if width == 0:
        return mask.copy()
    reach = min(2.5 * width, math.pi)
    distance = distance_to_masked(mask, pixelization, n_threads, reach)
    if kind == "smooth":
        return mask * _smoothed(np.where(distance > 2.5 * width, 1.0, 0.0), pixelization, width, n_threads)
    x = np.minimum(np.sin(distance / 2) / math.sin(width / 2), 1.0)
    edge = x - np.sin(2 * np.pi * x) / (2 * np.pi) if kind == "C1" else 0.5 * (1 - np.cos(np.pi * x))
    soft: FloatArray = mask * edge
    return soft


def _smoothed(values: FloatArray, pixelization: Healpix, sigma: float, n_threads: int) -> FloatArray:
    from petamap.spectra.transforms import analyse, in_ring_order, smoothed_map

    l_max = 3 * pixelization.n_side - 1
    alm = analyse(in_ring_order(values, pixelization), pixelization.n_side, l_max, 0, n_threads=n_threads)
    soft = smoothed_map(alm, l_max, sigma, pixelization.n_side, n_threads)
    if pixelization.nest:
        soft = soft[pixelization.reordered(np.arange(pixelization.n_pix))]
    clipped: FloatArray = np.clip(soft, 0.0, 1.0)
    return clipped


def check_weights(weights: FloatArray, pixelization: Healpix, what: str = "the weights") -> None:
    """Refuse what are no weights of pixels.

    Raises
    ------
    DataError
        If there are not as many as pixels, or one is negative or not finite.
    """
    if weights.shape != (pixelization.n_pix,):
        raise DataError(
            f"{what}: {weights.size} pixels, not the {pixelization.n_pix} of n_side {pixelization.n_side}",
            mend="bring both to one n_side",
        )
    bad = ~(weights >= 0) | ~np.isfinite(weights)
    if bad.any():
        raise DataError(f"{what} are negative or not finite in pixel {int(np.flatnonzero(bad)[0])}")


def sky_fraction(weights: FloatArray, power: int = 1) -> float:
    """Return the mean of the weights to a power: f_sky w_i of Hivon et al. 2002, equation 13."""
    return float(np.mean(weights**power))


def effective_fraction(first: FloatArray, second: FloatArray | None = None) -> float:
    """Return f_sky w_2^2 / w_4: the fraction of modes that weights leave (Hivon et al. 2002)."""
    product = first * (first if second is None else second)
    fourth = float(np.mean(product**2))
    return float(np.mean(product)) ** 2 / fourth if fourth > 0 else 0.0


def without_monopole(values: FloatArray, weights: FloatArray, directions: FloatArray | None) -> FloatArray:
    """Return a map less its weighted mean, or, given `directions` (n_pix, 3), less the dipole too.

    Pixels of weight 0 take no part and get the same offset.
    """
    used = weights > 0
    if not used.any():
        return values
    basis = np.ones((1, len(values)))
    if directions is not None:
        basis = np.concatenate((basis, directions.T))
    inside, weighted = basis[:, used], basis[:, used] * weights[used]
    normal = np.einsum("ip,jp->ij", weighted, inside)
    rhs = np.einsum("ip,p->i", weighted, values[used])
    found: FloatArray = values - np.einsum("i,ip->p", np.linalg.lstsq(normal, rhs, rcond=None)[0], basis)
    return found
