"""Checks of the calls of a plan or halo, which must be the same on all ranks."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import numpy as np

from petacomm.base.errors import UserError
from petacomm.base.text import shape_text
from petacomm.base.typing import AnyArray
from petacomm.mpi.agreement import agree, require_same_text
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.reduction.fixed_point import largest_magnitude
from petacomm.sharing.index_map import ReductionError

Verb: TypeAlias = Literal["allreduce", "reduce", "broadcast", "exchange"]

DTYPES = (np.int64, np.float64, np.float32, np.uint8)


@dataclass(frozen=True)
class ReductionCall:
    """Arguments of a call that must be the same on all ranks.

    Attributes
    ----------
    verb : str
        "allreduce", "reduce" or "broadcast"; of a halo "exchange" or "reduce".
    op : str
        "sum", "max", "min" or "or".
    dtype : str
    row : tuple of int
        Shape of the values of one key.
    exact, at_owners : bool
        Whether a sum is exact, and whether an operation is applied at owners.
    """

    verb: Verb
    op: Operation
    dtype: str
    row: tuple[int, ...]
    exact: bool = False
    at_owners: bool = False

    @staticmethod
    def on_values(
        verb: Verb, values: AnyArray, op: Operation, exact: bool = False, at_owners: bool = False
    ) -> ReductionCall:
        """Return the call on `values`, which may be any object: `error` checks it."""
        dtype, shape = getattr(values, "dtype", type(values).__name__), getattr(values, "shape", ())
        # Calls are kept in sets, where an operation of any kind must have its place.
        named = op if isinstance(op, str) else cast(Operation, repr(op))
        return ReductionCall(verb, named, str(dtype), tuple(shape[1:]), exact, at_owners)

    @property
    def fixed_point(self) -> bool:
        """Whether floating-point values are summed as integers."""
        return self.exact and self.op == "sum" and self.dtype.startswith("float")

    def __str__(self) -> str:
        shape = shape_text(self.row) or "one"
        words = [self.verb, f"({self.op})", "of", self.dtype, "values,", shape, "a key"]
        return " ".join(
            words + ["exact"] * bool(self.exact) + ["with an operation at owners"] * self.at_owners
        )

    def error(self, values: AnyArray, n_keys: int, rank: int) -> ReductionError | None:
        """Return the error of values of this rank that do not fit the plan; None if they fit."""
        where = f"{self.verb} on rank {rank}"
        if not isinstance(values, np.ndarray):
            return ReductionError("values must be a NumPy array", where=where)
        if values.ndim < 1 or len(values) != n_keys:
            return ReductionError(
                f"values of shape {values.shape} for {n_keys} keys",
                where=where,
                mend="give one row for each key that the rank has",
            )
        if values.dtype not in DTYPES:
            known = ", ".join(np.dtype(dtype).name for dtype in DTYPES)
            return ReductionError(f"values of dtype {values.dtype}", where=where, mend=f"known: {known}")
        if not (values.flags.c_contiguous and values.flags.writeable):
            return ReductionError("values must be C-contiguous and writeable", where=where)
        if self.op not in ("sum", "max", "min", "or"):
            return ReductionError(f"no operation '{self.op}'", where=where, mend="known: sum, max, min, or")
        if self.op == "or" and self.verb not in ("broadcast", "exchange") and values.dtype.kind == "f":
            return ReductionError("'or' needs integers", where=where)
        return None


def check_call(
    comm: Communicator,
    call: ReductionCall,
    values: AnyArray,
    n_keys: int,
    agreed: set[ReductionCall],
    n_threads: int,
) -> float:
    """Check a call; return the largest magnitude of values on all ranks for exact sums, else 0.

    Parameters
    ----------
    comm : Communicator
    call : ReductionCall
    values : array (n_keys, ...)
        Values of this rank, of any type.
    n_keys : int
        Number of keys of this rank.
    agreed : set of ReductionCall
        Calls that are not compared between ranks; the call is added to it.
    n_threads : int
    """
    error = call.error(values, n_keys, comm.rank)
    largest = 0.0
    if error is None and call.fixed_point:
        largest = largest_magnitude(as_rows(values), n_threads)
    if call not in agreed:
        largest = agree_on_reduction(comm, call, error, largest)
        agreed.add(call)
    elif error is not None:
        raise error
    elif call.fixed_point:
        largest = comm.max(largest)
    if not math.isfinite(largest):
        where = f"{call.verb} on rank {comm.rank}"
        is_finite = np.isfinite(values).all()
        agree(comm, None if is_finite else ReductionError("a value is not finite", where=where))
    return largest


def agree_on_reduction(
    comm: Communicator, call: ReductionCall, error: UserError | None, largest: float
) -> float:
    """Return the maximum over ranks of `largest`, after checking that all make the same call. Collective.

    The error of any rank, or a difference between calls, is raised on all ranks. This takes one small
    all-reduce: non-negative doubles have the order of their bits, so `largest` is sent as an integer.
    """
    checksum = zlib.crc32(str(call).encode())
    size = int(np.float64(largest).view(np.int64))
    words = np.array([comm.size if error is None else comm.rank, checksum, -checksum, size], np.int64)
    words[0] *= -1
    comm.allreduce(words, "max")
    if words[0] != -comm.size:
        agree(comm, error)
    if words[1] != -words[2]:
        require_same_text(comm, str(call), ReductionError)
    return float(words[3:].view(np.float64)[0])


def as_rows(values: AnyArray) -> AnyArray:
    """Return values (n_keys, ...) as rows (n_keys, k)."""
    return values.reshape(len(values), row_width(values.shape))


def row_width(shape: tuple[int, ...]) -> int:
    """Return the number of values of a key, k, for values of shape (n_keys, ...)."""
    return int(np.prod(shape[1:], dtype=np.int64))
