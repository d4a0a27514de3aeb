"""The alpha-beta time of any schedule, as its execution waits: a rank goes on when its round has ended."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.schedule import Round, Schedule


def schedule_time(
    schedule: Schedule, itemsize: int, alpha: float, beta: float, deposit: bool = True
) -> float:
    """Return the seconds of a schedule, in a network without congestion.

    A message of n bytes takes alpha + n beta. It begins when both its ranks are in its round; a rank sends
    its messages of a round one after the other, and receives meanwhile, one after the other as well.

    Parameters
    ----------
    schedule : Schedule
    itemsize : int
        Bytes of an element.
    alpha, beta : float
        Seconds of a message, and of a byte.
    deposit : bool
        Whether a line is one message for its source; else it is one for each rank of it.

    Raises
    ------
    ConfigError
        If elements have no bytes, or times are negative.
    """
    if itemsize < 1 or alpha < 0 or beta < 0:
        raise ConfigError(
            f"elements of {itemsize} bytes, messages of {alpha} s and {beta} s a byte",
            mend="give 1 byte or more, and times of 0 or more",
        )
    now = np.zeros(schedule.n_ranks)
    for part in schedule.rounds():
        part = part.take(part.moves)
        if len(part):
            _pass_round(now, part, itemsize, alpha, beta, deposit)
    return float(now.max())


def _pass_round(
    now: FloatArray, part: Round, itemsize: int, alpha: float, beta: float, deposit: bool
) -> None:
    """Move the clocks of the ranks of a round to its end."""
    n_ranks = len(now)
    pair = part.source.astype(np.int64) * n_ranks + part.destination
    # Rows between the same ranks are one message.
    _, first, message = np.unique(pair, return_index=True, return_inverse=True)
    takes = alpha + beta * itemsize * np.bincount(message, part.length)
    source, destination = part.source[first], part.destination[first]
    sends = takes * ~_passed(part)[first] if deposit else takes
    busy = np.maximum(np.bincount(source, sends, n_ranks), np.bincount(destination, takes, n_ranks))
    both = np.maximum(now[source], now[destination])
    begins = now.copy()
    for ranks in (source, destination):
        np.maximum.at(begins, ranks, both)
    now[:] = begins + busy


def _passed(part: Round) -> Int64Array:
    """Whether a row is a copy that its line leaves on the way."""
    flags: Int64Array = np.append((part.line[:-1] == part.line[1:]) & (part.line[1:] >= 0), False)
    return flags
