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

    Collectives are calls in which MPI sends as it pleases, beside the messages to single ranks. Of the wall
    seconds, `communication_seconds` are those of sending, receiving and waiting for others.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of all threads
    communication_seconds: float = 0.0
    calls: int = 0
    bytes: int = 0
    messages: int = 0
    collectives: int = 0


@dataclass
class Timers:
    """Timers of the phases of a run by name, in the order of their first begin.

    Attributes
    ----------
    sent : callable
        Returns the bytes and the messages sent and the collectives called so far; each phase counts its own.
    phases : dict of str to PhaseTimer
    """

    sent: Callable[[], tuple[int, int, int]] = lambda: (0, 0, 0)
    phases: dict[str, PhaseTimer] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseTimer]:
        """Add the time, the bytes and the messages sent inside the block to phase `name`."""
        phase = self.phases.setdefault(name, PhaseTimer())
        begin, cpu_begin = time.perf_counter(), time.process_time()
        before = self.sent()
        communicated = communication_seconds()
        try:
            with in_phase(name):
                yield phase
        finally:
            phase.seconds += time.perf_counter() - begin
            phase.cpu_seconds += time.process_time() - cpu_begin
            phase.communication_seconds += communication_seconds() - communicated
            n_bytes, n_messages, n_collectives = (
                now - then for now, then in zip(self.sent(), before, strict=True)
            )
            phase.bytes += n_bytes
            phase.messages += n_messages
            phase.collectives += n_collectives
            phase.calls += 1
