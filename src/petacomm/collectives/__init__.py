"""Collectives executed over MPI by checked schedules, and exact floating-point sums.

Must not import: network, sharing or higher rooms.
"""

from petacomm.collectives.calls import allreduce, alltoall, alltoallv, barrier, broadcast, reduce
from petacomm.collectives.executor import ExecutionTraffic, PreparedSchedule, execute_schedule
from petacomm.collectives.integer_sums import exact_allreduce
from petacomm.collectives.persistent import PersistentCollective

__all__ = [
    "ExecutionTraffic",
    "PersistentCollective",
    "PreparedSchedule",
    "allreduce",
    "alltoall",
    "alltoallv",
    "barrier",
    "broadcast",
    "exact_allreduce",
    "execute_schedule",
    "reduce",
]
