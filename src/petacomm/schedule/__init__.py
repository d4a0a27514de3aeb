"""Collectives as data: who sends what to whom, in rounds; then checked, executed, timed and drawn."""

from petacomm.schedule.catalogue import (
    ALGORITHMS,
    Algorithm,
    Call,
    algorithms,
    call_on,
    choose,
    make,
    on_machine,
)
from petacomm.schedule.checker import check, link_uses
from petacomm.schedule.flat_messages import Messages, displacements, flat_messages
from petacomm.schedule.reference import combine, replay
from petacomm.schedule.schedule import Blocks, Round, Schedule, ScheduleError, in_segments, on_ranks
from petacomm.schedule.timeline import drawing

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Blocks",
    "Call",
    "Messages",
    "Round",
    "Schedule",
    "ScheduleError",
    "algorithms",
    "call_on",
    "check",
    "choose",
    "combine",
    "displacements",
    "drawing",
    "flat_messages",
    "in_segments",
    "link_uses",
    "make",
    "on_machine",
    "on_ranks",
    "replay",
]
