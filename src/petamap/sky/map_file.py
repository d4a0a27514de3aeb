"""Reading and writing of maps in FITS: HEALPix tables, CAR and flat images, numbered pixels."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from petacomm.base.arguments import real_array
from petacomm.base.errors import ConfigError, DataError, did_you_mean, require_known
from petacomm.base.files import atomic_write
from petacomm.base.typing import AnyArray, FloatArray
from petamap.sky.checked_fits import open_fits, verify_checksums
from petamap.sky.checksum import fold_carries, word_sum
from petamap.sky.map_conventions import FRAME_LETTERS, iau_to_cosmo_signs, parse_frame, parse_stokes
from petamap.sky.map_header import make_map_header
from petamap.sky.map_image import image_columns, image_frame, is_map_image, load_image
from petamap.sky.map_table import is_map_table, load_table, table_columns
from petamap.sky.map_units import to_kelvin
from petamap.sky.numbered import NumberedPixels
from petamap.sky.observed_map import ObservedMap
from petamap.sky.partial_healpix import PartialHealpix
from petamap.sky.pixelization import Pixelization
from petamap.sky.sky_map import SkyMap

__all__ = ["SkyMap", "read_map", "write_map"]


def write_map(
    path: str | os.PathLike[str],
    values: AnyArray | SkyMap,
    pixelization: Pixelization | None = None,
    *,
    names: Sequence[str] | None = None,
    unit: str | Sequence[str] | None = None,
    run_id: str = "map",
    frame: str | None = None,
    partial: bool = False,
    cards: Mapping[str, object] | None = None,
) -> None:
    """Write a map to a FITS file atomically.

    HEALPix maps are written as a table, CAR and flat patches as an image with one plane per column, numbered
    pixels as an image if they have a layout, else as a table. Values are float64; the polarization convention
    is COSMO. Equal maps give equal bytes.

    Parameters
    ----------
    path : path
        Compressed by gzip if it ends in ``.gz``.
    values : SkyMap, or array of shape (n_columns, n_pix) or (n_pix,)
        nan where a pixel was not observed; written as UNSEEN (-1.6375e30) in tables, as nan in images.
    pixelization : Pixelization, optional
        Pixelization of an array.
    names : sequence of str, optional
        Names of the columns of an array, such as ``["I", "Q", "U"]``, ``["HITS"]`` or ``["II", "IQ", ...]``.
    unit : str or sequence of str, optional
        Unit of all columns of an array, or one for each column; empty for none.
    run_id : str
        Written as RUNID.
    frame : str, optional
        equatorial, galactic or ecliptic: of an array, but for numbered pixels, and of a map that has none.
    partial : bool
        HEALPix only: write only the observed pixels, with their numbers, as of `PartialHealpix` always.
    cards : mapping, optional
        Additional FITS cards.

    Raises
    ------
    ConfigError
        If shapes, names or the frame do not match.
    ResourceError
        If the file cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> sky = petamap.Healpix(4)
    >>> hits = np.arange(sky.n_pix)
    >>> petamap.write_map("hits.fits", hits, sky, names=["HITS"], unit="", run_id="a", frame="galactic")
    >>> found = petamap.read_map("hits.fits")
    >>> float(found.values.max())
    191.0
    >>> petamap.write_map("again.fits", found)
    """
    if isinstance(values, SkyMap):
        said = {"pixelization": pixelization, "names": names, "unit": unit}
        _require_unsaid({**said, "frame": frame if values.frame else None})
        sky_map, values = values, values.values
        pixelization, names, unit = sky_map.pixelization, sky_map.names, sky_map.units
        frame = sky_map.frame or frame
    if pixelization is None or names is None or unit is None:
        raise ConfigError(
            "an array has no pixelization, names or unit", mend="give them, or a SkyMap in its place"
        )
    if frame is None and not isinstance(pixelization, NumberedPixels):
        raise ConfigError("unknown frame: the map has none", mend=f"give it: {', '.join(FRAME_LETTERS)}")
    write_columns(
        path, values, pixelization, names=names, unit=unit, run_id=run_id, frame=frame, partial=partial,
        cards=cards,
    )  # fmt: skip


def write_columns(
    path: str | os.PathLike[str],
    values: AnyArray,
    pixelization: Pixelization,
    *,
    names: Sequence[str],
    unit: str | Sequence[str],
    run_id: str,
    frame: str | None,
    partial: bool = False,
    cards: Mapping[str, object] | None = None,
) -> None:
    """Write an array as `write_map` does; without a frame, as of offsets, the file has no COORDSYS.

    Raises
    ------
    ConfigError
        If shapes, names or the frame do not match.
    ResourceError
        If the file cannot be written.
    """
    columns = np.atleast_2d(real_array(values, "values"))
    if columns.shape != (len(names), pixelization.n_pix):
        raise ConfigError(
            f"{len(names)} names on {pixelization.n_pix} pixels for values of shape {columns.shape}"
        )
    observed = None
    if partial or isinstance(pixelization, PartialHealpix):
        observed = np.flatnonzero(np.isfinite(columns).any(axis=0))
        columns = columns[:, observed]
    if isinstance(pixelization, PartialHealpix):
        observed, pixelization = pixelization.pixels[observed], pixelization.sky
    header = make_map_header(
        pixelization, names=names, unit=unit, run_id=run_id, frame=frame, cards=cards,
        n_observed=None if observed is None else len(observed),
    )  # fmt: skip
    rows = _file_rows(columns, pixelization) if observed is None else columns.T
    # The checksum precedes the values: encoding the values twice saves holding all encoded bytes.
    total = sum(word_sum(piece) for _, piece in header.data.pieces(0, rows, observed))
    with atomic_write(path) as temporary, _open_for_writing(temporary) as file:
        file.write(header.to_bytes(fold_carries(total)))
        for _, piece in header.data.pieces(0, rows, observed):
            file.write(piece)
        file.write(bytes(header.data.file_bytes - header.data.end))


def _require_unsaid(given: Mapping[str, object]) -> None:
    """Raise an error if something is given that a map has itself."""
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"{name} is part of the map", mend="leave it away, or give sky_map.values")


def _file_rows(columns: FloatArray, pixelization: Pixelization) -> FloatArray:
    """Return the rows of a file, (n_rows, n_columns); numbered pixels with a layout fill an image."""
    if not isinstance(pixelization, NumberedPixels) or pixelization.layout is None:
        return columns.T
    rows = np.full((math.prod(pixelization.layout.shape), len(columns)), np.nan)
    rows[pixelization.layout.index] = columns.T
    return rows


@contextmanager
def _open_for_writing(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    with open(path, "wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        # Neither file name nor time, so that equal maps give equal bytes.
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
            yield compressed


def read_map(
    path: str | os.PathLike[str],
    *,
    hdu: int | str | None = None,
    columns: Sequence[str] | None = None,
    unit: str | None = None,
    polarization: str | None = None,
    frame: str | None = None,
    ordering: str | None = None,
) -> SkyMap:
    """Read a map from a FITS file of petamap, healpy, WMAP, Planck, TOAST or pixell.

    Checksums are verified if there are any. Kelvin with any prefix is converted to K_CMB, the IAU convention
    to COSMO. Information missing from the file can be given as arguments; otherwise it is assumed, with an
    entry in `SkyMap.warnings`.

    Parameters
    ----------
    path : path
        FITS file, which may be compressed by gzip.
    hdu : int or str, optional
        Number or name of the HDU. Default: the first HDU with a map.
    columns : sequence of str, optional
        Names of columns or planes. Default: those of I, Q and U that exist, else all.
    unit : str, optional
        Unit of the values, if the file gives none.
    polarization : str, optional
        ``COSMO`` or ``IAU``, if the file has no POLCCONV.
    frame : str, optional
        equatorial, galactic or ecliptic, if the file has no COORDSYS.
    ordering : str, optional
        ring or nested, if the file has no ORDERING.

    Returns
    -------
    SkyMap

    Raises
    ------
    DataError
        If the file is missing, damaged or no map; names file and HDU.
    ResourceError
        If the map does not fit into memory.
    ConfigError
        If an argument has an unknown value.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> sky = petamap.Healpix(4)
    >>> values = np.zeros((3, sky.n_pix))
    >>> petamap.write_map("a.fits", values, sky, names="IQU", unit="K_CMB", run_id="a", frame="galactic")
    >>> sky_map = petamap.read_map("a.fits")
    >>> sky_map.names, sky_map.unit, sky_map.pixelization
    (('I', 'Q', 'U'), 'K_CMB', Healpix(n_side=4, nest=False))
    """
    return read_observed(
        path, hdu=hdu, columns=columns, unit=unit, polarization=polarization, frame=frame, ordering=ordering
    ).sky_map


def read_observed(
    path: str | os.PathLike[str],
    *,
    hdu: int | str | None = None,
    columns: Sequence[str] | None = None,
    unit: str | None = None,
    polarization: str | None = None,
    frame: str | None = None,
    ordering: str | None = None,
) -> ObservedMap:
    """Read a map as `read_map` does, and hold no pixels but those in the file."""
    choices = (
        ("polarization", polarization, ("COSMO", "IAU")),
        ("frame", frame, FRAME_LETTERS),
        ("ordering", ordering, ("ring", "nested")),
    )
    for what, word, known in choices:
        if word is not None:
            require_known(f"unknown {what}", word, known)
    with open_fits(path) as hdus:
        map_hdu, where = _find_hdu(hdus, hdu, path)
        is_table = is_map_table(map_hdu)
        all_names, all_units = table_columns(map_hdu) if is_table else image_columns(map_hdu)
        chosen, names, assumptions = _choose_columns(all_names, columns, where)
        if is_table:
            values, pixelization, pixels = load_table(map_hdu, chosen, ordering, where)
        else:
            (values, pixelization), pixels = load_image(map_hdu, chosen, where), None
        cards = {name: str(map_hdu.header.get(name, "")).strip().upper() for name in ("COORDSYS", "POLCCONV")}
        in_frame = (None if is_table else image_frame(map_hdu)) or parse_frame(cards["COORDSYS"])
    _check_finite(values, names, where)
    units = _convert_units(values, names, [all_units[i] for i in chosen], unit, assumptions)
    convention = _convert_to_cosmo(values, names, cards["POLCCONV"], polarization, assumptions, where)
    if in_frame is None and frame is None and not isinstance(pixelization, NumberedPixels):
        assumptions.append("the file does not name its coordinate frame (COORDSYS)")
    messages = tuple(f"{os.fspath(path)}: {line}" for line in assumptions)
    return ObservedMap(pixels, values, pixelization, names, units, in_frame or frame, convention, messages)


def _find_hdu(hdus: Any, wanted: int | str | None, path: str | os.PathLike[str]) -> tuple[Any, str]:
    """Return the HDU with the map and its name for messages; HDUs behind it are not read."""
    for i, hdu in enumerate(hdus):  # reads one after the other
        where = f"{os.fspath(path)}, HDU {i}" + (f" ({hdu.name})" if hdu.name else "")
        if wanted is None or i == wanted or (isinstance(wanted, str) and hdu.name.upper() == wanted.upper()):
            verify_checksums(hdu, where)
            if is_map_table(hdu) or is_map_image(hdu):
                return hdu, where
            if wanted is not None:
                raise DataError("no HEALPix table and no CAR or TAN image", where=where)
    what = "no HEALPix table and no CAR or TAN image" if wanted is None else f"no HDU {wanted!r}"
    raise DataError(what, where=os.fspath(path))


def _choose_columns(
    names: tuple[str, ...], wanted: Sequence[str] | None, where: str
) -> tuple[list[int], tuple[str, ...], list[str]]:
    """Return the numbers of the columns to read, their names, and the assumptions made."""
    if wanted is not None:
        for name in wanted:
            if name not in names:
                raise DataError(f"no column '{name}'", where=where, mend=did_you_mean(name, list(names)))
        return [names.index(name) for name in wanted], tuple(wanted), []
    stokes = [parse_stokes(name) for name in names]
    for parameters in ("IQU", "QU", "I"):
        if all(stokes.count(parameter) == 1 for parameter in parameters):
            return [stokes.index(parameter) for parameter in parameters], tuple(parameters), []
    if len(names) == 3 and all(name.startswith(("COLUMN", "PLANE_")) or not name for name in names):
        return [0, 1, 2], ("I", "Q", "U"), ["three columns without names are taken as I, Q, U"]
    return list(range(len(names))), names, []


def _check_finite(values: FloatArray, names: tuple[str, ...], where: str) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        column, pixel = (int(i[0]) for i in np.nonzero(infinite))
        raise DataError(f"pixel {pixel} of {names[column]} is infinite", where=where)


def _convert_units(
    values: FloatArray, names: tuple[str, ...], in_file: list[str], given: str | None, assumptions: list[str]
) -> tuple[str, ...]:
    """Scale to K_CMB in place; return the units."""
    if given is None and any(not unit and name in "IQU" for name, unit in zip(names, in_file, strict=True)):
        assumptions.append(
            "the file does not say the unit of its values (TUNITn); they are taken as they stand"
        )
    if given is not None and any(unit and to_kelvin(unit) != to_kelvin(given) for unit in in_file):
        assumptions.append(f"the file says {', '.join(in_file)}; {given} was asked for and is ignored")
    units = []
    for column, unit in zip(values, in_file, strict=True):
        factor, name = to_kelvin(unit or given or "")
        if factor != 1.0:
            column *= factor
        units.append(name)
    return tuple(units)


def _convert_to_cosmo(
    values: FloatArray,
    names: tuple[str, ...],
    in_file: str,
    given: str | None,
    assumptions: list[str],
    where: str,
) -> str | None:
    """Convert U from IAU to COSMO in place; return the convention, None for unpolarized maps."""
    signs = iau_to_cosmo_signs(names)
    if (signs > 0).all():
        return None
    if in_file not in ("", "COSMO", "IAU"):
        raise DataError(f"POLCCONV is '{in_file}'", where=where, mend="it must be COSMO or IAU")
    if not in_file and given is None:
        assumptions.append("the file does not name its polarization convention (POLCCONV); taken as COSMO")
    if in_file and given is not None and in_file != given:
        assumptions.append(f"POLCCONV is {in_file}; polarization {given} was asked for and is ignored")
    if (in_file or given) == "IAU":
        values *= signs[:, None]
    return "COSMO"
