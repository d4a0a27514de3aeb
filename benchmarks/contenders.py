"""What `reduction.py` compares: functions that set up from keys, and return what then reduces in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mpi import MpiCommunicator
from petacomm.reduction import ALGORITHMS, ReductionPlan
from petacomm.sharing import IndexMap


class Ready(NamedTuple):
    """The vector to reduce, the all-reduce of it, and the bytes that a rank keeps for it, if it is told."""

    vector: FloatArray
    allreduce: Callable[[FloatArray], object]
    n_bytes: Callable[[], int] | None = None


Contender: TypeAlias = Callable[[MpiCommunicator, Int64Array, int], Ready]

OURS = "petamap "
PLAIN = OURS + "plain arrays"


def planned(algorithm: str, comm: MpiCommunicator, keys: Int64Array, k: int) -> Ready:
    """A plan of petamap."""
    plan = ReductionPlan(IndexMap(comm, keys), algorithm=algorithm, checks="first")
    return Ready(plan.empty((len(keys), k), np.float64), plan.allreduce, lambda: plan.nbytes)


def plain(comm: MpiCommunicator, keys: Int64Array, k: int) -> Ready:
    """A plan that chooses for arrays which it has not made."""
    plan = ReductionPlan(IndexMap(comm, keys), checks="first")
    return Ready(np.empty((len(keys), k)), plan.allreduce, lambda: plan.nbytes)


def pairwise_script(comm: MpiCommunicator, keys: Int64Array, k: int) -> Ready:
    """The published improvement as a script would have it: each pair of ranks exchanges what it shares."""
    mpi_comm = comm.mpi_comm
    everyones = mpi_comm.allgather(keys)
    everyones[comm.rank] = keys[:0]
    shared = [np.searchsorted(keys, np.intersect1d(keys, theirs, assume_unique=True)) for theirs in everyones]
    counts = np.array([len(positions) for positions in shared]) * k
    positions = np.concatenate(shared)
    ends = np.cumsum([len(part) for part in shared])
    send, receive = np.empty((2, len(positions), k))

    def allreduce(values: FloatArray) -> None:
        np.take(values, positions, axis=0, out=send, mode="clip")
        mpi_comm.Alltoallv((send, counts), (receive, counts))
        for part, end in zip(shared, ends, strict=True):
            values[part] += receive[end - len(part) : end]

    return Ready(np.empty((len(keys), k)), allreduce)


def dense_script(comm: MpiCommunicator, keys: Int64Array, k: int) -> Ready:
    """MPI's all-reduce over all keys that any rank holds."""
    from mpi4py import MPI

    n_keys = comm.mpi_comm.allreduce(int(keys.max(initial=-1)) + 1, MPI.MAX)
    held = np.zeros(n_keys, np.uint8)
    held[keys] = 1
    comm.mpi_comm.Allreduce(MPI.IN_PLACE, held, MPI.MAX)
    positions = (np.cumsum(held, dtype=np.int64) - 1)[keys]
    full = np.empty((int(np.count_nonzero(held)), k))

    def allreduce(values: FloatArray) -> None:
        full[...] = 0
        full[positions] = values
        comm.mpi_comm.Allreduce(MPI.IN_PLACE, full, MPI.SUM)
        np.take(full, positions, axis=0, out=values, mode="clip")

    return Ready(np.empty((len(keys), k)), allreduce)


def petsc_forest(kind: str, comm: MpiCommunicator, keys: Int64Array, k: int) -> Ready:
    """PETSc's star forest."""
    from star_forest import star_forest

    return Ready(np.empty((len(keys), k)), star_forest(comm.mpi_comm, keys, k, kind))


def contenders() -> dict[str, Contender]:
    """Return all that can run here, by name."""
    found: dict[str, Contender] = {
        OURS + name: partial(planned, name) for name in ("auto", *sorted(ALGORITHMS))
    }
    found |= {PLAIN: plain, "pairwise, a script": pairwise_script, "dense, a script": dense_script}
    try:
        from star_forest import petsc

        petsc()
    except ImportError:
        return found
    # Its "window" takes seconds a call here, and its other types are for particular graphs.
    return found | {f"PETSc {kind}": partial(petsc_forest, kind) for kind in ("basic", "neighbor")}
