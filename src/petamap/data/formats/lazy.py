"""Pointing that is read from its file when it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy.typing as npt

from petacomm.base.typing import FloatArray
from petamap.pointing.compressed import CompressedPointing


class LazyPointing(CompressedPointing):
    """Compressed pointing of known size whose quaternions are read at first use, and anew after `release`.

    Parameters
    ----------
    n_samp, n_det : int
        Number of samples and detectors.
    load : callable
        Reads the pointing.
    """

    def __init__(self, n_samp: int, n_det: int, load: Callable[[], CompressedPointing]) -> None:
        self._n_samp, self._n_det, self._load = n_samp, n_det, load
        self._lock = Lock()

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        return self._n_det

    def of_detectors(self, numbers: Sequence[int]) -> LazyPointing:
        """Return the pointing of some of the detectors, which is read at first use, too."""
        return LazyPointing(self.n_samp, len(numbers), lambda: self._load().of_detectors(numbers))

    def rotated(self, rotation: npt.ArrayLike) -> LazyPointing:
        """Return the pointing in another sky frame, which is read at first use, too."""
        return LazyPointing(self.n_samp, self.n_det, lambda: self._load().rotated(rotation))

    def turned(self, rotations: Callable[[FloatArray], FloatArray]) -> LazyPointing:
        """Return the pointing in a frame that moves, which is read at first use, too."""
        return LazyPointing(self.n_samp, self.n_det, lambda: self._load().turned(rotations))

    def release(self) -> None:
        """Forget what was read, when nothing else uses it for now."""
        kept = ("_n_samp", "_n_det", "_load", "_lock")
        for name in [name for name in vars(self) if name not in kept]:
            del self.__dict__[name]

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that are not set yet.
        if name in ("_load", "_lock") or name.startswith("__"):
            raise AttributeError(name)
        with self._lock:
            if name not in self.__dict__:
                for key, value in vars(self._load()).items():
                    self.__dict__.setdefault(key, value)
        if name not in self.__dict__:
            raise AttributeError(name)
        return self.__dict__[name]
