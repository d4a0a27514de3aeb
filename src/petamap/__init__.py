"""petamap: maximum-likelihood maps of the microwave sky from time streams, at any scale."""

from petacomm import __version__

__all__ = ["__version__"]
