"""Methods that an object hands to its own parts, which must not keep it alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def weak_method(method: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function that calls a method of an object without keeping the object alive.

    A part of an object that had the method itself would make a cycle with it: the object and the gigabytes
    that it may hold would be freed when garbage is collected at last, and not with the last use of it.

    Examples
    --------
    >>> import functools
    >>> class Squares:
    ...     def __init__(self):
    ...         self.of = functools.lru_cache(weak_method(self._make))
    ...     def _make(self, x):
    ...         return x * x
    >>> squares = Squares()
    >>> squares.of(3)
    9
    """
    reference = weakref.WeakMethod(method)

    def call(*arguments: object) -> Result:
        bound = reference()
        assert bound is not None, "called by a part of the object"
        return bound(*arguments)

    return call
