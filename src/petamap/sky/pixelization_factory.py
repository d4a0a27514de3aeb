"""Construction of pixelizations from their descriptions: the inverse of `Pixelization.describe`."""

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


def make_pixelization(description: Mapping[str, object]) -> Pixelization:
    """Return the pixelization of a description.

    Parameters
    ----------
    description : mapping
        ``kind`` (healpix, car, flat, numbered) and its parameters: ``n_side`` and ``ordering`` for healpix;
        ``crval_deg``, ``crpix``, ``cdelt_deg`` and ``shape`` for car and flat; ``n_pix`` for numbered. The
        image layout of numbered pixels is not part of a description.

    Returns
    -------
    Pixelization

    Raises
    ------
    ConfigError
        For an unknown kind, an unknown or missing parameter, or a wrong value.
    """
    parameters = dict(description)
    kind = str(parameters.pop("kind", ""))
    if kind not in _FACTORIES:
        raise ConfigError(f"unknown pixelization '{kind}'", mend=did_you_mean(kind, list(_FACTORIES)))
    factory, required, optional = _FACTORIES[kind]
    for name in parameters:
        if name not in required + optional:
            mend = did_you_mean(name, [*required, *optional])
            raise ConfigError(f"unknown parameter '{name}' of pixelization '{kind}'", mend=mend)
    missing = [name for name in required if name not in parameters]
    if missing:
        raise ConfigError(f"pixelization '{kind}' needs {', '.join(missing)}")
    try:
        return factory(parameters)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"pixelization '{kind}': {error}") from error


def _healpix(parameters: dict[str, Any]) -> Pixelization:
    ordering = parameters.get("ordering", "ring")
    if ordering not in ("ring", "nested"):
        raise ConfigError(
            f"unknown ordering '{ordering}'", mend=did_you_mean(str(ordering), ["ring", "nested"])
        )
    return Healpix(parameters["n_side"], nest=ordering == "nested")


def _image(cls: type[ImagePixels]) -> Callable[[dict[str, Any]], Pixelization]:
    def factory(parameters: dict[str, Any]) -> Pixelization:
        crval, crpix, cdelt, shape = (tuple(parameters[name]) for name in IMAGE_PARAMETERS)
        return cls(crval, crpix, cdelt, shape)

    return factory


IMAGE_PARAMETERS = ("crval_deg", "crpix", "cdelt_deg", "shape")
_Factory = Callable[[dict[str, Any]], Pixelization]
# by kind: factory, required parameters, optional parameters
_FACTORIES: dict[str, tuple[_Factory, tuple[str, ...], tuple[str, ...]]] = {
    "healpix": (_healpix, ("n_side",), ("ordering",)),
    "car": (_image(CarPatch), IMAGE_PARAMETERS, ()),
    "flat": (_image(FlatPatch), IMAGE_PARAMETERS, ()),
    "numbered": (lambda parameters: NumberedPixels(parameters["n_pix"]), ("n_pix",), ("image_shape",)),
}
