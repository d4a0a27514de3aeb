"""Progress of a call in Python: bars in terminals and notebooks, nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from petacomm.base.progress import Progress, SilentProgress
from petacomm.cli.progress import BarProgress


@contextmanager
def shown_progress(progress: bool | Progress, rank: int) -> Iterator[Progress]:
    """Yield the listener of a rank.

    Parameters
    ----------
    progress : bool or Progress
        True: bars on rank 0, where there is somebody to see them; or a listener of the caller's own.
    rank : int
    """
    if not isinstance(progress, bool):
        yield progress if rank == 0 else SilentProgress()
    elif progress and rank == 0 and is_watched():
        bars = BarProgress(sys.stdout)
        try:
            yield bars
        finally:
            bars.close()
    else:
        yield SilentProgress()


def is_watched() -> bool:
    """Return whether stdout is a terminal, or a notebook that can draw bars."""
    if "ipykernel" in sys.modules and sys.stdout.__class__.__module__.startswith("ipykernel"):
        return find_spec("ipywidgets") is not None
    return sys.stdout.isatty()
