"""Progress listeners for the command line: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from petacomm.base.console import open_log, output
from petacomm.base.host import peak_bytes
from petacomm.base.progress import Progress, SilentProgress

SECONDS_BETWEEN_LINES = 5.0
_WIDE = 80  # characters of a terminal that bars and all columns need
_BESIDE, _BESIDE_BAR = 17, 24  # characters that spinner, percentage and times take, without and with a bar
_NAME = 18  # of a phase, at least, beside a bar
_MIN_FRACTION = 1e-3  # of a phase, for a meaningful rate
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@contextmanager
def progress_listener(rank: int, stream: TextIO | None = None) -> Iterator[SilentProgress]:
    """Yield the progress listener of a rank: bars or lines on rank 0, none on the others.

    The user may have asked for less, more, or a log (`petacomm.base.console`).
    """
    stream = stream or sys.stderr
    with ExitStack() as stack:
        if rank != 0:
            shown: SilentProgress = SilentProgress()
        elif output.quiet:
            shown = WarningProgress(stream)
        elif stream.isatty() and not output.verbose:
            shown = BarProgress(stream)
            stack.callback(shown.close)  # an error message needs its own line
        else:
            shown = LineProgress(stream, verbose=output.verbose)
        if rank == 0 and output.log is not None:
            log = stack.enter_context(open_log(output.log))
            shown = LoggedProgress(shown, LineProgress(log, verbose=True))
        yield shown


class WarningProgress(SilentProgress):
    """Progress of which warnings alone are shown."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def warn(self, text: str) -> None:
        """Print and keep a warning."""
        super().warn(text)
        print(f"warning: {text}", file=self._stream, flush=True)


class LoggedProgress(SilentProgress):
    """Progress that is shown, and written to a log as well.

    Parameters
    ----------
    shown, log : Progress
        Both receive all reports.
    """

    def __init__(self, shown: Progress, log: Progress) -> None:
        super().__init__()
        self._both = shown, log

    def begin(self, phase: str, total: float | None = None, unit: str = "") -> None:
        """Begin a phase."""
        for one in self._both:
            one.begin(phase, total, unit)

    def advance(self, amount: float, note: str = "") -> None:
        """Report progress."""
        for one in self._both:
            one.advance(amount, note)

    def end(self, note: str = "") -> None:
        """End the phase."""
        for one in self._both:
            one.end(note)

    def warn(self, text: str) -> None:
        """Warn, and keep the warning."""
        super().warn(text)
        for one in self._both:
            one.warn(text)


class LineProgress(SilentProgress):
    """Progress as lines with the time of day: when a phase begins and ends, and at intervals.

    Parameters
    ----------
    stream : text file
    clock : function
        Returns increasing seconds.
    interval : float
        Minimum seconds between two lines within a phase.
    verbose : bool
        Whether each report with a note has its line, and the end of a phase the memory used.
    """

    def __init__(
        self,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
        interval: float = SECONDS_BETWEEN_LINES,
        verbose: bool = False,
    ) -> None:
        super().__init__()
        self._verbose = verbose
        self._stream = stream
        self._clock = clock
        self._interval = interval
        self._phase = ""
        self._unit = ""
        self._total: float | None = None
        self._done = 0.0
        self._kinds: set[str] = set()
        self._begun = self._last_line = clock()

    def begin(self, phase: str, total: float | None = None, unit: str = "") -> None:
        """Print that a phase begins."""
        self._phase, self._unit, self._total, self._done = phase, unit, total, 0.0
        self._kinds = set()
        self._begun = self._last_line = self._clock()
        self._print(f"{phase}: begins" + (f", {format_scaled(total, unit)}" if total else ""))

    def advance(self, amount: float, note: str = "") -> None:
        """Print the progress of the phase, if the last line is old enough or other work begins."""
        self._done += amount
        now, is_second = self._clock(), self._is_second(note)
        if now - self._last_line >= self._interval or (self._verbose and note) or is_second:
            self._last_line = now
            self._print(", ".join(filter(None, (f"{self._phase}: {self._status(now)}", note))))

    def _is_second(self, note: str) -> bool:
        """Return whether a note, by its first word, is the first of the second kind of work in a phase.

        That may take minutes in which nothing is told.
        """
        kind = note.partition(" ")[0]
        is_second = len(self._kinds) == 1 and kind not in ("", *self._kinds)
        self._kinds |= {kind} - {""}
        return is_second

    def end(self, note: str = "") -> None:
        """Print that the phase is done."""
        done = f"{self._phase}: done in {format_duration(self._clock() - self._begun)}"
        memory = f"memory up to {format_scaled(peak_bytes(), 'B')}" if self._verbose else ""
        self._print(", ".join(filter(None, (done, note, memory))))

    def warn(self, text: str) -> None:
        """Print and keep a warning."""
        super().warn(text)
        self._print(f"warning: {text}")

    def _status(self, now: float) -> str:
        rate = self._done / max(now - self._begun, 1e-9)
        amount = f"{format_scaled(self._done, self._unit)} ({format_scaled(rate, self._unit)}/s)"
        if not self._total:
            return amount
        if self._done < _MIN_FRACTION * self._total:
            return "0%"
        left = (self._total - self._done) / rate if rate > 0 else float("inf")
        return f"{100 * self._done / self._total:.0f}%, {amount}, {format_duration(left)} left"

    def _print(self, text: str) -> None:
        print(time.strftime("%H:%M:%S"), text, file=self._stream, flush=True)


class BarProgress(SilentProgress):
    """Progress as one bar per phase, with rate and remaining time; the bars of finished phases stay."""

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
        from rich.table import Column

        super().__init__()
        self._console = Console(file=stream)
        wide = self._console.width >= _WIDE
        bar = min(max(self._console.width - 68, 12), 24)
        beside = _BESIDE_BAR + bar if wide else _BESIDE
        self._room = max(self._console.width - beside, 1)  # for name and note
        cut = Column(no_wrap=True, overflow="ellipsis")
        self._least = _NAME if wide else 0
        name = f"{{task.description:<{self._least}}}" if wide else "{task.description}"
        self._columns = (
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn(name, markup=False, table_column=cut),
            *([BarColumn(bar_width=bar)] if wide else []),
            TextColumn("{task.percentage:>3.0f}%", table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            *([TimeRemainingColumn(compact=True)] if wide else []),
            TextColumn("{task.fields[said]}", style="dim", markup=False, table_column=cut.copy()),
        )  # fmt: skip
        self._make = Progress
        self._progress: Progress | None = None
        self._unit = ""
        self._begun = 0.0

    def begin(self, phase: str, total: float | None = None, unit: str = "") -> None:
        """Draw the bar of a phase."""
        self._unit, self._begun = unit, time.monotonic()
        self._progress = self._make(*self._columns, console=self._console)
        self._progress.add_task(shortened(phase, self._room), total=total, rate="", note="", said="")
        self._progress.start()

    def advance(self, amount: float, note: str = "") -> None:
        """Advance the bar."""
        if self._progress is None:
            return
        task = self._progress.tasks[0]
        seconds = max(time.monotonic() - self._begun, 1e-9)
        rate = f"{format_scaled((task.completed + amount) / seconds, self._unit)}/s"
        said = self._said(rate, note)
        self._progress.update(task.id, advance=amount, rate=rate, note=note, said=said)

    def end(self, note: str = "") -> None:
        """Complete the bar of the phase."""
        if self._progress is None:
            return
        task = self._progress.tasks[0]
        total = task.total if task.total is not None else max(task.completed, 1)
        said = self._said(task.fields["rate"], note or task.fields["note"])
        self._progress.update(task.id, total=total, completed=total, said=said)
        self._progress.stop()
        self._progress = None

    def _said(self, rate: str, note: str) -> str:
        """Return rate and note, or as much of the note as a narrow line has room for."""
        assert self._progress is not None
        room = self._room - max(len(self._progress.tasks[0].description), self._least) - 1
        both = f"{rate} {note}"
        return both if len(both) <= room else shortened(note or rate, room)

    def warn(self, text: str) -> None:
        """Print a warning above the bar, and keep it."""
        super().warn(text)
        from rich.text import Text

        self._console.print(Text(f"warning: {text}", style="yellow"))

    def close(self) -> None:
        """Stop drawing."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def shortened(text: str, room: int) -> str:
    """Return the text, cut to `room` characters with an ellipsis.

    >>> shortened("iterations", 6), shortened("data", 6), shortened("data", 0)
    ('itera…', 'data', '')
    """
    if len(text) <= room:
        return text
    return text[: room - 1] + "…" if room > 1 else ""


def format_scaled(value: float, unit: str = "") -> str:
    """Return a number with three digits and a decimal prefix: ``12.3 Msamples``."""
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}".strip()
    return f"{value:.3g} {unit}".strip()


def format_duration(seconds: float) -> str:
    """Return a duration with suitable units: ``0.42 s``, ``3.1 s``, ``2 min 05 s``, ``1 h 12 min``."""
    if not seconds < float("inf"):
        return "unknown"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
