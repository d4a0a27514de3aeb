"""Communication schedules of collectives: algorithms, their choice, and a checker.

A schedule lists the messages of a collective in rounds. It can be verified, replayed on arrays, executed over
MPI (`petacomm.collectives`), timed (`petacomm.network`) and drawn (`petacomm.report`).

Must not import: `petacomm.network`, `petacomm.collectives` and the rooms above them.
"""

from pathlib import Path

from petacomm.base.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, Path(__file__).with_suffix(".pyi"))
