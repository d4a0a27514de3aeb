"""Maps as FITS images: CAR and flat patches, and numbered pixels with an image layout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import FloatArray
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.image import AXES, ImagePixels
from petamap.sky.map_conventions import UNSEEN
from petamap.sky.map_units import unit_card
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization

_PATCHES: dict[str, type[CarPatch] | type[FlatPatch]] = {"CAR": CarPatch, "TAN": FlatPatch}


def map_image_shape(pixelization: Pixelization) -> tuple[int, int] | None:
    """Return (rows, columns) of the image of a map; None for maps written as tables."""
    if isinstance(pixelization, NumberedPixels):
        return None if pixelization.layout is None else pixelization.layout.shape
    return pixelization.shape if isinstance(pixelization, ImagePixels) else None


def image_hdu(
    pixelization: Pixelization, names: tuple[str, ...], units: tuple[str, ...], frame: str | None
) -> Any:
    """Return the image HDU of a map, one plane per column, with placeholder values that take no memory.

    Stokes parameters are a FITS axis; the cards PLANEn name the planes.
    """
    from astropy.io import fits

    assert isinstance(pixelization, ImagePixels | NumberedPixels), "other pixelizations are written as tables"
    hdu = fits.PrimaryHDU(np.broadcast_to(0.0, (len(names), *(map_image_shape(pixelization) or ()))))
    header = hdu.header
    for name, value in _cards(pixelization, frame).items():
        header[name] = value
    joined = "".join(names)
    if joined in "IQU" and all(len(name) == 1 for name in names):
        header["CTYPE3"], header["CRPIX3"], header["CDELT3"] = "STOKES", 1.0, 1.0
        header["CRVAL3"] = ("IQU".index(joined) + 1.0, "I 1, Q 2, U 3")
    for i, (name, unit) in enumerate(zip(names, units, strict=True), 1):
        header[f"PLANE{i}"] = (name, "what the plane holds")
        header[f"TUNIT{i}"] = (unit_card(unit), "its unit")
    if len(set(units)) == 1 and units[0]:
        header["BUNIT"] = unit_card(units[0])
    return hdu


def _cards(pixelization: ImagePixels | NumberedPixels, frame: str | None) -> dict[str, Any]:
    if isinstance(pixelization, ImagePixels):
        return dict(pixelization.wcs_cards(frame))
    return dict(pixelization.layout.header) if pixelization.layout else {}


def is_map_image(hdu: Any) -> bool:
    """Return whether an HDU is an image in CAR or TAN projection."""
    header = hdu.header
    return (
        header.get("XTENSION", "IMAGE").strip() == "IMAGE"
        and int(header.get("NAXIS", 0)) >= 2
        and str(header.get("CTYPE1", "")).strip()[-3:] in _PATCHES
    )


def image_columns(hdu: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names and the units of the planes."""
    header = hdu.header
    n_planes = math.prod(int(header[f"NAXIS{axis}"]) for axis in range(3, int(header["NAXIS"]) + 1))
    stokes = str(header.get("CTYPE3", "")).strip().upper() == "STOKES"
    names, units = [], []
    for i in range(n_planes):
        code = header.get("CRVAL3", 1.0) + (i + 1 - header.get("CRPIX3", 1.0)) * header.get("CDELT3", 1.0)
        by_axis = "IQU"[round(code) - 1] if stokes and round(code) in (1, 2, 3) else f"PLANE_{i + 1}"
        names.append(str(header.get(f"PLANE{i + 1}", by_axis)).strip())
        units.append(str(header.get(f"TUNIT{i + 1}", header.get("BUNIT", ""))).strip())
    return tuple(names), tuple(units)


def load_image(hdu: Any, chosen: list[int], where: str) -> tuple[FloatArray, ImagePixels]:
    """Return the values of the chosen planes, float64 (n_chosen, n_pix), and the pixelization.

    Raises
    ------
    DataError
        If the projection is rotated or oblique. `where` names the HDU.
    """
    pixelization = _patch(hdu.header, where)
    planes = np.asarray(hdu.data).reshape(-1, pixelization.n_pix)
    values = planes[chosen].astype(np.float64)
    values[np.abs(values - UNSEEN) <= 1e-5 * abs(UNSEEN)] = np.nan
    return values, pixelization


def image_frame(hdu: Any) -> str | None:
    """Return the coordinate frame given by the names of the axes, or None."""
    axis = str(hdu.header["CTYPE1"])[:4]
    return next((frame for frame, (lon, _) in AXES.items() if lon == axis), None)


def _patch(header: Any, where: str) -> ImagePixels:
    cls = _PATCHES[str(header["CTYPE1"]).strip()[-3:]]
    if str(header.get("CTYPE2", "")).strip()[-3:] != cls.projection:
        raise DataError(f"axes {header['CTYPE1']} and {header.get('CTYPE2')} do not go together", where=where)
    crval = (float(header.get("CRVAL1", 0)), float(header.get("CRVAL2", 0)))
    default = 180.0 if cls is FlatPatch and crval[1] < 90 else 0.0
    rotated = [
        name
        for name in ("CROTA1", "CROTA2", "PC1_2", "PC2_1", "CD1_2", "CD2_1", "PC001002", "PC002001")
        if header.get(name, 0)
    ]
    if rotated or float(header.get("LONPOLE", default)) != cls.lonpole:
        raise DataError(
            f"the image is rotated ({', '.join(rotated) or 'LONPOLE'})",
            where=where,
            mend="resample it with north up",
        )
    crpix = (float(header.get("CRPIX1", 0)), float(header.get("CRPIX2", 0)))
    try:
        cdelt = (_step(header, 1), _step(header, 2))
        return cls(crval, crpix, cdelt, (int(header["NAXIS2"]), int(header["NAXIS1"])))
    except (ConfigError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"no usable world coordinates: {error}", where=where) from error


def _step(header: Any, axis: int) -> float:
    if f"CD{axis}_{axis}" in header:
        return float(header[f"CD{axis}_{axis}"])
    return float(header[f"CDELT{axis}"]) * float(header.get(f"PC{axis}_{axis}", 1.0))
