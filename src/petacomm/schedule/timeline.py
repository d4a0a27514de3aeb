"""Table of the messages of a schedule, for drawing."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.schedule.schedule import Schedule


def schedule_timeline(schedule: Schedule, itemsize: int) -> AnyArray:
    """Return a row for each message and each rank that it reaches, in the order of the rounds.

    Parameters
    ----------
    schedule : Schedule
    itemsize : int
        Bytes of an element.

    Returns
    -------
    structured array (n,)
        ``round`` int32, ``source`` int32, ``destination`` int32, ``bytes`` int64, ``deposit`` bool: whether
        the row belongs to a message with the deposit bit.
    """
    dtype = np.dtype(
        [("round", "i4"), ("source", "i4"), ("destination", "i4"), ("bytes", "i8"), ("deposit", "?")]
    )
    tables = [np.empty(0, dtype)]
    for number, part in enumerate(schedule.rounds()):
        part = part.take(part.is_message)
        table = np.empty(len(part), dtype)
        table["round"], table["deposit"] = number, part.line >= 0
        table["source"], table["destination"] = part.source, part.destination
        table["bytes"] = part.length * itemsize
        tables.append(table)
    return np.concatenate(tables)
