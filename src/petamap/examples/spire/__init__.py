"""Test data of MADmap: a SPIRE stream, its noise filters, and the naive and MADmap maps (PROVENANCE.txt)."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path

from petacomm.base.errors import DataError
from petacomm.base.files import atomic_write

TOD = "todSpirePSW_be"
FILTERS = "invnttSpirePSW_be.tar"
NAIVE_MAP = "naivemapSpirePSW.fits"
MADMAP_MAP = "madmapSpirePSW.fits"

# file -> (suffix in the package, SHA-256 of the content)
_FILES = {
    TOD: (".xz", "f57ddcf994ed93ed0c6d2920a7052f9c6541339fbe2c0fe7aad42addbe630d58"),
    FILTERS: (".xz", "90eaafbd02657d392b9becc7502e4e98dfca1971af0e9c77b9471a39b6a9bc00"),
    NAIVE_MAP: (".gz", "e0817e3e6818ace361564b8c375709b640371ccc86d903a5619d4c1d41f64d93"),
    MADMAP_MAP: (".gz", "8bb0c7412b1ffe0c153ab72b6ea922238fada3701bce79e42a930942f701792d"),
}
_UNPACK: dict[str, Callable[[bytes], bytes]] = {".xz": lzma.decompress, ".gz": gzip.decompress}

_MEND = "install petamap anew"


def unpack(folder: Path) -> None:
    """Write the four uncompressed files, 17 MB, to `folder`; existing ones are kept.

    Several processes may call this at the same time.

    Raises
    ------
    DataError
        If the data of the package are damaged.
    ResourceError
        If the folder cannot be written.
    """
    for name, (suffix, digest) in _FILES.items():
        target = folder / name
        if target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == digest:
            continue
        with atomic_write(target) as path:
            path.write_bytes(_content(Path(__file__).parent / (name + suffix), suffix, digest))


def _content(packed: Path, suffix: str, digest: str) -> bytes:
    try:
        content = _UNPACK[suffix](packed.read_bytes())
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"cannot be unpacked: {error}", where=str(packed), mend=_MEND) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise DataError("damaged: the checksum is wrong", where=str(packed), mend=_MEND)
    return content
