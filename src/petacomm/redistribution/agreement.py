"""Whether all ranks ask for the same, of arrays that fit."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.mpi.agreement import agree
from petacomm.mpi.communicator import Communicator
from petacomm.redistribution.array_layout import DatatypeError, Layout


def same_on_all(comm: Communicator, what: str) -> None:
    """Raise on all ranks unless all of them say the same. Collective."""
    name = zlib.crc32(what.encode())
    words = np.array([name, -name], np.int64)
    comm.allreduce(words, "max")
    if words[0] != -words[1]:
        first = comm.bcast(what)
        error = None
        if what != first:
            error = DatatypeError(
                f"ranks differ: rank 0 asks for {first}, rank {comm.rank} for {what}",
                mend="ask for the same on all",
            )
        agree(comm, error)


def agree_on_call(comm: Communicator, error: DatatypeError | None, new: bool) -> bool:
    """Raise the error of any rank on all; return whether any has something new. One small all-reduce."""
    words = np.array([-(comm.size if error is None else comm.rank), new], np.int64)
    comm.allreduce(words, "max")
    if words[0] != -comm.size:
        agree(comm, error)
    return bool(words[1])


def misfit(
    name: str, array: AnyArray, layout: Layout, dtype: np.dtype[Any], rank: int
) -> DatatypeError | None:
    """Return what is wrong with an array as this rank's part of a layout, if anything."""
    where, shape = f"{name} on rank {rank}", layout.local_shape(rank)
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        kind = getattr(array, "dtype", type(array).__name__)
        return DatatypeError(f"{kind}, not {dtype}", where=where)
    if array.shape != shape:
        return DatatypeError(f"shape {array.shape}, not {shape}", where=where, mend=f"for {layout}")
    if not layout.lying(array).flags.c_contiguous:
        return DatatypeError("not contiguous", where=where, mend=f"in the order {layout.order} of its axes")
    return None
