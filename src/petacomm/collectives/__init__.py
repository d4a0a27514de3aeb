"""Collectives executed over MPI, by schedules that were checked."""

from petacomm.collectives.calls import allreduce, alltoall, alltoallv, barrier, broadcast, reduce
from petacomm.collectives.executor import Moved, Prepared, execute
from petacomm.collectives.integer_sums import exact_allreduce

__all__ = [
    "Moved",
    "Prepared",
    "allreduce",
    "alltoall",
    "alltoallv",
    "barrier",
    "broadcast",
    "exact_allreduce",
    "execute",
    "reduce",
]
