"""Collectives as data: who sends what to whom, in rounds; then checked, executed, timed and drawn."""

from petamap.comm.schedule.catalogue import (
    ALGORITHMS,
    Algorithm,
    Call,
    algorithms,
    call_on,
    choose,
    make,
    on_machine,
)
from petamap.comm.schedule.check import check, link_uses
from petamap.comm.schedule.drawing import drawing
from petamap.comm.schedule.flat import Messages, displacements, flat_messages
from petamap.comm.schedule.replay import combine, replay
from petamap.comm.schedule.schedule import Blocks, Round, Schedule, ScheduleError, in_segments, on_ranks

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
