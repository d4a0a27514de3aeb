"""Submaps: runs of pixels of equal length into which a map is divided, and of which a part is held.

The term, and the idea, are those of TOAST's distributed maps (Kisner et al., https://toast-cmb.readthedocs.io).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import AnyArray, BoolArray, FloatArray, Int64Array
from petamap.sky.healpix import Healpix

_AT_ONCE = 1 << 20  # crossings of discs and rings that are computed at once
_LONGEST = 64  # submaps of the length of this part of n_side, at most: 1.4 degrees on a ring


class Submaps:
    """Submaps of a map that are held, one after the other, as rows of an array.

    Parameters
    ----------
    held : bool (n_submaps,)
        Those that are.
    size : int
        Pixels of each, a power of two.

    Examples
    --------
    >>> import numpy as np
    >>> held = Submaps(np.array([False, True, False]), 4)
    >>> held.n_rows, held.rows_of(np.array([4, 7, -1])).tolist()
    (4, [0, 3, -1])
    """

    def __init__(self, held: BoolArray, size: int) -> None:
        self.held, self.size = held, size
        self._shift, numbers = size.bit_length() - 1, np.flatnonzero(held)
        self.n_rows = size * len(numbers)
        # first row of each submap; -2 size where there is none, and -size at -1, the pixel -1
        self._first = np.full(len(held) + 1, -2 * size, np.int32)
        self._first[numbers] = size * np.arange(len(numbers), dtype=np.int32)
        self._first[-1] = -size

    @property
    def pixels(self) -> Int64Array:
        """Numbers of the pixels that are held, in the order of rows, int64 (n_rows,)."""
        found: Int64Array = np.flatnonzero(self.held)[:, None] * self.size + np.arange(self.size)
        return found.reshape(-1)

    def rows_of(self, pixels: AnyArray) -> AnyArray:
        """Return the row of each pixel, of the shape and dtype of `pixels`, which is signed.

        -1 for the number -1, which is no pixel; below -1 for a pixel that is not held.
        """
        # a third of the time of an index, which would look for numbers beyond the end
        rows: AnyArray = np.take(self._first, pixels >> self._shift, mode="wrap") + (pixels & (self.size - 1))
        return rows


def submap_size(pixelization: Healpix) -> int:
    """Return the number of pixels of the submaps of a HEALPix map: a power of two that divides its pixels."""
    longest = max(pixelization.n_side // _LONGEST, 1)
    if pixelization.nest:
        return 1 << 2 * (longest.bit_length() - 1)
    n_pix = pixelization.n_pix
    return min(1 << (longest.bit_length() - 1), n_pix & -n_pix)


def submaps_of_discs(pixelization: Healpix, centres: FloatArray, radius: float) -> Submaps:
    """Return the submaps with a pixel whose centre lies in one of some discs, and few others.

    Parameters
    ----------
    pixelization : Healpix
    centres : float64 (n, 3)
        Unit vectors.
    radius : float
        Of all discs, radians.
    """
    size = submap_size(pixelization)
    if not pixelization.nest:
        return Submaps(_runs_in_discs(pixelization.n_side, centres, radius, size), size)
    # a submap is a pixel of a coarser map, of which a part lies in a disc
    coarse = Healpix(int(pixelization.n_side // size**0.5), nest=True)
    in_rings = _runs_in_discs(coarse.n_side, centres, radius + pixel_radius(coarse.n_side), 1)
    return Submaps(in_rings[coarse.reordered(np.arange(coarse.n_pix))], size)


def pixel_radius(n_side: int) -> float:
    """Return what no point of a HEALPix pixel is farther from its centre, radians."""
    return 1.2 / n_side  # 0.84 / n_side at n_side 1, less than 1.08 / n_side at any


def _runs_in_discs(n_side: int, centres: FloatArray, radius: float, size: int) -> BoolArray:
    """Return which runs of `size` pixels in ring order have a pixel whose centre lies in a disc."""
    import ducc0

    info, radius = ducc0.healpix.Healpix_Base(n_side, "RING").sht_info(), min(radius, np.pi)
    n_phi, starts = info["nphi"].astype(np.int64), info["ringstart"].astype(np.int64)
    begins = np.zeros(12 * n_side**2 // size + 1, np.int32)
    for disc, ring in _crossings(info["theta"], centres, radius):
        theta, x, y, z = info["theta"][ring], *centres[disc].T
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = (np.cos(radius) - np.cos(theta) * z) / (np.sin(theta) * np.hypot(x, y))
        half = np.arccos(np.clip(np.nan_to_num(cosine, nan=-1.0), -1.0, 1.0))
        # pixels [first, first + n) of the ring, and one on either side, for rounding
        per_radian, middle = n_phi[ring] / (2 * np.pi), np.arctan2(y, x) - info["phi0"][ring]
        first = np.floor((middle - half) * per_radian).astype(np.int64) - 1
        n = np.minimum(np.ceil((middle + half) * per_radian).astype(np.int64) + 2 - first, n_phi[ring])
        first %= n_phi[ring]
        beyond = np.maximum(first + n - n_phi[ring], 0)
        for begin, count in ((first, n - beyond), (np.zeros_like(first), beyond)):
            some = count > 0
            run = starts[ring] + begin
            np.add.at(begins, run[some] // size, 1)
            np.add.at(begins, (run + count - 1)[some] // size + 1, -1)
    return np.cumsum(begins[:-1]) > 0


def _crossings(
    theta: FloatArray, centres: FloatArray, radius: float
) -> Iterator[tuple[Int64Array, Int64Array]]:
    """Yield numbers of discs and of rings that they cross, some discs at a time."""
    colatitudes = np.arctan2(np.hypot(centres[:, 0], centres[:, 1]), centres[:, 2])
    first = np.searchsorted(theta, colatitudes - radius)
    n = np.searchsorted(theta, colatitudes + radius, "right") - first
    step = max(_AT_ONCE // int(n.max(initial=1)), 1)
    for begin in range(0, len(centres), step):
        part = n[begin : begin + step]
        place = np.arange(int(part.sum())) - np.repeat(np.cumsum(part) - part, part)
        disc = begin + np.repeat(np.arange(len(part)), part)
        yield disc, first[disc] + place
