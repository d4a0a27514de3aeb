"""Zeros in pages of their own, which go back to the system where they are freed."""

from __future__ import annotations

import contextlib
import mmap

import numpy as np

from petacomm.base.typing import Int64Array

_LARGE_PAGES = 1 << 22  # bytes


def zero_pages(n_bytes: int, *, large: bool = True) -> Int64Array:
    """Return int64 zeros in pages of their own.

    Parameters
    ----------
    n_bytes : int
        A multiple of 8, not 0.
    large : bool
        Ask for large pages, where NumPy would too; otherwise for small ones, of which what is never written
        takes no memory: a bit that is written then takes 4 KiB, not 2 MiB.

    Raises
    ------
    MemoryError
    """
    try:
        pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for {n_bytes} bytes") from error
    advice = getattr(mmap, "MADV_HUGEPAGE" if large else "MADV_NOHUGEPAGE", None)
    if n_bytes >= _LARGE_PAGES and advice is not None:
        with contextlib.suppress(OSError):
            pages.madvise(advice)
    return np.frombuffer(pages, np.int64)
