"""Pointing that is read from its file when it is first asked for, by those ranks that ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from petamap.pointing.compressed import CompressedPointing


class LazyPointing(CompressedPointing):
    """Compressed pointing of known size whose quaternions are read at first use.

    Parameters
    ----------
    n_samp, n_det : int
        Its size.
    load : callable
        Reads the pointing; asked once, or more often where threads meet.
    """

    def __init__(self, n_samp: int, n_det: int, load: Callable[[], CompressedPointing]) -> None:
        self._n_samp, self._n_det, self._load = n_samp, n_det, load

    @property
    def n_samp(self) -> int:
        """Samples of the observation."""
        return self._n_samp

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        return self._n_det

    def __getattr__(self, name: str) -> Any:
        # Only asked for what is not there yet.
        if name == "_load" or name.startswith("__"):
            raise AttributeError(name)
        for key, value in vars(self._load()).items():
            self.__dict__.setdefault(key, value)
        if name not in self.__dict__:
            raise AttributeError(name)
        return self.__dict__[name]
