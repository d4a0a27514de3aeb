"""petamap: maximum-likelihood maps of the microwave sky from time streams, at any scale.

All names of ``dir(petamap)`` are imported at first use.
"""

from pathlib import Path

from petacomm import __version__ as __version__
from petacomm.base.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, Path(__file__).with_suffix(".pyi"))
