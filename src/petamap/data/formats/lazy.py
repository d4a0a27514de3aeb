"""Pointing that is read from its file at first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from petamap.pointing.compressed import CompressedPointing


class LazyPointing(CompressedPointing):
    """Compressed pointing of known size whose quaternions are read at first use.

    Parameters
    ----------
    n_samp, n_det : int
        Number of samples and detectors.
    load : callable
        Reads the pointing. Called once, or more often if several threads need it at the same time.
    """

    def __init__(self, n_samp: int, n_det: int, load: Callable[[], CompressedPointing]) -> None:
        self._n_samp, self._n_det, self._load = n_samp, n_det, load

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        return self._n_det

    def of_detectors(self, numbers: Sequence[int]) -> LazyPointing:
        """Return the pointing of some of the detectors, which is read at first use, too."""
        return LazyPointing(self.n_samp, len(numbers), lambda: self._load().of_detectors(numbers))

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that are not set yet.
        if name == "_load" or name.startswith("__"):
            raise AttributeError(name)
        for key, value in vars(self._load()).items():
            self.__dict__.setdefault(key, value)
        if name not in self.__dict__:
            raise AttributeError(name)
        return self.__dict__[name]
