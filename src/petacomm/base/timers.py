"""Timers of the phases of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class PhaseTimer:
    """Wall seconds, calls and bytes sent of one phase of a run on this rank."""

    seconds: float = 0.0
    calls: int = 0
    bytes: int = 0


@dataclass
class Timers:
    """Timers of the phases of a run by name, in the order of their first begin.

    Attributes
    ----------
    bytes_sent : callable
        Returns the bytes sent so far; each phase counts those sent during it.
    phases : dict of str to PhaseTimer
    """

    bytes_sent: Callable[[], int] = lambda: 0
    phases: dict[str, PhaseTimer] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[PhaseTimer]:
        """Add the time and the bytes sent inside the block to phase `name`."""
        phase = self.phases.setdefault(name, PhaseTimer())
        begin, sent = time.perf_counter(), self.bytes_sent()
        try:
            yield phase
        finally:
            phase.seconds += time.perf_counter() - begin
            phase.bytes += self.bytes_sent() - sent
            phase.calls += 1
