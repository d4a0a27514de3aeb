"""Requests to end early: signals to this process, and the end of the job's wall clock."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from petacomm.base.errors import Interruption, TimeLimitError
from petacomm.base.phases import where_in_work
from petacomm.base.signal_errors import forget_signal, raise_of_signal, when_safe

# Slurm sends SIGTERM at the end of a job's time, and SIGUSR1 before it where a job script asks for it.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
# Seconds to spare before the end of the wall clock, and the most of the whole time that they may be.
_MARGIN, _MARGIN_PART = 30.0, 0.05
_LONGEST_ALARM = 1e9  # s; timers of the system take no time without end


class StopRequest:
    """Request to end early, by a signal or because the wall clock of the job ends.

    Within `signals`, a signal ends the process at once by an `Interruption`, and the end of the time by a
    `TimeLimitError`, until `defer` is called. From then on work looks at `signal` and `seconds_left` itself.

    Parameters
    ----------
    environ : mapping, optional
        Environment, in which Slurm gives the end of the job: ``SLURM_JOB_END_TIME``, Unix seconds.

    Attributes
    ----------
    signal : int
        Number of the signal that has arrived; 0 for none.
    mend : str
        What the user can do after an end at once.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.signal = 0
        self.mend = "what was saved before stays: the same command with --resume goes on"
        self._begin = time.time()
        told = environ.get("SLURM_JOB_END_TIME", "")
        self._end = float(told) if told.isdecimal() else math.inf
        self._deferred = False
        self._at_once = False
        self._received = False  # whether signals are received, the clock's among them

    def limit(self, seconds: float | None) -> None:
        """Set the most seconds from the creation of this request on; None leaves them as they are."""
        if seconds is not None:
            self._end = min(self._end, self._begin + seconds)
            self._set_clock()

    def defer(self) -> None:
        """Note signals from now on, without an end at once, and let the time end."""
        self._deferred = True
        self._set_clock()

    @contextmanager
    def ending_at_once(self) -> Iterator[None]:
        """End the block at once by SIGTERM though signals are deferred, by an `Interruption`.

        For work without communication that takes minutes, and of which little is lost. SIGUSR1, which comes
        well before the end, lets it go on.
        """
        self._at_once = True
        try:
            if self.signal == signal.SIGTERM:
                self._raise_end()
            yield
        finally:
            self._at_once = False

    def interruption(self) -> Interruption | None:
        """Return the error that is to end work of minutes, by SIGTERM or the clock; None where it goes on.

        For work with communication, whose ranks agree on it (`ending_at_once` is for work without).
        """
        if self.signal == signal.SIGTERM:
            return self._stopped("by SIGTERM")
        return self._stopped("before the end of its time") if self.seconds_left <= 0 else None

    def _stopped(self, why: str) -> Interruption:
        return Interruption(f"stopped {why} {where_in_work()}", mend=self.mend)

    @property
    def seconds_left(self) -> float:
        """Seconds until work should have ended, with a margin before the end of the wall clock."""
        margin = min(_MARGIN, _MARGIN_PART * max(self._end - self._begin, 0.0))
        return self._end - margin - time.time()

    @contextmanager
    def signals(self) -> Iterator[StopRequest]:
        """Receive the signals within the block; only the main thread of a program can."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        forget_signal()
        handlers = dict.fromkeys(STOP_SIGNALS, when_safe(self._receive))
        handlers[signal.SIGALRM] = when_safe(self._receive_clock)
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        self._received = True
        self._set_clock()
        try:
            yield self
        finally:
            self._received = False
            self._set_clock()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _set_clock(self) -> None:
        """Have the end of the time told by SIGALRM, or not where work looks at the clock itself."""
        waits = self._received and not self._deferred and self.seconds_left < _LONGEST_ALARM
        signal.setitimer(signal.ITIMER_REAL, max(self.seconds_left, 1e-6) if waits else 0.0)

    def _receive(self, number: int) -> None:
        first, self.signal = self.signal == 0, number
        if (first and not self._deferred) or (self._at_once and number == signal.SIGTERM):
            self._raise_end()

    def _raise_end(self) -> NoReturn:
        self._at_once = False  # a second signal does not disturb the end by the first
        raise_of_signal(self._stopped(f"by {signal.Signals(self.signal).name}"), self.signal)

    def _receive_clock(self, number: int) -> None:
        # No interruption: who goes on after each of these would set up again and again without end.
        if self.signal == 0 and not self._deferred:
            what = f"the time of the job ends {where_in_work()}, before there is anything to save"
            raise_of_signal(TimeLimitError(what, mend="give it more time, or more processes"), number)
