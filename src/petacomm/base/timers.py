"""Timers of the phases of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from petacomm.base.communication_clock import communication_seconds
from petacomm.base.phases import in_phase


@dataclass
class PhaseTimer:
    """Wall and processor seconds, calls, bytes and messages sent of one phase of a run on this rank.

    Of the wall seconds, `communication_seconds` are those of sending, receiving and waiting for others.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of all threads
    communication_seconds: float = 0.0
    calls: int = 0
    bytes: int = 0
    messages: int = 0


@dataclass
class Timers:
    """Timers of the phases of a run by name, in the order of their first begin.

    Attributes
    ----------
    sent : callable
        Returns the bytes and the messages sent so far; each phase counts those sent during it.
    phases : dict of str to PhaseTimer
    """

    sent: Callable[[], tuple[int, int]] = lambda: (0, 0)
    phases: dict[str, PhaseTimer] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseTimer]:
        """Add the time, the bytes and the messages sent inside the block to phase `name`."""
        phase = self.phases.setdefault(name, PhaseTimer())
        begin, cpu_begin = time.perf_counter(), time.process_time()
        n_bytes, n_messages = self.sent()
        communicated = communication_seconds()
        try:
            with in_phase(name):
                yield phase
        finally:
            phase.seconds += time.perf_counter() - begin
            phase.cpu_seconds += time.process_time() - cpu_begin
            phase.communication_seconds += communication_seconds() - communicated
            bytes_now, messages_now = self.sent()
            phase.bytes += bytes_now - n_bytes
            phase.messages += messages_now - n_messages
            phase.calls += 1
