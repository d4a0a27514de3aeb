"""Parents of pixels: groups of neighbours."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import Int64Array
from petamap.sky.healpix import Healpix
from petamap.sky.image import ImagePixels
from petamap.sky.numbered import NumberedPixels
from petamap.sky.part_pixels import PartPixels
from petamap.sky.pixelization import Pixelization


def parent_pixels(pixelization: Pixelization, pixels: Int64Array, level: int, start: int = 0) -> Int64Array:
    """Return the parent that each pixel lies in, int64 (n,).

    A level puts four neighbours together: those with one parent in a nested HEALPix map, or a square of two
    by two in an image. Pixels without positions, and those in ring order, go by number. Pixels of different
    parts of the data have no parent in common.

    Parameters
    ----------
    pixelization : Pixelization
    pixels : int64 (n,)
        Numbers of pixels of the level `start`.
    level : int
        Of the result, at least `start`; 0 is the pixelization itself.
    start : int
    """
    if level == start == 0:
        return pixels
    if isinstance(pixelization, PartPixels):
        sky = pixelization.sky
        parts, own = np.divmod(pixels, _n_parents(sky, start))
        return parts * _n_parents(sky, level) + parent_pixels(sky, own, level, start)
    if isinstance(pixelization, NumberedPixels) and pixelization.layout is not None:
        places = pixelization.layout.index[pixels] if start == 0 else pixels
        return _squares(places, pixelization.layout.shape[1], level, start)
    if isinstance(pixelization, ImagePixels):
        return _squares(pixels, pixelization.shape[1], level, start)
    in_order = not isinstance(pixelization, Healpix) or pixelization.nest
    return pixels >> ((2 if in_order else 1) * (level - start))


def _n_parents(pixelization: Pixelization, level: int) -> int:
    """Return a number that exceeds those of all parents."""
    if level == 0:
        return pixelization.n_pix
    if isinstance(pixelization, NumberedPixels) and pixelization.layout is not None:
        n_rows, n_columns = pixelization.layout.shape
        return int(_squares(np.array([n_rows * n_columns - 1]), n_columns, level, 0)[0]) + 1
    return int(parent_pixels(pixelization, np.array([pixelization.n_pix - 1]), level)[0]) + 1


def _squares(places: Int64Array, n_columns: int, level: int, start: int) -> Int64Array:
    rows, columns = np.divmod(places.astype(np.int64), _width(n_columns, start))
    up = level - start
    return (rows >> up) * _width(n_columns, level) + (columns >> up)


def _width(n_columns: int, level: int) -> int:
    """Return the number of columns of a level, of which the last may lie partly outside."""
    return -(-n_columns >> level) if level else n_columns
