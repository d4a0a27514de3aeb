"""A petamap command of which one rank fails in a phase of its work.

RANK_FAULT="KIND,RANK,PHASE,FILE" mpiexec -n 3 python tests/support/rank_faults.py WORDS...

FILE gets the time at which the rank fails.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from petacomm.base import timers
from petacomm.base.launcher import launched_rank
from petacomm.base.phases import in_phase
from petamap.cli.main import main
from petamap.mapmaking.vectors import Unknowns

KINDS = ("exception", "exit", "kill", "memory")
# In each of these phases, a function whose numbers are to be nan: module, class, name.
NUMBERS = {
    "noise kernels": ("petamap.mapmaking.noise_kernels", "", "inverse_lags"),
    "weights": ("petamap.mapmaking.binning", "", "hits_and_weights"),
    "data": ("petamap.mapmaking.projection", "Projection", "read"),
    "iterations": ("petamap.mapmaking.normal_operator", "NormalOperator", "apply_and_dot"),
}


def fail(kind: str) -> None:
    """Fail as a rank may."""
    if kind == "exception":
        raise KeyError("unforeseen")
    if kind == "exit":
        os._exit(7)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "memory":
        np.zeros((2**45, 8))


def spoil(phase: str, told: Callable[[], None]) -> None:
    """Let a function of a phase have a nan among the numbers that it takes and returns."""
    module, owner, name = NUMBERS[phase]
    holder: Any = import_module(module)
    holder = getattr(holder, owner) if owner else holder
    right = getattr(holder, name)

    def wrong(*arguments: Any, **named: Any) -> Any:
        told()
        put_nan(arguments)
        found = right(*arguments, **named)
        put_nan([found, *arguments])
        return found

    setattr(holder, name, wrong)


def put_nan(values: Iterable[Any]) -> None:
    for one in values:
        if isinstance(one, Unknowns):
            put_nan(one)
        elif isinstance(one, np.ndarray) and one.dtype == np.float64 and one.flags.writeable and one.size:
            one.reshape(-1)[one.size // 2] = np.nan


def choose_fault(kind: str, phase: str, file: Path) -> None:
    """Let this process fail when it enters a phase."""

    def tell() -> None:
        if not file.exists():
            file.write_text(repr(time.time()))

    @contextmanager
    def failing(name: str) -> Iterator[None]:
        with in_phase(name):
            if name == phase and not file.exists():
                if kind == "nan":
                    spoil(phase, tell)
                else:
                    tell()
                    fail(kind)
            yield

    timers.in_phase = failing


if __name__ == "__main__":
    kind, rank, phase, file = os.environ["RANK_FAULT"].split(",")
    if launched_rank() == rank:
        choose_fault(kind, phase, Path(file))
    sys.exit(main())
