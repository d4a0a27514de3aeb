"""Machines, their networks, and where the ranks of a job run on them.

Machine descriptions read from TOML files; tori, meshes, fat trees and clique hierarchies with numbered nodes
and links; the allocation of a job, detected from the running system.

Must not import: `petacomm.schedule` and the rooms above it.
"""

from pathlib import Path

from petacomm.base.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, Path(__file__).with_suffix(".pyi"))
