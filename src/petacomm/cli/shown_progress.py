"""Progress of a call in Python: bars in terminals and notebooks, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from petacomm.base.errors import ConfigError
from petacomm.base.launcher import launched_rank
from petacomm.base.progress import Progress, SilentProgress
from petacomm.cli.progress import BarProgress, LineProgress

_SECONDS_BETWEEN_CHANGES = 0.5
_METHODS = ("begin", "advance", "end", "warn")


@contextmanager
def shown_progress(progress: bool | Progress, rank: int) -> Iterator[Progress]:
    """Yield the listener of a rank.

    Parameters
    ----------
    progress : bool or Progress
        True: bars on rank 0, where there is somebody to see them; or a listener of the caller's own.
    rank : int

    Raises
    ------
    ConfigError
        If it is neither.
    """
    if not isinstance(progress, bool):
        if not all(callable(getattr(progress, name, None)) for name in _METHODS):
            mend = f"give True, False or a listener with the methods {', '.join(_METHODS)}"
            raise ConfigError(f"{progress!r:.50} does not listen", where="progress", mend=mend)
        yield progress if rank == 0 else SilentProgress()
    elif progress and rank == 0 and _is_notebook() and find_spec("ipywidgets") is None:
        yield NotebookProgress()
    elif progress and rank == 0 and (_is_notebook() or _is_terminal()):
        bars = BarProgress(sys.stdout)
        try:
            yield bars
        finally:
            bars.close()
    else:
        yield SilentProgress()


class NotebookProgress(LineProgress):
    """Progress in a notebook that has no widgets: a line for each phase, which changes in place."""

    def __init__(self) -> None:
        super().__init__(sys.stdout, interval=_SECONDS_BETWEEN_CHANGES)
        self._line: Any = None

    def begin(self, phase: str, total: float | None = None, unit: str = "") -> None:
        """Begin the line of a phase."""
        self._line = None
        super().begin(phase, total, unit)

    def warn(self, text: str) -> None:
        """Show and keep a warning, in a line of its own."""
        line, self._line = self._line, None
        super().warn(text)
        self._line = line

    def _print(self, text: str) -> None:
        from IPython.display import display

        content = {"text/plain": text}
        if self._line is None:
            self._line = display(content, raw=True, display_id=True)
        else:
            self._line.update(content, raw=True)


def _is_terminal() -> bool:
    """Return whether stdout is a terminal.

    Open MPI's launcher gives its ranks one for stdout whatever it writes that to, and never one for stderr.
    """
    return sys.stdout.isatty() and (launched_rank() is None or sys.stderr.isatty())


def _is_notebook() -> bool:
    """Return whether stdout is that of a notebook."""
    return "ipykernel" in sys.modules and sys.stdout.__class__.__module__.startswith("ipykernel")
