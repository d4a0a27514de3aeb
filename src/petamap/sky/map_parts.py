"""HEALPix maps in the other order, with all pixels of the sky, or with those observed alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from petacomm.base.errors import ConfigError
from petamap.sky.healpix import Healpix
from petamap.sky.map_exchange import in_order
from petamap.sky.partial_healpix import PartialHealpix

if TYPE_CHECKING:
    from petamap.sky.sky_map import SkyMap


def whole_map(sky_map: SkyMap) -> SkyMap:
    """Return a map with all pixels of the sky, nan where it has none; other maps as they are."""
    own = sky_map.pixelization
    if not isinstance(own, PartialHealpix):
        return sky_map
    values = np.full((len(sky_map.values), own.sky.n_pix), np.nan)
    values[:, own.pixels] = sky_map.values
    return replace(sky_map, values=values, pixelization=own.sky)


def partial_map(sky_map: SkyMap) -> SkyMap:
    """Return a map of the pixels alone that have a value in some column.

    Raises
    ------
    ConfigError
        If it is no HEALPix map, or no pixel has a value.
    """
    own, seen = sky_map.pixelization, np.isfinite(sky_map.values).any(axis=0)
    if not isinstance(own, Healpix | PartialHealpix):
        raise ConfigError("only HEALPix maps have parts", mend="cut images by their arrays")
    if not seen.any():
        raise ConfigError("no pixel of the map has a value")
    numbers = np.flatnonzero(seen)
    pixels = numbers if isinstance(own, Healpix) else own.pixels[numbers]
    part = PartialHealpix(own.n_side, pixels, own.nest)
    return replace(sky_map, values=sky_map.values[:, numbers], pixelization=part)


def reordered_map(sky_map: SkyMap) -> SkyMap:
    """Return a map in the other order of HEALPix.

    Raises
    ------
    ConfigError
        If it is no HEALPix map.
    """
    own = sky_map.pixelization
    if isinstance(own, PartialHealpix):
        part, order = own.reordered()
        return replace(sky_map, values=sky_map.values[:, order], pixelization=part)
    if not isinstance(own, Healpix):
        raise ConfigError("only HEALPix maps have two orders")
    other = Healpix(own.n_side, not own.nest)
    return replace(sky_map, values=in_order(sky_map.values, own, other.nest), pixelization=other)
