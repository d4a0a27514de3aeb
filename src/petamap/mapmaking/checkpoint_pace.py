"""Decisions of all ranks, taken together, when to save the state of iterations and when to stop."""

from __future__ import annotations

import signal
import time

import numpy as np

from petacomm.base.stop_request import StopRequest
from petacomm.mpi import Communicator

# Ranks agree no more often than this, whatever an iteration takes.
_LOOK_SECONDS = 0.1


class Pace:
    """When to save and to stop, by clocks and signals of any rank, decided alike on all. Collective.

    Ranks look at them together, in one message of five numbers, after so many iterations as take a tenth of a
    second, and else after each. They first look before the first and after it, and then wait at most for
    twice as many as they last timed.

    Parameters
    ----------
    comm : Communicator
    stop : StopRequest
        Of this rank.
    interval : float
        Seconds between saved states; 0: none before the stop.

    Attributes
    ----------
    why : str
        Why to stop, for the user; empty as long as there is no reason.
    """

    def __init__(self, comm: Communicator, stop: StopRequest, interval: float) -> None:
        self.comm = comm
        self.stop = stop
        self.interval = interval
        self.why = ""
        self._write_seconds = 0.0
        self._saved = time.perf_counter()
        self.begin()

    @property
    def stops(self) -> bool:
        """Whether all ranks are to stop."""
        return bool(self.why)

    def begin(self) -> None:
        """Begin iterations anew, of which the first is still to be timed."""
        self._looked = time.perf_counter()
        self._longest = 0.0
        self._steps = -1  # since the last look; the first is before an iteration
        self._next = 0

    def restart_interval(self) -> None:
        """Count the interval from now on, as all that was done is on disk."""
        self._saved = time.perf_counter()

    def expect_write(self, seconds: float) -> None:
        """Take it that saving needs so many seconds, until it is measured."""
        self._write_seconds = self._write_seconds or seconds

    def saved(self, seconds: float) -> None:
        """Take the seconds that saving the state took; the next interval begins."""
        self._write_seconds = seconds
        self._saved = self._looked = time.perf_counter()

    def step(self) -> bool:
        """Return, once an iteration, whether to save the state now."""
        self._steps += 1
        return self._steps >= self._next and self.look()

    def look(self) -> bool:
        """Return whether to save the state now; `stops` is set where the ranks are to stop."""
        now = time.perf_counter()
        each = (now - self._looked) / max(self._steps, 1)
        mine = [self.stop.signal, each, now - self._saved, self._write_seconds, -self.stop.seconds_left]
        number, each, since, write, over = self.comm.allreduce(np.array(mine, np.float64), "max").tolist()
        self._longest = max(self._longest, each)
        self._next = max(1, min(int(_LOOK_SECONDS / max(each, 1e-9)), 2 * self._steps))
        self._looked, self._steps = now, 0
        if number:
            self.why = f"by {signal.Signals(int(number)).name}"
        elif over + 2 * max(self._longest, write) > 0:
            self.why = "before the end of its time"
        return self.stops or 0 < self.interval <= since
