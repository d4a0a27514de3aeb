"""Seconds and bytes by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
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
    """Phases of a run by name, in the order in which they first began."""

    phases: dict[str, Phase] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[Phase]:
        """Add the time spent inside to phase `name`."""
        phase = self.phases.setdefault(name, Phase())
        begin = time.perf_counter()
        try:
            yield phase
        finally:
            phase.seconds += time.perf_counter() - begin
            phase.calls += 1
