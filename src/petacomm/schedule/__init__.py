"""Communication schedules of collectives: algorithms, their choice, and a checker.

A schedule lists the messages of a collective in rounds. It can be verified, replayed on arrays, executed over
MPI (`petacomm.collectives`), timed (`petacomm.network`) and drawn (`petacomm.report`).

Must not import: `petacomm.network`, `petacomm.collectives` and the rooms above them.
"""

from petacomm.schedule.catalogue import (
    ALGORITHMS,
    CollectiveAlgorithm,
    list_algorithms,
    make_schedule,
    published_algorithm,
)
from petacomm.schedule.checker import check_schedule, link_message_counts
from petacomm.schedule.collective_call import CollectiveCall, communicator_grid, partition_call
from petacomm.schedule.flat_messages import FlatMessages, flat_messages, message_displacements
from petacomm.schedule.reference import combine_in_rank_order, replay
from petacomm.schedule.schedule import (
    AlltoallBlocks,
    Round,
    Schedule,
    ScheduleError,
    permute_ranks,
    segmented,
)
from petacomm.schedule.timeline import schedule_timeline

__all__ = [
    "ALGORITHMS",
    "AlltoallBlocks",
    "CollectiveAlgorithm",
    "CollectiveCall",
    "FlatMessages",
    "Round",
    "Schedule",
    "ScheduleError",
    "check_schedule",
    "combine_in_rank_order",
    "communicator_grid",
    "flat_messages",
    "link_message_counts",
    "list_algorithms",
    "make_schedule",
    "message_displacements",
    "partition_call",
    "permute_ranks",
    "published_algorithm",
    "replay",
    "schedule_timeline",
    "segmented",
]
