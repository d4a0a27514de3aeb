"""What reductions combine values by: names, or functions of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np

from petacomm.base.errors import STOPS, did_you_mean
from petacomm.base.typing import AnyArray, BoolArray
from petacomm.schedule import ScheduleError

# A function takes two flat arrays of one length, parts of the vectors of two sets of ranks, and returns a
# third, element by element.
Combination: TypeAlias = Callable[[Any, Any], Any]
Reduction: TypeAlias = Literal["sum", "max", "min", "or", "maxloc", "minloc"] | Combination


def _maxloc(one: AnyArray, other: AnyArray) -> AnyArray:
    return np.where(_is_beyond(one, other, np.greater), other, one)


def _minloc(one: AnyArray, other: AnyArray) -> AnyArray:
    return np.where(_is_beyond(one, other, np.less), other, one)


def _is_beyond(one: AnyArray, other: AnyArray, compare: Callable[..., Any]) -> BoolArray:
    """Return where the other value is to be taken: beyond, or the same at a lower place; NaN is beyond."""
    value, place = one.dtype.names or ()
    a, b = one[value], other[value]
    a_is_none, b_is_none = a != a, b != b
    same = (a == b) | (a_is_none & b_is_none)
    return np.asarray(
        (compare(b, a) & ~a_is_none) | (b_is_none & ~a_is_none) | (same & (other[place] < one[place]))
    )


OPERATIONS: dict[str, Combination] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.bitwise_or,
    "maxloc": _maxloc,
    "minloc": _minloc,
}


def combining_function(op: Reduction, dtype: np.dtype[Any]) -> Combination:
    """Return the function of a reduction, tried on an element.

    Raises
    ------
    ScheduleError
        If there is none of that name, or it cannot combine elements of the type.
    """
    if not callable(op):
        if not isinstance(op, str) or op not in OPERATIONS:
            raise ScheduleError(
                f"unknown operation '{op!s:.40}'", mend=did_you_mean(str(op), list(OPERATIONS))
            )
        if op in ("maxloc", "minloc") and len(dtype.names or ()) != 2:
            raise ScheduleError(
                f"'{op}' of elements of {dtype}", mend="give a structured array of values and places"
            )
    function = op if callable(op) else OPERATIONS[op]
    one = np.zeros(1, dtype)
    try:
        found = np.asarray(function(one, one.copy()))
        one[...] = found
    except STOPS:
        raise
    except Exception as error:  # of the user's function: it may raise any
        raise ScheduleError(
            f"'{operation_name(op)}' cannot combine elements of {dtype}: {error}",
            mend="choose another operation, or another type",
        ) from None
    if found.shape != one.shape:
        raise ScheduleError(
            f"'{operation_name(op)}' makes {found.shape} of two arrays of {one.shape}",
            mend="combine element by element",
        )
    return function


def operation_name(op: Reduction) -> str:
    """Return the name of a reduction, by which ranks see whether they ask for the same."""
    return op if isinstance(op, str) else getattr(op, "__qualname__", type(op).__qualname__)
