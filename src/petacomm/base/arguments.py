"""Arrays, numbers and text that users give to public functions, checked where they enter."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petacomm.base.units import quantity_of


def numeric_array(values: Any, what: str, n_dim: int | None = None) -> AnyArray:
    """Return real numbers as an array of their own type, not copied where they are one.

    Parameters
    ----------
    values : array or nested sequences of numbers
    what : str
        What they are, for errors.
    n_dim : int, optional
        Dimensions that the array must have.

    Raises
    ------
    DataError
        If they are no real numbers, or the array has other dimensions; also if it has a unit, or masked
        values, of which nothing would be left.
    """
    require_plain(values, what)
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # rows of different lengths
        raise DataError("is no array of numbers", where=what) from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"is an array of {array.dtype}, not of real numbers", where=what)
    if n_dim is not None and array.ndim != n_dim:
        raise DataError(f"has the shape {array.shape}, not {n_dim} axes", where=what)
    return array


def require_plain(values: Any, what: str) -> None:
    """Raise a DataError for quantities of astropy with a unit, and for arrays with masked values."""
    quantity = quantity_of(values)
    if quantity is not None and str(quantity.unit):
        raise DataError(
            f"is in '{quantity.unit}'", where=what, mend="give plain numbers, as of .to_value(unit)"
        )
    if isinstance(values, np.ndarray) and np.any(getattr(values, "mask", False)):
        raise DataError("has masked values", where=what, mend="fill them, or flag their samples")


def real_array(values: Any, what: str, n_dim: int | None = None) -> FloatArray:
    """Return real numbers as an array of float64, as `numeric_array` does, and with its errors."""
    return np.asarray(numeric_array(values, what, n_dim), np.float64)


def require_integer(value: Any, what: str, least: int, most: int = 2**63 - 1) -> int:
    """Return a whole number; raise a ConfigError unless it is one from `least` to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ConfigError(f"must be a whole number, not {value!r:.100}", where=what) from None
    if not least <= number <= most:
        raise ConfigError(f"{number:.3g} is not between {least} and {most}", where=what)
    return number


def whole_array(values: Any, what: str) -> Int64Array:
    """Return whole numbers as an array; raise a ConfigError if one is none, or too large for 64 bits."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):  # rows of different lengths
        array = np.array(None)
    if array.size and not (array.dtype.kind in "iu" and array.max() < 2**63):
        raise ConfigError(f"must be whole numbers, not {array.dtype} {values!r:.100}", where=what)
    return array.astype(np.int64, copy=False)


def require_arrays(**values: Any) -> None:
    """Raise a DataError unless all are arrays of NumPy."""
    for name, value in values.items():
        if not isinstance(value, np.ndarray):
            raise DataError(f"must be an array of NumPy, not {type(value).__name__}", where=name)


def whole_numbers(values: Any, what: str) -> tuple[int, ...]:
    """Return whole numbers as a tuple; raise a ConfigError if one is none."""
    try:
        return tuple(operator.index(value) for value in values)
    except TypeError:
        raise ConfigError(f"must be whole numbers, not {values!r:.100}", where=what) from None


def require_real(value: Any, what: str, least: float, most: float) -> float:
    """Return a finite number; raise a ConfigError unless it is one from `least` to `most`."""
    try:
        number = float(value) if not isinstance(value, complex | str | bytes) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and least <= number <= most):
        raise ConfigError(f"must be a number from {least:g} to {most:g}, not {value!r:.100}", where=what)
    return number


def require_dtype(value: Any, what: str = "dtype") -> np.dtype[Any]:
    """Return a dtype of NumPy; raise a ConfigError if a value names none."""
    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except (TypeError, ValueError):  # as of fields that are twice in a structure
        raise ConfigError(
            f"is no dtype of NumPy: {value!r:.100}", where=what, mend="give one, like numpy.float64"
        ) from None
    return dtype


def require_instance(value: Any, what: str, kind: type, mend: str | None = None) -> None:
    """Raise a ConfigError unless a value is an object of a class."""
    error = instance_error(value, what, kind, mend)
    if error is not None:
        raise error


def instance_error(value: Any, what: str, kind: type, mend: str | None = None) -> ConfigError | None:
    """Return the error of a value that is no object of a class, for `agree`; None if it is one."""
    if isinstance(value, kind):
        return None
    return ConfigError(f"must be of class {kind.__name__}, not {type(value).__name__}", where=what, mend=mend)


def require_text(value: Any, what: str, mend: str | None = None) -> str:
    """Return text; raise a ConfigError if it is none."""
    if not isinstance(value, str):
        raise ConfigError(f"must be text, not {type(value).__name__}", where=what, mend=mend)
    return value
