"""Alpha-beta time of any schedule, in which ranks proceed when their own round has ended."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray
from petacomm.schedule import Round, Schedule


def schedule_time(
    schedule: Schedule, itemsize: int, alpha: float, beta: float, deposit: bool = True
) -> float:
    """Return the seconds of a schedule on a network without congestion.

    A message of n bytes takes alpha + n beta. It begins when both its ranks have reached its round. A rank
    sends its messages of a round one after the other, and at the same time receives, one after the other.

    Parameters
    ----------
    schedule : Schedule
    itemsize : int
        Bytes of an element.
    alpha, beta : float
        Seconds per message and per byte.
    deposit : bool
        Whether the source of a line sends one message; else it sends one to each rank of the line.

    Raises
    ------
    ConfigError
        If `itemsize` is not positive, or a time is negative.
    """
    if itemsize < 1 or alpha < 0 or beta < 0:
        raise ConfigError(
            f"elements of {itemsize} bytes, messages of {alpha} s and {beta} s a byte",
            mend="give 1 byte or more, and times of 0 or more",
        )
    now = np.zeros(schedule.n_ranks)
    for part in schedule.rounds():
        part = part.take(part.is_message)
        if len(part):
            _advance_clocks(now, part, itemsize, alpha, beta, deposit)
    return float(now.max())


def _advance_clocks(
    now: FloatArray, part: Round, itemsize: int, alpha: float, beta: float, deposit: bool
) -> None:
    """Advance the clocks of the ranks of a round to its end."""
    n_ranks = len(now)
    pair = part.source.astype(np.int64) * n_ranks + part.destination
    # Rows between the same ranks are one message.
    _, first, message = np.unique(pair, return_index=True, return_inverse=True)
    duration = alpha + beta * itemsize * np.bincount(message, part.length)
    source, destination = part.source[first], part.destination[first]
    sending = duration * ~part.is_passed[first] if deposit else duration
    busy = np.maximum(np.bincount(source, sending, n_ranks), np.bincount(destination, duration, n_ranks))
    both = np.maximum(now[source], now[destination])
    begins = now.copy()
    for ranks in (source, destination):
        np.maximum.at(begins, ranks, both)
    now[:] = begins + busy
