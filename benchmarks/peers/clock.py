"""What the measurements of peers share: one core, the scan, a clock. Peers have their own interpreter.

Each script takes the file of the scan that `speed.py` writes and prints one JSON object a measurement.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import version

import numpy as np

_REPEATS = 3
_out = sys.stdout


def on_one_core() -> None:
    """Keep this process, and whatever threads its libraries start, on one core."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def scan() -> dict[str, np.ndarray]:
    """Return the arrays of the scan."""
    with np.load(sys.argv[1]) as file:
        return dict(file)


def report(package: str, line: str, n_samp: int, work: Callable[[], object], detail: str = "") -> None:
    """Print nanoseconds of processor time a sample of the best of some calls, after one to warm up."""
    best = float("inf")
    with redirect_stdout(sys.stderr):
        work()
        for _ in range(_REPEATS):
            begin = time.process_time()
            work()
            best = min(best, time.process_time() - begin)
    name = f"{package} {version(package)}{detail}"
    print(json.dumps({"line": line, "peer": name, "value": 1e9 * best / n_samp}), file=_out, flush=True)


on_one_core()
