"""Performance models of communication: alpha-beta, link loads and packet simulation.

Must not import: `petacomm.sharing` and the rooms above it, nor `petacomm.collectives`.
"""

from pathlib import Path

from petacomm.base.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, Path(__file__).with_suffix(".pyi"))
