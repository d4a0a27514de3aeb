"""How long this process has been communicating: sending, receiving, and waiting for others."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Clock:
    """Wall seconds within calls that communicate; calls within each other count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._begin = 0.0

    def __enter__(self) -> None:
        if self._depth == 0:
            self._begin = time.perf_counter()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._begin


_clock = _Clock()


def communication_seconds() -> float:
    """Return the wall seconds that this process has communicated so far, waiting included."""
    return _clock.seconds


def communicates(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Count the time of each call of a function as communication; for the main thread alone."""

    @functools.wraps(function)
    def timed(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with _clock:
            return function(*args, **kwargs)

    return timed
