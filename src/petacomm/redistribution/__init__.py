"""Redistribution of arrays, parallel FFTs and halo exchanges, by the fastest of several methods.

Must not import: sharing, costs, reduction, mapping or higher rooms.
"""

from pathlib import Path

from petacomm.base.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, Path(__file__).with_suffix(".pyi"))
