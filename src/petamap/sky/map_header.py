"""FITS headers of map files, made without the values, which ranks write in slabs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from petacomm.base.arguments import require_text
from petacomm.base.errors import ConfigError, DataError, ResourceError, did_you_mean
from petamap.sky.checked_fits import open_fits
from petamap.sky.checksum import checksum_card, fold_carries, word_sum
from petamap.sky.healpix import Healpix
from petamap.sky.image import ImagePixels
from petamap.sky.map_conventions import FRAME_LETTERS
from petamap.sky.map_data import MapDataLayout
from petamap.sky.map_image import image_hdu, map_image_shape
from petamap.sky.map_table import table_header
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization


@dataclass(frozen=True)
class MapHeader:
    """Headers of a map file: all bytes before the values.

    Attributes
    ----------
    headers : tuple of astropy.io.fits.Header
        Headers of the HDUs without checksums; the values belong to the last HDU.
    data : MapDataLayout
        Layout of the values in the file.
    """

    headers: tuple[Any, ...]
    data: MapDataLayout

    def to_bytes(self, data_sum: int) -> bytes:
        """Return the bytes of the headers; `data_sum` is the `word_sum` of all values."""
        return _to_bytes(self.headers, data_sum)


def file_origin(path: Path) -> tuple[str, str]:
    """Return the run that a FITS file says it is from, and the kind of product that it says it is.

    Each is empty if the file does not say, or cannot be read.
    """
    cards = ("RUNID", "PRODUCT")
    try:
        with open_fits(path) as hdus:
            headers = [hdu.header for hdu in hdus]
            run_id, kind = (next((str(one[card]) for one in headers if card in one), "") for card in cards)
    except (DataError, ResourceError):
        return "", ""
    return run_id, kind


def make_map_header(
    pixelization: Pixelization,
    *,
    names: Sequence[str],
    unit: str | Sequence[str],
    run_id: str,
    frame: str | None = None,
    n_observed: int | None = None,
    cards: Mapping[str, object] | None = None,
) -> MapHeader:
    """Return the headers of a map file and the layout of its values.

    Parameters
    ----------
    pixelization, names, unit, run_id, cards
        See `petamap.sky.map_file.write_map`.
    frame : str, optional
        equatorial, galactic or ecliptic; without one, the file says none.
    n_observed : int, optional
        Number of rows of a partial HEALPix map, which has observed pixels only.

    Raises
    ------
    ConfigError
        If the arguments do not match, or the pixelization has no map files.
    """
    units = (unit,) * len(names) if isinstance(unit, str) else tuple(unit)
    if len(units) != len(names):
        raise ConfigError(f"{len(units)} units for {len(names)} columns")
    for word in (*names, *units):
        require_text(word, "names and units")
    _check(pixelization, frame, n_observed)
    shape = map_image_shape(pixelization)
    if shape is not None:
        headers = [image_hdu(pixelization, tuple(names), units, frame).header]
        n_rows = shape[0] * shape[1]
    else:
        headers = [_empty_primary(), table_header(pixelization, tuple(names), units, n_observed)]
        n_rows = pixelization.n_pix if n_observed is None else n_observed
    _complete(headers, frame, {"RUNID": (run_id, "run that made this map"), **(cards or {})})
    begin = len(_to_bytes(headers, 0))
    return MapHeader(
        tuple(headers), MapDataLayout(begin, n_rows, len(names), shape is None, n_observed is not None)
    )


def _check(pixelization: Pixelization, frame: str | None, n_observed: int | None) -> None:
    if not isinstance(pixelization, Healpix | ImagePixels | NumberedPixels):
        raise ConfigError(f"no map files of pixelization {pixelization.describe().get('kind')}")
    if frame is not None and frame not in FRAME_LETTERS:
        raise ConfigError(f"unknown frame '{frame}'", mend=did_you_mean(str(frame), list(FRAME_LETTERS)))
    if n_observed is not None and not isinstance(pixelization, Healpix):
        raise ConfigError("only HEALPix maps can be partial")


def _empty_primary() -> Any:
    """Return the header of a primary HDU without values, before a table."""
    from astropy.io import fits

    return fits.Header([
        ("SIMPLE", True, "conforms to FITS standard"),
        ("BITPIX", 8, "array data type"),
        ("NAXIS", 0, "number of array dimensions"),
        ("EXTEND", True),
    ])  # fmt: skip


def _complete(headers: Sequence[Any], frame: str | None, cards: Mapping[str, object]) -> None:
    """Add to the last header what all map files say, and to each who wrote it."""
    if frame is not None:
        headers[-1]["COORDSYS"] = (FRAME_LETTERS[frame], frame)
    headers[-1]["POLCCONV"] = ("COSMO", "polarization convention")
    for name, value in cards.items():
        headers[-1][name] = value
    for header in headers:
        header["CREATOR"] = "petamap"


def _to_bytes(headers: Sequence[Any], data_sum: int) -> bytes:
    sums = [0] * (len(headers) - 1) + [data_sum]
    return b"".join(
        _with_checksums(header.copy(), total) for header, total in zip(headers, sums, strict=True)
    )


def _with_checksums(header: Any, data_sum: int) -> bytes:
    comment = "by petamap"  # astropy writes the time, with which equal maps would have different bytes
    header["CHECKSUM"] = ("0" * 16, comment)
    header["DATASUM"] = (str(data_sum), comment)
    header["CHECKSUM"] = checksum_card(fold_carries(word_sum(_encode(header)) + data_sum))
    return _encode(header)


def _encode(header: Any) -> bytes:
    text: str = header.tostring()
    return text.encode("ascii")
