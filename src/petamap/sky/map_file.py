"""Read and write maps as FITS: HEALPix tables, CAR and flat images, numbered pixels."""

from __future__ import annotations

import gzip
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from petacomm.base.errors import ConfigError, DataError, ResourceError, did_you_mean
from petacomm.base.files import replacing
from petacomm.base.typing import AnyArray, FloatArray
from petamap.sky.checksum import folded, word_sum
from petamap.sky.map_header import map_head
from petamap.sky.map_image import image_columns, image_frame, is_map_image, load_image
from petamap.sky.map_table import is_map_table, load_table, table_columns
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization
from petamap.sky.sky_map import (
    FRAME_LETTERS,
    SkyMap,
    frame_of_word,
    iau_signs,
    is_polarized,
    stokes_of_name,
    to_kelvin,
)

__all__ = ["SkyMap", "read_map", "write_map"]


def write_map(
    path: str | os.PathLike[str],
    values: AnyArray,
    pixelization: Pixelization,
    *,
    names: Sequence[str],
    unit: str | Sequence[str],
    run_id: str,
    frame: str | None = None,
    partial: bool = False,
    cards: Mapping[str, object] | None = None,
) -> None:
    """Write columns on pixels to a FITS file, whole or not at all.

    HEALPix maps become a table, CAR and flat patches an image with a plane for each column, numbered pixels
    an image where they have a layout, else a table. Values are float64; the polarization convention is COSMO.
    The same map makes the same bytes.

    Parameters
    ----------
    path : path
        Compressed where it ends in ``.gz``.
    values : array, shape (n_columns, n_pix) or (n_pix,)
        nan where a pixel was not observed: UNSEEN (-1.6375e30) in tables, nan in images.
    names : sequence of str
        Of the columns, such as ``["I", "Q", "U"]``, ``["HITS"]`` or ``["II", "IQ", ...]``.
    unit : str or sequence of str
        Of all columns, or of each; empty for none.
    run_id : str
        Written as RUNID.
    frame : str
        equatorial, galactic or ecliptic; may be missing for numbered pixels alone.
    partial : bool
        HEALPix: write the observed pixels only, with their numbers.
    cards : mapping, optional
        More FITS cards.

    Raises
    ------
    ConfigError
        If shapes, names or the frame do not fit.
    ResourceError
        If the file cannot be written.
    """
    columns = np.atleast_2d(np.asarray(values, np.float64))
    if columns.shape != (len(names), pixelization.n_pix):
        raise ConfigError(
            f"{len(names)} names on {pixelization.n_pix} pixels for values of shape {columns.shape}"
        )
    observed = np.flatnonzero(np.isfinite(columns).any(axis=0)) if partial else None
    head = map_head(
        pixelization, names=names, unit=unit, run_id=run_id, frame=frame, cards=cards,
        n_observed=None if observed is None else len(observed),
    )  # fmt: skip
    rows = _file_rows(columns, pixelization) if observed is None else columns[:, observed].T
    # The sum of the values stands before them; they are turned into bytes twice rather than held.
    total = sum(word_sum(piece) for _, piece in head.data.pieces(0, rows, observed))
    with replacing(path) as temporary, _written(temporary) as file:
        file.write(head.to_bytes(folded(total)))
        for _, piece in head.data.pieces(0, rows, observed):
            file.write(piece)
        file.write(bytes(head.data.file_bytes - head.data.end))


def _file_rows(columns: FloatArray, pixelization: Pixelization) -> FloatArray:
    """Return the rows of a file, (n_rows, n_columns): places of an image where the pixels have some."""
    if not isinstance(pixelization, NumberedPixels) or pixelization.layout is None:
        return columns.T
    rows = np.full((math.prod(pixelization.layout.shape), len(columns)), np.nan)
    rows[pixelization.layout.index] = columns.T
    return rows


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO | gzip.GzipFile]:
    with open(path, "wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:  # neither name nor time inside
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
    """Read a map from FITS: of petamap, healpy, WMAP, Planck, TOAST or pixell.

    Checksums are verified where there are any. Kelvin with any prefix become K_CMB; the IAU convention
    becomes COSMO. What the file does not say can be said here, else it is assumed and told
    in `SkyMap.warnings`.

    Parameters
    ----------
    path : path
    hdu : int or str, optional
        Number or name; without it the first with a map.
    columns : sequence of str, optional
        Names of columns or planes; without it I, Q and U, as far as there are any, else all.
    unit : str, optional
        Of the values, where the file says none.
    polarization : str, optional
        ``COSMO`` or ``IAU``, where the file has no POLCCONV.
    frame : str, optional
        equatorial, galactic or ecliptic, where the file has no COORDSYS.
    ordering : str, optional
        ring or nested, where the file has no ORDERING.

    Raises
    ------
    DataError
        If the file is missing, damaged or no map; names file and HDU.
    ResourceError
        If it does not fit into memory.
    ConfigError
        For an argument that does not exist.
    """
    _check_choice("polarization", polarization, ("COSMO", "IAU"))
    _check_choice("frame", frame, tuple(FRAME_LETTERS))
    _check_choice("ordering", ordering, ("ring", "nested"))
    with _opened(path) as hdus:
        found, where = _find(hdus, hdu, path)
        is_table = is_map_table(found)
        all_names, all_units = table_columns(found) if is_table else image_columns(found)
        chosen, names, said = _choose(all_names, columns, where)
        values, pixelization = (
            load_table(found, chosen, ordering, where) if is_table else load_image(found, chosen, where)
        )
        in_file = {name: str(found.header.get(name, "")).strip().upper() for name in ("COORDSYS", "POLCCONV")}
        in_frame = (None if is_table else image_frame(found)) or frame_of_word(in_file["COORDSYS"])
    _check_finite(values, names, where)
    units = _convert_units(values, names, [all_units[i] for i in chosen], unit, said)
    convention = _to_cosmo(values, names, in_file["POLCCONV"], polarization, said, where)
    if in_frame is None and frame is None and not isinstance(pixelization, NumberedPixels):
        said.append("the file does not name its coordinate frame (COORDSYS)")
    warned = tuple(f"{os.fspath(path)}: {line}" for line in said)
    return SkyMap(values, pixelization, names, units, in_frame or frame, convention, warned)


def _check_choice(what: str, word: str | None, known: tuple[str, ...]) -> None:
    if word is not None and word not in known:
        raise ConfigError(f"unknown {what} '{word}'", mend=did_you_mean(word, list(known)))


_PIECE = 1 << 24  # bytes; whole words

# what astropy raises on damaged files
_DAMAGE = (OSError, EOFError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, Warning)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a FITS file; whatever is wrong with it becomes a DataError naming it."""
    from astropy.io import fits

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # astropy only warns of it
        warnings.filterwarnings("error", message="File may have been truncated")
        try:
            with fits.open(path, memmap=False) as hdus:
                yield hdus
        except DataError:
            raise
        except FileNotFoundError as error:
            raise DataError("no such file", where=str(path)) from error
        except MemoryError as error:
            raise ResourceError("the map does not fit into memory", where=str(path)) from error
        except (*_DAMAGE, fits.VerifyError) as error:
            what = " ".join(str(error).split()) or type(error).__name__
            raise DataError(f"not a readable FITS file: {what}", where=str(path)) from error


def _find(hdus: Any, wanted: int | str | None, path: str | os.PathLike[str]) -> tuple[Any, str]:
    """Return the HDU with the map and its name for errors; HDUs behind it are not touched."""
    i = 0
    while True:
        try:
            hdu = hdus[i]
        except IndexError:
            break
        where = f"{os.fspath(path)}, HDU {i}" + (f" ({hdu.name})" if hdu.name else "")
        if wanted is None or i == wanted or (isinstance(wanted, str) and hdu.name.upper() == wanted.upper()):
            _verify(hdu, where)
            if is_map_table(hdu) or is_map_image(hdu):
                return hdu, where
            if wanted is not None:
                raise DataError("no HEALPix table and no CAR or TAN image", where=where)
        i += 1
    what = "no HEALPix table and no CAR or TAN image" if wanted is None else f"no HDU {wanted!r}"
    raise DataError(what, where=os.fspath(path))


def _verify(hdu: Any, where: str) -> None:
    """Compare an HDU, byte by byte as it is in the file, with its checksums (FITS standard 4.0, appendix J).

    astropy's own verification sees the header after mending it, so that damage there can stay unseen.
    """
    place, header = hdu.fileinfo(), hdu.header
    in_header = _sum_of(place["file"], place["hdrLoc"], place["datLoc"])
    in_data = _sum_of(place["file"], place["datLoc"], place["datLoc"] + place["datSpan"])
    if "DATASUM" in header and in_data != int(header["DATASUM"]):
        raise DataError("the data are damaged: DATASUM does not hold", where=where)
    if "CHECKSUM" in header and folded(in_header + in_data) != 0xFFFFFFFF:
        raise DataError("the header or the data are damaged: CHECKSUM does not hold", where=where)
    if header.get("CREATOR") == "petamap" and not ("CHECKSUM" in header and "DATASUM" in header):
        raise DataError("the header is damaged: a checksum is missing", where=where)


def _sum_of(file: Any, begin: int, end: int) -> int:
    file.seek(begin)
    pieces = (file.read(min(_PIECE, end - start)) for start in range(begin, end, _PIECE))
    return folded(sum(word_sum(piece) for piece in pieces))


def _choose(
    names: tuple[str, ...], wanted: Sequence[str] | None, where: str
) -> tuple[list[int], tuple[str, ...], list[str]]:
    """Return which columns to read, their names, and what had to be assumed."""
    if wanted is not None:
        for name in wanted:
            if name not in names:
                raise DataError(f"no column '{name}'", where=where, mend=did_you_mean(name, list(names)))
        return [names.index(name) for name in wanted], tuple(wanted), []
    stokes = [stokes_of_name(name) for name in names]
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
    values: FloatArray, names: tuple[str, ...], in_file: list[str], given: str | None, said: list[str]
) -> tuple[str, ...]:
    """Scale to K_CMB in place; return the units."""
    if given is None and any(not unit and name in "IQU" for name, unit in zip(names, in_file, strict=True)):
        said.append("the file does not say the unit of its values (TUNITn); they are taken as they stand")
    if given is not None and any(unit and to_kelvin(unit) != to_kelvin(given) for unit in in_file):
        said.append(f"the file says {', '.join(in_file)}; {given} was asked for and is ignored")
    units = []
    for column, unit in zip(values, in_file, strict=True):
        factor, name = to_kelvin(unit or given or "")
        if factor != 1.0:
            column *= factor
        units.append(name)
    return tuple(units)


def _to_cosmo(
    values: FloatArray,
    names: tuple[str, ...],
    in_file: str,
    given: str | None,
    said: list[str],
    where: str,
) -> str | None:
    """Turn U from IAU to COSMO in place; return the convention, None for unpolarized maps."""
    if not is_polarized(names):
        return None
    if in_file not in ("", "COSMO", "IAU"):
        raise DataError(f"POLCCONV is '{in_file}'", where=where, mend="it must be COSMO or IAU")
    if not in_file and given is None:
        said.append("the file does not name its polarization convention (POLCCONV); taken as COSMO")
    if in_file and given is not None and in_file != given:
        said.append(f"POLCCONV is {in_file}; polarization {given} was asked for and is ignored")
    if (in_file or given) == "IAU":
        values *= np.array(iau_signs(names))[:, None]
    return "COSMO"
