"""Seconds and bytes by phase."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Phase:
    """What one phase of a run cost on this rank: wall seconds, calls, bytes moved between ranks."""

    seconds: float = 0.0
    calls: int = 0
    bytes: int = 0


@dataclass
class Timers:
    """Phases of a run by name, in the order in which they first began.

    Attributes
    ----------
    bytes_sent : callable
        Returns the bytes sent so far; phases count what is sent while they last.
    """

    bytes_sent: Callable[[], int] = lambda: 0
    phases: dict[str, Phase] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[Phase]:
        """Add the time spent inside to phase `name`."""
        phase = self.phases.setdefault(name, Phase())
        begin, sent = time.perf_counter(), self.bytes_sent()
        try:
            yield phase
        finally:
            phase.seconds += time.perf_counter() - begin
            phase.bytes += self.bytes_sent() - sent
            phase.calls += 1
