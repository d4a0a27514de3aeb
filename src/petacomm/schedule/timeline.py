"""What a picture of a schedule shows."""

from __future__ import annotations

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.schedule.schedule import Schedule


def drawing(schedule: Schedule, itemsize: int) -> AnyArray:
    """Return a row for each message and each rank that it reaches, in the order of the rounds.

    Returns
    -------
    structured array (n,)
        ``round`` int32, ``source`` int32, ``destination`` int32, ``bytes`` int64, ``deposit`` bool: whether
        it is a copy that a message leaves on its way or the message itself at the end of its line.
    """
    kind = np.dtype(
        [("round", "i4"), ("source", "i4"), ("destination", "i4"), ("bytes", "i8"), ("deposit", "?")]
    )
    tables = [np.empty(0, kind)]
    for number, part in enumerate(schedule.rounds()):
        part = part.take(part.moves)
        table = np.empty(len(part), kind)
        table["round"], table["deposit"] = number, part.line >= 0
        table["source"], table["destination"] = part.source, part.destination
        table["bytes"] = part.length * itemsize
        tables.append(table)
    return np.concatenate(tables)
