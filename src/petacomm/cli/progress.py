"""Progress of long-running work: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from petacomm.base.progress import Silent

SECONDS_BETWEEN_LINES = 5.0
_LITTLE = 1e-3  # of a phase, from which no rate follows
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@contextmanager
def listening(rank: int, stream: TextIO | None = None) -> Iterator[Silent]:
    """Yield the listener of a rank: bars or lines for rank 0, silence for the others."""
    stream = stream or sys.stderr
    if rank != 0:
        yield Silent()
    elif stream.isatty():
        bars = Bars(stream)
        try:
            yield bars
        finally:
            bars.close()  # an error message must stand on a line of its own
    else:
        yield Lines(stream)


class Lines(Silent):
    """A line when a phase begins and ends, and one every few seconds between, each with the time of day.

    Parameters
    ----------
    stream : text file
    clock : function
        Seconds, increasing.
    interval : float
        Least seconds between two lines inside a phase.
    """

    def __init__(
        self,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
        interval: float = SECONDS_BETWEEN_LINES,
    ) -> None:
        super().__init__()
        self._stream = stream
        self._clock = clock
        self._interval = interval
        self._phase = ""
        self._unit = ""
        self._total: float | None = None
        self._done = 0.0
        self._begun = self._spoken = clock()

    def begin(self, phase: str, total: float | None = None, unit: str = "") -> None:
        """Say that a phase begins."""
        self._phase, self._unit, self._total, self._done = phase, unit, total, 0.0
        self._begun = self._spoken = self._clock()
        self._say(f"{phase}: begins" + (f", {scaled(total, unit)}" if total else ""))

    def advance(self, amount: float, note: str = "") -> None:
        """Say how far the phase is, unless that was said a moment ago."""
        self._done += amount
        now = self._clock()
        if now - self._spoken >= self._interval:
            self._spoken = now
            self._say(", ".join(filter(None, (f"{self._phase}: {self._how_far(now)}", note))))

    def end(self, note: str = "") -> None:
        """Say that the phase is done."""
        seconds = self._clock() - self._begun
        self._say(", ".join(filter(None, (f"{self._phase}: done in {duration(seconds)}", note))))

    def warn(self, text: str) -> None:
        """Say and keep a warning."""
        super().warn(text)
        self._say(f"warning: {text}")

    def _how_far(self, now: float) -> str:
        rate = self._done / max(now - self._begun, 1e-9)
        said = f"{scaled(self._done, self._unit)} ({scaled(rate, self._unit)}/s)"
        if not self._total:
            return said
        if self._done < _LITTLE * self._total:
            return "0%"  # too little to tell a rate from
        left = (self._total - self._done) / rate if rate > 0 else float("inf")
        return f"{100 * self._done / self._total:.0f}%, {said}, {duration(left)} left"

    def _say(self, text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, file=self._stream, flush=True)


class Bars(Silent):
    """One bar a phase, with rate and time left; the bars of finished phases stay."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        super().__init__()
        self._columns = (
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<24}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[rate]} {task.fields[note]}", style="dim", markup=False),
        )
        self._console = Console(file=stream)
        self._make = Progress
        self._progress: Progress | None = None
        self._unit = ""
        self._begun = 0.0

    def begin(self, phase: str, total: float | None = None, unit: str = "") -> None:
        """Draw the bar of a phase."""
        self._unit, self._begun = unit, time.monotonic()
        self._progress = self._make(*self._columns, console=self._console)
        self._progress.add_task(phase, total=total, rate="", note="")
        self._progress.start()

    def advance(self, amount: float, note: str = "") -> None:
        """Move the bar on."""
        if self._progress is None:
            return
        task = self._progress.tasks[0]
        seconds = max(time.monotonic() - self._begun, 1e-9)
        rate = f"{scaled((task.completed + amount) / seconds, self._unit)}/s"
        self._progress.update(task.id, advance=amount, rate=rate, note=note)

    def end(self, note: str = "") -> None:
        """Leave the bar as it stands at the end of the phase."""
        if self._progress is None:
            return
        task = self._progress.tasks[0]
        total = task.total if task.total is not None else max(task.completed, 1)
        self._progress.update(task.id, total=total, completed=total, note=note or task.fields["note"])
        self._progress.stop()
        self._progress = None

    def warn(self, text: str) -> None:
        """Show and keep a warning; it appears above the bar."""
        super().warn(text)
        from rich.text import Text

        self._console.print(Text(f"warning: {text}", style="yellow"))

    def close(self) -> None:
        """Stop drawing."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def scaled(value: float, unit: str = "") -> str:
    """Return a number with three digits and a decimal prefix: ``12.3 Msamples``."""
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}".strip()
    return f"{value:.3g} {unit}".strip()


def duration(seconds: float) -> str:
    """Return seconds as people say them: ``0.42 s``, ``3.1 s``, ``2 min 05 s``, ``1 h 12 min``."""
    if not seconds < float("inf"):
        return "unknown"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
