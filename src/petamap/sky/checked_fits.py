"""FITS files: what astropy raises of damaged ones, and checksums, which are verified when they are read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petacomm.base.files import atomic_write, require_file
from petamap.sky.checksum import fold_carries, word_sum

_PIECE = 1 << 24  # bytes read at once; a multiple of 4
_ANEW = "copy or make the file anew"
_DAMAGE = (OSError, EOFError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, Warning)


def fits_faults() -> tuple[type[Exception], ...]:
    """Return the kinds of errors that astropy raises of damaged files."""
    from astropy.io import fits

    return (*_DAMAGE, fits.VerifyError)


@contextmanager
def fits_units(path: str | os.PathLike[str], **options: Any) -> Iterator[Any]:
    """Yield the units of a FITS file, closed in the end: astropy leaves those open that it cannot read."""
    from astropy.io import fits

    with require_file(path).open("rb") as file, fits.open(file, **options) as units:
        yield units


@contextmanager
def open_fits(path: str | os.PathLike[str], failure: str = "not a readable FITS file") -> Iterator[Any]:
    """Yield the units of a FITS file, which are read where the block uses them; none is verified.

    Parameters
    ----------
    path : path
    failure : str
        What is said of a file in which the block cannot find what it looks for.

    Raises
    ------
    DataError
        If the file is missing or damaged: in the place of the errors by which astropy and NumPy say so.
    ResourceError
        If it does not fit into memory.
    """
    where = os.fspath(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="File may have been truncated")  # astropy only warns
        try:
            with fits_units(path, memmap=False) as units:
                yield units
        except FileNotFoundError as error:
            raise DataError("no such file", where=where) from error
        except MemoryError as error:
            raise ResourceError("it does not fit into memory", where=where) from error
        except fits_faults() as error:
            what = " ".join(str(error).split()) or type(error).__name__
            raise DataError(f"{failure}: {what}", where=where, mend=_ANEW) from error


def verify_checksums(hdu: Any, where: str) -> None:
    """Compare the bytes of a unit in its file with its checksums, if any (FITS standard 4.0, appendix J).

    astropy's own verification uses the header after repairing it and so misses some damage.

    Raises
    ------
    DataError
        If they do not hold, or petamap wrote the file and one is missing.
    """
    info, header = hdu.fileinfo(), hdu.header
    header_sum = _file_sum(info["file"], info["hdrLoc"], info["datLoc"])
    data_sum = _file_sum(info["file"], info["datLoc"], info["datLoc"] + info["datSpan"])
    damage = None
    if "DATASUM" in header and data_sum != int(header["DATASUM"]):
        damage = "the data are damaged: DATASUM does not hold"
    elif "CHECKSUM" in header and fold_carries(header_sum + data_sum) != 0xFFFFFFFF:
        damage = "the header or the data are damaged: CHECKSUM does not hold"
    elif header.get("CREATOR") == "petamap" and not ("CHECKSUM" in header and "DATASUM" in header):
        damage = "the header is damaged: a checksum is missing"
    if damage is not None:
        raise DataError(damage, where=where, mend=_ANEW)


def _file_sum(file: Any, begin: int, end: int) -> int:
    """Return the ones' complement sum of the bytes of a file from `begin` to `end`."""
    file.seek(begin)
    pieces = (file.read(min(_PIECE, end - start)) for start in range(begin, end, _PIECE))
    return fold_carries(sum(word_sum(piece) for piece in pieces))


@contextmanager
def open_checked(path: str | os.PathLike[str], what: str, mend: str | None = None) -> Iterator[Any]:
    """Yield the units of a FITS file, read whole, after their checksums are verified.

    Parameters
    ----------
    path : path
    what : str
        What the file is to be, for messages.
    mend : str, optional
        Remedy, for messages.

    Raises
    ------
    DataError
        If the file is missing or damaged, or the block finds that it is something else: in the place of the
        errors by which astropy and NumPy say so.
    """
    where = os.fspath(path)
    faults: tuple[type[Exception], ...] = (*fits_faults(), ConfigError)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # astropy only warns of wrong checksums
            with fits_units(path, memmap=False, checksum=True) as units:
                yield units
    except FileNotFoundError as error:
        raise DataError("no such file", where=where, mend=mend) from error
    except faults as error:
        raise DataError(f"is no {what}: {error}", where=where, mend=mend) from error


def write_checked(path: str | os.PathLike[str], units: Sequence[Any]) -> None:
    """Write the units of a FITS file atomically, each with checksums and without a time.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    with atomic_write(path) as temporary:
        with_checksums(units).writeto(temporary, overwrite=True)


def with_checksums(units: Sequence[Any]) -> Any:
    """Return the `HDUList` of units, each with checksums and without a time."""
    from astropy.io import fits

    whole = fits.HDUList(list(units))
    whole.update_extend()
    for unit in whole:
        unit.add_checksum(when="")  # else the bytes would tell the time
    return whole
