"""Pixelizations by description: the inverse of `Pixelization.describe`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from petacomm.base.errors import ConfigError, did_you_mean
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.image import ImagePixels
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization


def pixelization_of(description: Mapping[str, object]) -> Pixelization:
    """Make the pixelization that describes itself so.

    Parameters
    ----------
    description : mapping
        ``kind`` (healpix, car, flat, numbered) and its parameters: ``n_side`` and ``ordering``;
        ``crval_deg``, ``crpix``, ``cdelt_deg`` and ``shape``; or ``n_pix``. The image layout of numbered
        pixels is not part of a description.

    Raises
    ------
    ConfigError
        For an unknown kind, an unknown or missing parameter, or a wrong value.
    """
    said = dict(description)
    kind = str(said.pop("kind", ""))
    if kind not in _MAKERS:
        raise ConfigError(f"unknown pixelization '{kind}'", mend=did_you_mean(kind, list(_MAKERS)))
    maker, needed, optional = _MAKERS[kind]
    for name in said:
        if name not in needed + optional:
            mend = did_you_mean(name, [*needed, *optional])
            raise ConfigError(f"unknown parameter '{name}' of pixelization '{kind}'", mend=mend)
    missing = [name for name in needed if name not in said]
    if missing:
        raise ConfigError(f"pixelization '{kind}' needs {', '.join(missing)}")
    try:
        return maker(said)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"pixelization '{kind}': {error}") from error


def _healpix(said: dict[str, Any]) -> Pixelization:
    ordering = said.get("ordering", "ring")
    if ordering not in ("ring", "nested"):
        raise ConfigError(
            f"unknown ordering '{ordering}'", mend=did_you_mean(str(ordering), ["ring", "nested"])
        )
    return Healpix(said["n_side"], nest=ordering == "nested")


def _image(cls: type[ImagePixels]) -> Callable[[dict[str, Any]], Pixelization]:
    def make(said: dict[str, Any]) -> Pixelization:
        crval, crpix, cdelt, shape = (tuple(said[name]) for name in IMAGE_PARAMETERS)
        return cls(crval, crpix, cdelt, shape)

    return make


IMAGE_PARAMETERS = ("crval_deg", "crpix", "cdelt_deg", "shape")
_Maker = Callable[[dict[str, Any]], Pixelization]
# how each kind is made, its needed and its optional parameters
_MAKERS: dict[str, tuple[_Maker, tuple[str, ...], tuple[str, ...]]] = {
    "healpix": (_healpix, ("n_side",), ("ordering",)),
    "car": (_image(CarPatch), IMAGE_PARAMETERS, ()),
    "flat": (_image(FlatPatch), IMAGE_PARAMETERS, ()),
    "numbered": (lambda said: NumberedPixels(said["n_pix"]), ("n_pix",), ("image_shape",)),
}
