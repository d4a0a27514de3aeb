"""Digests of texts in HDF5 files that are of variable length, of which HDF5 has no checksums."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

# Attribute of a file, group or dataset, the SHA-256 of each text by its name: of fixed length, so it is in a
# header, which has a checksum.
TEXT_DIGESTS = "petamap_text_sha256"


def write_text_digests(file: Any) -> None:
    """Give an open HDF5 file, and all in it that has texts as attributes, their digests."""
    with_texts = [file]
    file.visititems(lambda _, item: with_texts.append(item))
    for item in with_texts:
        if keys := _text_keys(item):
            item.attrs[TEXT_DIGESTS] = np.bytes_(json.dumps({key: _digest(item, key) for key in keys}))


def changed_text(item: Any) -> str | None:
    """Return the name of a text of a file, group or dataset that is not that of its digest, or None."""
    found = _digests(item).items()
    return next((key for key, digest in found if key not in item.attrs or _digest(item, key) != digest), None)


def has_unchecked_texts(item: Any) -> bool:
    """Return whether a file, group or dataset has text in the heaps of its file without a digest.

    All of variable length is there, such as the attributes that h5py makes of a `str`.
    """
    import h5py

    if isinstance(item, h5py.Dataset) and _is_in_heap(item.id.get_type()):
        return True
    return not set(_text_keys(item)) <= set(_digests(item))


def _is_in_heap(kind: Any) -> bool:
    from h5py import h5t

    if isinstance(kind, h5t.TypeStringID):
        return bool(kind.is_variable_str())
    if isinstance(kind, h5t.TypeCompoundID):
        return any(_is_in_heap(kind.get_member_type(part)) for part in range(kind.get_nmembers()))
    if isinstance(kind, h5t.TypeArrayID):
        return _is_in_heap(kind.get_super())
    return isinstance(kind, h5t.TypeVlenID | h5t.TypeReferenceID)


def _text_keys(item: Any) -> list[str]:
    """Return the names of attributes that are in the heaps of their file."""
    return [key for key in sorted(item.attrs) if _is_in_heap(item.attrs.get_id(key).get_type())]


def _digest(item: Any, key: str) -> str:
    return hashlib.sha256(repr(item.attrs[key]).encode()).hexdigest()


def _digests(item: Any) -> dict[str, str]:
    return dict(json.loads(item.attrs[TEXT_DIGESTS])) if TEXT_DIGESTS in item.attrs else {}
