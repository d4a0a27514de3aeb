"""FITS files with checksums of all units, which are verified when they are read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import atomic_write, require_file


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
    from astropy.io import fits

    where = os.fspath(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # astropy only warns of wrong checksums
            with fits.open(require_file(path), memmap=False, checksum=True) as units:
                yield units
    except FileNotFoundError as error:
        raise DataError("no such file", where=where, mend=mend) from error
    except (OSError, LookupError, ValueError, TypeError, AttributeError, ConfigError, Warning) as error:
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
