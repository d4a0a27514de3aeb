"""Checks that all ranks pass the same arguments and arrays that fit."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import Any

import numpy as np

from petacomm.base.errors import did_you_mean, is_known
from petacomm.base.typing import AnyArray
from petacomm.mpi.agreement import agree, require_same_text
from petacomm.mpi.autotuner import AUTO
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.array_layout import ArrayLayout, DatatypeError


def require_same_arguments(comm: Communicator, text: str) -> None:
    """Raise a DatatypeError on all ranks unless all describe their arguments by the same text. Collective."""
    checksum = zlib.crc32(text.encode())
    words = np.array([checksum, -checksum], np.int64)
    comm.allreduce(words, "max")
    if words[0] != -words[1]:
        require_same_text(comm, text, DatatypeError)


def agree_on_call(comm: Communicator, error: DatatypeError | None, new: bool) -> bool:
    """Raise the error of any rank on all; return whether `new` is true on any. One small all-reduce."""
    words = np.array([-(comm.size if error is None else comm.rank), new], np.int64)
    comm.allreduce(words, "max")
    if words[0] != -comm.size:
        agree(comm, error)
    return bool(words[1])


def method_error(method: str, known: Collection[str]) -> DatatypeError | None:
    """Return the error of a method that is neither "auto" nor known; None if it is."""
    names = [AUTO, *known]
    if is_known(method, names):
        return None
    return DatatypeError(f"no method '{method}'", mend=did_you_mean(method, names))


def checks_error(checks: str) -> DatatypeError | None:
    """Return the error of checks that are neither "every" nor "first"; None if they are."""
    known = ["every", "first"]
    if is_known(checks, known):
        return None
    return DatatypeError(f"no checks '{checks}'", mend=did_you_mean(str(checks), known))


def array_error(
    name: str, array: AnyArray, layout: ArrayLayout, dtype: np.dtype[Any], rank: int
) -> DatatypeError | None:
    """Return the error of an array that does not fit as a rank's part of a layout; None if it fits."""
    where, shape = f"{name} on rank {rank}", layout.local_shape(rank)
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        kind = getattr(array, "dtype", type(array).__name__)
        return DatatypeError(f"{kind}, not {dtype}", where=where)
    if array.shape != shape:
        return DatatypeError(f"shape {array.shape}, not {shape}", where=where, mend=f"for {layout}")
    if not layout.in_memory_order(array).flags.c_contiguous:
        return DatatypeError("not contiguous", where=where, mend=f"in the order {layout.order} of its axes")
    return None
