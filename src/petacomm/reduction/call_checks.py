"""What a rank asks of a plan, and whether all ranks ask for the same."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from petacomm.base.errors import UserError
from petacomm.base.typing import AnyArray
from petacomm.mpi.agreement import agree
from petacomm.mpi.communicator import Communicator, Operation
from petacomm.sharing.index_map import ReductionError

Verb: TypeAlias = Literal["allreduce", "reduce", "broadcast"]

DTYPES = (np.int64, np.float64, np.float32, np.uint8)


@dataclass(frozen=True)
class Call:
    """What must be the same on all ranks.

    Attributes
    ----------
    verb : str
    op : str
    dtype : str
    row : tuple of int
        Shape of the values of one key.
    exact, at_owners : bool
        Whether a sum is exact, and whether something is applied at owners.
    """

    verb: Verb
    op: Operation
    dtype: str
    row: tuple[int, ...]
    exact: bool = False
    at_owners: bool = False

    @staticmethod
    def of(verb: Verb, values: AnyArray, op: Operation, exact: bool = False, at_owners: bool = False) -> Call:
        """Return the call on `values`, which may be anything: `fault` says what is wrong with it."""
        dtype, shape = getattr(values, "dtype", type(values).__name__), getattr(values, "shape", ())
        return Call(verb, op, str(dtype), tuple(shape[1:]), exact, at_owners)

    @property
    def fixed_point(self) -> bool:
        """Whether this sums floating-point values as integers."""
        return self.exact and self.op == "sum" and self.dtype.startswith("float")

    def __str__(self) -> str:
        shape = "x".join(map(str, self.row)) or "one"
        words = [self.verb, f"({self.op})", "of", self.dtype, "values,", shape, "a key"]
        return " ".join(words + ["exact"] * self.exact + ["with an operation at owners"] * self.at_owners)

    def fault(self, values: AnyArray, n_keys: int, rank: int) -> ReductionError | None:
        """Return what is wrong with the values of this rank, if anything."""
        where = f"{self.verb} on rank {rank}"
        if not isinstance(values, np.ndarray):
            return ReductionError("values must be a NumPy array", where=where)
        if values.ndim < 1 or len(values) != n_keys:
            return ReductionError(
                f"values of shape {values.shape} for {n_keys} keys",
                where=where,
                mend="give one row for each key of the plan's index map",
            )
        if values.dtype not in DTYPES:
            known = ", ".join(np.dtype(dtype).name for dtype in DTYPES)
            return ReductionError(f"values of dtype {values.dtype}", where=where, mend=f"known: {known}")
        if not (values.flags.c_contiguous and values.flags.writeable):
            return ReductionError("values must be C-contiguous and writeable", where=where)
        if self.op not in ("sum", "max", "min", "or"):
            return ReductionError(f"no operation '{self.op}'", where=where, mend="known: sum, max, min, or")
        if self.op == "or" and self.verb != "broadcast" and values.dtype.kind == "f":
            return ReductionError("'or' needs integers", where=where)
        return None


def agree_on(comm: Communicator, call: Call, fault: UserError | None, largest: float) -> float:
    """Return the largest `largest` of all ranks, unless one has a fault or makes another call. Collective.

    One small all-reduce. A non-negative double is in the order of its bits, so it travels as an integer.
    """
    name = zlib.crc32(str(call).encode())
    size = int(np.float64(largest).view(np.int64))
    words = np.array([comm.size if fault is None else comm.rank, name, -name, size], np.int64)
    words[0] *= -1
    comm.allreduce(words, "max")
    if words[0] != -comm.size:
        agree(comm, fault)
    if words[1] != -words[2]:
        same_on_all(comm, str(call))
    return float(words[3:].view(np.float64)[0])


def same_on_all(comm: Communicator, what: str) -> None:
    """Raise on all ranks unless all of them say the same. Collective."""
    first = comm.bcast(what)
    error = None
    if what != first:
        error = ReductionError(
            f"ranks differ: rank 0 asks for {first}, rank {comm.rank} for {what}",
            mend="ask for the same on all",
        )
    agree(comm, error)
