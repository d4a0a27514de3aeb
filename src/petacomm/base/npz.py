"""Reading of NumPy's ``.npz`` files: checksums are verified, and sizes before anything is allocated."""

from __future__ import annotations

import io
import math
import os
import struct
import tokenize
import zipfile
import zlib

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import require_file
from petacomm.base.typing import AnyArray

_MOST_COMPRESSION = 1100  # deflate compresses zeros 1032 to 1
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as NumPy writes them
_N_ENTRIES = slice(-12, -10)  # of an archive without a comment, as NumPy's
_READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}

# what zipfile and NumPy raise of damaged files
_DAMAGE = (
    *(OSError, ValueError, TypeError, LookupError, AttributeError, EOFError, RuntimeError, ArithmeticError),
    *(SyntaxError, MemoryError, struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def read_arrays(path: str | os.PathLike[str], what: str, mend: str | None = None) -> dict[str, AnyArray]:
    """Return the arrays of a ``.npz`` file by name, each after its CRC-32 is verified.

    `numpy.load` reads as far as the header of an array says, and verifies only what it has read to the end.

    Parameters
    ----------
    path : path
    what : str
        What the file is to be, for messages.
    mend : str, optional
        Remedy of one that is not, for messages.

    Raises
    ------
    ConfigError
        If there is no such file.
    DataError
        If it has no arrays of numbers and texts, or is damaged.
    """
    where = os.fspath(path)
    try:
        content = require_file(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=where, mend=None) from None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if len(entries) != int.from_bytes(content[_N_ENTRIES], "little"):
                raise ValueError("it lacks arrays that it had")
            return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
    except _DAMAGE as error:
        reason = str(error).splitlines()[0] if str(error) else "it is damaged"
        raise DataError(f"no {what}: {reason}", where=where, mend=mend) from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> AnyArray:
    """Return an array of an archive; raise one of `_DAMAGE` if it is not whole."""
    if entry.compress_type not in _PACKED or entry.file_size > _MOST_COMPRESSION * entry.compress_size:
        raise ValueError(f"{entry.filename} is packed as NumPy never does")
    file = io.BytesIO(archive.read(entry))  # verifies the CRC-32
    version = np.lib.format.read_magic(file)
    shape, _, dtype = _READ_HEADER[version](file)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(file.getbuffer()) - file.tell():
        raise ValueError(f"{entry.filename} does not hold what its header says")
    file.seek(0)
    found: AnyArray = np.lib.format.read_array(file, allow_pickle=False)
    return found
