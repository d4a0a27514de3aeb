"""Weights of pixels: apodized masks, and the fraction of the sky that they leave."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from typing import Literal

import numpy as np

from petacomm.base.arguments import real_array
from petacomm.base.errors import ConfigError
from petacomm.base.exact import add_exactly, round_limbs, zero_limbs
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petacomm.mpi import Communicator, agree_on_errors
from petamap.sky.harmonics import analyse, in_ring_order, multipoles, synthesise
from petamap.sky.healpix import Healpix
from petamap.sky.ring_distribution import RingDistribution
from petamap.sky.submaps import pixel_radius, submaps_of_discs
from petamap.spectra.transforms import check_weights

Apodization = Literal["C1", "C2", "smooth"]
APODIZATIONS: tuple[Apodization, ...] = ("C1", "C2", "smooth")
_PIECE = 1 << 16  # pixels whose directions are in work at once
_SEARCHED = 1 << 18  # pixels whose neighbours are looked for at once
_CELLS = Healpix(64)  # by which it is known which masked pixels may be near, of finer maps
_SMOOTHNESS = 5  # the power of the kernel that edges are convolved with


def distance_to_masked(
    mask: FloatArray,
    pixelization: Healpix,
    n_threads: int = 1,
    reach: float = math.pi,
    rings: RingDistribution | None = None,
) -> FloatArray:
    """Return the angle from each pixel's centre to the nearest centre of a pixel that is masked.

    Parameters
    ----------
    mask : float64 (n_pix,)
        Zero where masked.
    pixelization : Healpix
    n_threads : int
    reach : float
        Radians; pixels farther away are not searched, which is much faster.
    rings : RingDistribution, optional
        Whose pixels the mask is of. Collective: each rank finds those of its own that are masked near by.

    Returns
    -------
    float64 (n_pix,)
        Radians along a great circle; 0 where masked, pi where nothing is within `reach`.
    """
    found = np.zeros(len(mask))
    inside, distances = _distances_inside(
        mask, pixelization, n_threads, reach, rings or RingDistribution(pixelization.n_side)
    )
    found[inside] = distances
    return found


def _distances_inside(
    mask: FloatArray, pixelization: Healpix, n_threads: int, reach: float, rings: RingDistribution
) -> tuple[Int64Array, FloatArray]:
    """Return the places of pixels that are not masked, and their distances as `distance_to_masked` has them.

    Collective.
    """
    from scipy.spatial import cKDTree

    inside, limit = np.flatnonzero(mask > 0), 2 * math.sin(reach / 2) + 1e-9
    directions = pixelization.directions_of(rings.numbers_of(inside), n_threads)
    masked = _masked_near(mask, directions, pixelization, reach, rings)
    own = pixelization.directions_of(rings.numbers_of(masked), n_threads)
    near = np.full(len(inside), np.inf)
    for rank in range(rings.comm.size):
        points = rings.comm.bcast(own if rank == rings.comm.rank else None, rank)
        tree = cKDTree(points) if len(points) else None
        if tree is None:
            continue
        for first in range(0, len(inside), _SEARCHED):  # signals are raised between two
            piece = slice(first, first + _SEARCHED)
            chords, _ = tree.query(directions[piece], workers=n_threads, distance_upper_bound=limit)
            near[piece] = np.minimum(near[piece], chords)
    return inside, np.where(np.isinf(near), math.pi, 2 * np.arcsin(np.minimum(near / 2, 1.0)))


def _masked_near(
    mask: FloatArray, directions: FloatArray, pixelization: Healpix, reach: float, rings: RingDistribution
) -> Int64Array:
    """Return the places of masked pixels, of large maps of those that are near what is not. Collective.

    Parameters
    ----------
    mask : float64 (n_pix,)
    directions : float64 (n, 3)
        Of this rank's pixels that are not masked.
    reach : float
        Within which all are found, radians.
    """
    if pixelization.n_side <= _CELLS.n_side:
        return np.flatnonzero(mask <= 0)
    cells, numbers = np.zeros(_CELLS.n_pix, np.uint8), np.empty(len(directions), np.int32)
    _CELLS.pixels_of(directions, numbers)
    cells[numbers] = 1
    used = np.flatnonzero(rings.comm.allreduce(cells, "max"))
    around = reach + pixel_radius(_CELLS.n_side)
    submaps = submaps_of_discs(pixelization, _CELLS.directions_of(used), around)
    found = [np.empty(0, np.int64)]
    for first in range(0, len(mask), _SEARCHED):
        places = first + np.flatnonzero(mask[first : first + _SEARCHED] <= 0)
        found.append(places[submaps.rows_of(rings.numbers_of(places)) >= 0])
    return np.concatenate(found)


def apodize(
    mask: FloatArray,
    pixelization: Healpix,
    width: float,
    kind: Apodization = "C2",
    n_threads: int = 1,
    band_limited: bool = False,
    rings: RingDistribution | None = None,
) -> FloatArray:
    """Return a mask with soft edges, which rise from 0 to 1 inside those it has, over `width`.

    With x^2 = (1 - cos d) / (1 - cos width), d the distance to the nearest masked pixel, and x < 1, the
    mask is multiplied by x - sin(2 pi x) / 2 pi (C1) or (1 - cos pi x) / 2 (C2) (Grain, Tristram & Stompor
    2009, section III). ``smooth`` masks all within half of `width` and convolves with a kernel
    (1 - sin^2(t / 2) / sin^2(r / 2))^5 that ends at r = width / 2, with four continuous derivatives there.

    Distances to pixels are rough on the scale of pixels, and C2 has a second derivative that jumps: pixels
    do not hold the derivatives of such edges. `band_limited` gives C1 and C2 the middle third of
    `width` and convolves them with that kernel of r = width / 3.

    Parameters
    ----------
    mask : float64 (n_pix,)
        At least 0; 0 where masked.
    pixelization : Healpix
    width : float
        Radians.
    kind : {"C1", "C2", "smooth"}
    n_threads : int
    band_limited : bool
        Whether derivatives of the edges are to be taken, as pure components need.
    rings : RingDistribution, optional
        Whose pixels the mask is of, in ring order: collective on its communicator. By default it is whole.

    Returns
    -------
    float64 (n_pix,)

    Raises
    ------
    ConfigError
        For a width that is negative or more than pi, or another kind.
    DataError
        If the mask does not fit the pixels, is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> pixels = petamap.Healpix(16)
    >>> north = pixels.directions_of(np.arange(pixels.n_pix))[:, 2] > 0
    >>> soft = petamap.apodize(north.astype(float), pixels, np.radians(20))
    >>> bool(0 < soft.mean() < north.mean())
    True
    """
    rings = rings or RingDistribution(pixelization.n_side)
    with agree_on_errors(rings.comm):
        check_weights(mask, pixelization, "the mask", rings)
        mask = real_array(mask, "the mask")
    if not 0 <= width <= math.pi:
        raise ConfigError(f"the width of apodization {width} is not between 0 and pi radians")
    if kind not in APODIZATIONS:
        raise ConfigError(f"no apodization '{kind}'", mend=f"one of {', '.join(APODIZATIONS)}")
    if width == 0:
        return mask.copy()
    radius = width / 2 if kind == "smooth" else width / 3 if band_limited else 0.0
    inside, distances = _distances_inside(mask, pixelization, n_threads, width, rings)
    soft = np.zeros(len(mask))
    soft[inside] = mask[inside] * _edge(distances - radius, width - 2 * radius, kind)
    return soft if radius == 0 else _convolved(soft, pixelization, rings, radius, n_threads) * (mask > 0)


def _edge(distance: FloatArray, width: float, kind: Apodization) -> FloatArray:
    if kind == "smooth":
        return np.where(distance > 0, 1.0, 0.0)
    x = np.sin(np.clip(distance, 0, width) / 2) / math.sin(width / 2)
    return x - np.sin(2 * np.pi * x) / (2 * np.pi) if kind == "C1" else 0.5 * (1 - np.cos(np.pi * x))


def _convolved(
    values: FloatArray, pixelization: Healpix, rings: RingDistribution, radius: float, n_threads: int
) -> FloatArray:
    """Return weights convolved with the kernel of `apodize`, with negative ringing clipped. Collective."""
    l_max = 3 * pixelization.n_side - 1
    alm = analyse(in_ring_order(values, pixelization), rings, l_max, 0, n_threads=n_threads)
    alm *= _kernel(radius, l_max)[multipoles(l_max, rings).astype(np.int64)]
    soft = synthesise(alm, rings, l_max, 0, n_threads)[0]
    if pixelization.nest:
        soft = soft[pixelization.reordered(np.arange(pixelization.n_pix))]
    clipped: FloatArray = np.clip(soft, 0.0, rings.comm.max(float(values.max(initial=0.0))))
    return clipped


def _kernel(radius: float, l_max: int) -> FloatArray:
    """Return the harmonics of the kernel of `apodize`, over that of l = 0, float64 (l_max + 1,)."""
    nodes, weights = np.polynomial.legendre.leggauss(64 + int(l_max * radius))
    angle = 0.5 * radius * (nodes + 1)
    profile = (1 - (np.sin(angle / 2) / math.sin(radius / 2)) ** 2) ** _SMOOTHNESS * np.sin(angle) * weights
    cosine, before, legendre = np.cos(angle), np.zeros_like(angle), np.ones_like(angle)
    found = np.empty(l_max + 1)
    for l in range(l_max + 1):  # noqa: E741
        found[l] = np.sum(profile * legendre)
        before, legendre = legendre, ((2 * l + 1) * cosine * legendre - l * before) / (l + 1)
    found /= found[0]
    return found


def sky_fraction(weights: FloatArray, power: int = 1) -> float:
    """Return the mean of the weights to a power: f_sky w_i of Hivon et al. 2002, equation 13."""
    return float(np.mean(weights**power))


def effective_fraction(first: FloatArray, second: FloatArray | None = None) -> float:
    """Return f_sky w_2^2 / w_4: the fraction of modes that weights leave (Hivon et al. 2002)."""
    weights = first * (first if second is None else second)
    fourth = float(np.mean(weights**2))
    return float(np.mean(weights)) ** 2 / fourth if fourth > 0 else 0.0


def effective_fractions(first: Iterable[FloatArray], second: Iterable[FloatArray]) -> dict[str, float]:
    """Return `effective_fraction` of weights of I and of Q, U, for ``TT``, ``TP``, ``PT`` and ``PP``."""
    pairs = product(zip("TP", first, strict=True), zip("TP", second, strict=True))
    return {a + b: effective_fraction(one, other) for (a, one), (b, other) in pairs}


def subtract_monopole(
    values: FloatArray,
    weights: FloatArray,
    directions: FloatArray | None,
    comm: Communicator | None = None,
) -> FloatArray:
    """Return a map without its mean and, given `directions` (n_pix, 3), without its dipole.

    They are fitted where the weights are above 0, with equal weights: a fit that weighs some pixels more
    removes more of the low multipoles (on 62 % of the sky, weights that vary sevenfold cost 15 % of C_l at
    l = 2 to 5, equal ones 2.5 %). Pixels of weight 0 get the same offset. Sums over pixels are exact, so that
    their bits do not depend on which pixels the ranks of `comm` have. Collective on it.
    """
    size = 1 if directions is None else 4
    limbs, used = zero_limbs(size, size + 1), (weights > 0) & np.isfinite(values)
    for first in range(0, len(values), _PIECE):
        piece = slice(first, first + _PIECE)
        inside = used[piece]
        columns = _monopole_and_dipole(inside, None if directions is None else directions[piece])
        for i, j in product(range(size), range(size + 1)):
            other = values[piece][inside] if j == size else columns[j]
            add_exactly(columns[i] * other, limbs[i, j])
    limbs = limbs if comm is None else comm.allreduce(limbs)
    sums = np.array([[round_limbs(one) for one in row] for row in limbs])
    if sums[0, 0] == 0:
        return values
    factors = np.linalg.lstsq(sums[:, :-1], sums[:, -1], rcond=None)[0]
    found: FloatArray = values - factors[0]
    if directions is not None:
        for first in range(0, len(values), _PIECE):
            for axis, factor in enumerate(factors[1:]):
                found[first : first + _PIECE] -= factor * directions[first : first + _PIECE, axis]
    return found


def _monopole_and_dipole(used: BoolArray, directions: FloatArray | None) -> FloatArray:
    """Return 1 and, given directions (n, 3), their components, of the pixels used: (1 or 4, n_used)."""
    basis = np.ones((1, int(used.sum())))
    return basis if directions is None else np.concatenate((basis, directions[used].T))
