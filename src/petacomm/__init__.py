"""petacomm: reductions, collectives, redistribution, mapping and network models for jobs that must scale.

All names of ``dir(petacomm)`` are imported at first use.
"""

import os
from pathlib import Path

from petacomm.base.lazy import lazy_exports

__version__ = "0.1.0"

# Waiting threads must sleep, not spin: with more threads than free cores (ranks beside each other, a shared
# machine) spinning made iterations 20 times slower. GCC's look 300 times before they do, some microseconds: a
# call of a kernel often follows another. OpenMP reads this when a kernel is first loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("GOMP_SPINCOUNT", "300")

# ducc0 takes this for a number, and fails where it has one for each level, as "8,1"; 0: all that there are.
_asked = os.environ.get("OMP_NUM_THREADS", "").strip()
if _asked and not _asked.isdecimal():
    _first = _asked.partition(",")[0].strip()
    os.environ.setdefault("DUCC0_NUM_THREADS", _first if _first.isdecimal() else "0")


def _end_threads() -> None:
    from petacomm.base._base import end_threads

    end_threads()


# OpenMP of GCC waits for ever, in a process that is forked, for the threads that it had before: as pools of
# `multiprocessing` do. Both processes start others when they need some.
os.register_at_fork(before=_end_threads)

__getattr__, __dir__, __all__ = lazy_exports(__name__, Path(__file__).with_suffix(".pyi"))
