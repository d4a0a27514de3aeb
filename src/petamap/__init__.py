"""petamap: maximum-likelihood maps of the microwave sky from time streams, at any scale."""

__version__ = "0.1.0"
