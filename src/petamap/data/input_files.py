"""Files that a run reads: which have checksums of their own, and a list of SHA-256 for all."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import read_text, require_file, write_text
from petamap.data.config import RunConfig
from petamap.data.config.fields import option_fields
from petamap.data.formats.hdf5_text import has_unchecked_texts
from petamap.data.formats.volume_header import FORMAT
from petamap.sky.checked_fits import fits_units

_LOOKED_AT = 20  # files of each source that are looked at for checksums
_WITHIN = dict.fromkeys(("toast", "volume"), "*.h5")  # what these sources read of a folder
_PIECE_BYTES = 1 << 22
_COMPRESSED = {".gz", ".xz", ".bz2", ".zip"}  # formats with a checksum of the content
_FITS = {".fits", ".fit"}
_HDF5 = {".h5", ".hdf5"}
# kinds of sources, and options whatever the source or section, of which DATASUM is verified
_VERIFYING_OPTIONS = {"focalplane", "image", "compare", "compare_binned", "mask"}
_VERIFY_FITS = {"sky-map", "solved-templates", "leakage", *_VERIFYING_OPTIONS}
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def input_files(config: RunConfig) -> list[Path]:
    """Return the files that a run and its spectra read, sorted: of folders, all within them.

    Hidden files are left away, and so are configurations, whose values the summary of a run has.
    """
    return sorted({path for _, files in _named_files(config) for path in files})


def _named_files(config: RunConfig) -> Iterator[tuple[str, list[Path]]]:
    """Yield files of options with the kind of their source, or with the name of the option."""
    for entry in config.sources:
        for name, value in _named(entry.options).items():
            kind = name if name in _VERIFYING_OPTIONS else entry.kind
            yield kind, list(_within(config.folder / value, entry.kind))
    for section in (config.products, config.spectra):
        for name, value in _named(section).items():
            yield name, list(_within(config.folder / value, name))


def _named(options: Any) -> dict[str, str]:
    """Return the paths of files that options hold, by their names."""
    kind: type = type(options)
    held = {name: (field, getattr(options, name)) for name, field in option_fields(kind).items()}
    return {
        name: value
        for name, (field, value) in held.items()
        if isinstance(value, str) and value and field.holds_path(value)
    }


def _within(path: Path, kind: str) -> Iterator[Path]:
    """Yield a file, or those of a folder that a source of this kind reads."""
    within = sorted(path.rglob(_WITHIN.get(kind, "*"))) if path.is_dir() else [path]
    yield from (one for one in within if one.is_file() and not one.name.startswith("."))


def unchecked_note(config: RunConfig) -> str:
    """Return what a user is to know of files without checksums; empty if there are none.

    Of a source with very many files, the first are looked at, and how many is said.
    """
    found: set[Path] = set()
    n_files = n_looked_at = 0
    for kind, files in _named_files(config):
        found |= {path for path in files[:_LOOKED_AT] if not has_checksums(path, kind)}
        n_files, n_looked_at = n_files + len(files), n_looked_at + min(len(files), _LOOKED_AT)
    if not found:
        return ""
    first = min(found)
    many = f"{first} and {len(found) - 1} more have" if len(found) > 1 else f"{first} has"
    some = f" ({n_looked_at} of {n_files} files were looked at)" if n_looked_at < n_files else ""
    remedy = "damage may go unseen; petamap check --hash LIST keeps the SHA-256 of all"
    return f"{many} no checksums{some}: {remedy}"


def has_checksums(path: Path, kind: str) -> bool:
    """Return whether all data in a file have checksums that its source verifies when it reads them.

    These are HDF5 files whose datasets all have ``fletcher32``, and texts of attributes a digest, volumes of
    petamap, FITS maps whose units all have DATASUM, and what is compressed by gzip, xz, bzip2 or zip.

    Parameters
    ----------
    path : Path
    kind : str
        Kind of the source, or name of the option.
    """
    suffix = path.suffix.lower()
    if suffix in _COMPRESSED:
        return True
    try:
        if suffix in _FITS:
            return kind in _VERIFY_FITS and _fits_has_checksums(path)
        return suffix in _HDF5 and _hdf5_has_checksums(path)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        return False  # whoever reads it says what is wrong


def _fits_has_checksums(path: Path) -> bool:
    with fits_units(path, memmap=True, lazy_load_hdus=False) as units:
        return all("DATASUM" in unit.header for unit in units)


def _hdf5_has_checksums(path: Path) -> bool:
    import h5py

    def is_unchecked(_: str, item: Any) -> bool | None:  # True ends the visit
        values = isinstance(item, h5py.Dataset) and item.size and not item.fletcher32
        return True if values or has_unchecked_texts(item) else None

    with h5py.File(require_file(path), "r", locking="best-effort") as file:
        if file.attrs.get("format") == FORMAT.encode():
            return True
        return not has_unchecked_texts(file) and file.visititems(is_unchecked) is None


def write_hashes(listing: Path, files: Sequence[Path]) -> None:
    """Write the SHA-256 of files in the form of ``sha256sum``, with paths relative to that of the listing.

    Raises
    ------
    DataError
        If a file cannot be read.
    ResourceError
        If the listing cannot be written.
    """
    folder = listing.absolute().parent
    lines = [f"{_sha256(path)}  {os.path.relpath(path.absolute(), folder)}\n" for path in files]
    write_text(listing, "".join(lines))


def check_hashes(listing: Path, files: Iterable[Path]) -> None:
    """Raise a DataError unless files and a listing are of the same files, with the SHA-256 that they have.

    What is listed and no file of these may be of another configuration, but must be there.

    Raises
    ------
    ConfigError
        If the listing cannot be read.
    DataError
        If a file is missing in it, is listed and not there, or has changed: the first of them is named.
    """
    known = _read_listing(listing)
    for path in known:
        if not os.path.isfile(path):
            mend = "put it back; or, if it is not to be read any more, write the listing anew"
            raise DataError(f"is not there, but in {listing}", where=str(path), mend=mend)
    for path in files:
        expected = known.get(path.resolve())
        if expected is None:
            mend = "remove the listing, and write it anew"
            raise DataError(f"is not in {listing}", where=str(path), mend=mend)
        if _sha256(path) != expected:
            mend = "copy it again; or, if it is meant to be another one, write the listing anew"
            raise DataError(f"has changed: {listing} has another SHA-256", where=str(path), mend=mend)


def _read_listing(listing: Path) -> dict[Path, str]:
    """Return the SHA-256 of the files of a listing."""
    folder = listing.absolute().parent
    known: dict[Path, str] = {}
    for number, line in enumerate(read_text(listing).splitlines(), 1):
        matched = _LINE.fullmatch(line)
        if matched is None:
            raise ConfigError("is no line of sha256sum", where=f"{listing}:{number}")
        known[(folder / matched[2]).resolve()] = matched[1]
    return known


def _sha256(path: Path) -> str:
    try:
        with require_file(path).open("rb") as file:
            digest = hashlib.sha256()
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
            return digest.hexdigest()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", where=str(path)) from error
