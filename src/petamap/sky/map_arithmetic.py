"""Sums, differences, products and ratios of sky maps with maps, numbers and arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from petacomm.base.arguments import numeric_array, require_plain
from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import BoolArray, FloatArray
from petamap.sky.healpix import Healpix
from petamap.sky.map_units import product_unit, ratio_unit
from petamap.sky.numbered import NumberedPixels
from petamap.sky.partial_healpix import PartialHealpix
from petamap.sky.pixelization import Pixelization

if TYPE_CHECKING:
    from petamap.sky.sky_map import SkyMap

_VERBS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_Numbers = Callable[[FloatArray, FloatArray], FloatArray]


def combine_maps(one: SkyMap, symbol: str, other: SkyMap) -> SkyMap:
    """Return the sum, difference, product or ratio of two maps.

    A map of one column, such as hits or a mask, is multiplied with, and divides, each column of the other.
    What divides by 0 is nan.

    Raises
    ------
    DataError
        If pixels, frames, columns or polarization conventions differ, or the units of a sum or difference.
    """
    check_same_sky(one, other)
    names, pairs = _matched_columns(one, symbol, other)
    if symbol in "+-":
        units = _equal_units(names, pairs)
    else:
        of_two = product_unit if symbol == "*" else ratio_unit
        units = tuple(of_two(*pair) for pair in pairs)
    return replace(
        one,
        values=_computed(one.values, symbol, other.values),
        names=names,
        units=units,
        frame=one.frame or other.frame,
        polarization=one.polarization or other.polarization,
        warnings=one.warnings + tuple(w for w in other.warnings if w not in one.warnings),
    )


def combine_with_numbers(one: SkyMap, symbol: str, numbers: Any, swapped: bool = False) -> SkyMap:
    """Return a map combined with a number, or an array of a number per column, per pixel, or both.

    Numbers that are added are in the map's unit; others have none. `swapped` puts them first.

    Raises
    ------
    ConfigError
        If the array has another shape.
    DataError
        If it has a unit, or masked values.
    """
    require_plain(numbers, "numbers")
    array = np.asarray(numbers, np.float64)
    n_columns, n_pix = one.values.shape
    if array.shape == (n_columns,) and n_columns != n_pix:
        array = array[:, None]
    if array.shape not in ((), (n_pix,), (1, n_pix), (n_columns, 1), (n_columns, n_pix)):
        raise ConfigError(
            f"an array of shape {array.shape} with a map of {n_columns} columns on {n_pix} pixels",
            mend="give one number, one a column, or one a pixel",
        )
    pair = (array, one.values) if swapped else (one.values, array)
    values = np.broadcast_to(_computed(pair[0], symbol, pair[1]), one.values.shape)
    units = one.units
    if symbol == "/" and swapped:
        units = tuple(ratio_unit("", unit) for unit in units)
    return replace(one, values=np.ascontiguousarray(values), units=units)


def _computed(one: FloatArray, symbol: str, other: FloatArray) -> FloatArray:
    verb: _Numbers = _VERBS[symbol]
    if symbol == "/":
        other = np.where(other == 0, np.nan, other)
    return verb(one, other)


def _matched_columns(
    one: SkyMap, symbol: str, other: SkyMap
) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """Return the names of the columns of a result and the two units of each."""
    if one.names == other.names:
        return one.names, list(zip(one.units, other.units, strict=True))
    if symbol in "*/" and len(other.names) == 1:
        return one.names, [(unit, other.units[0]) for unit in one.units]
    if symbol == "*" and len(one.names) == 1:
        return other.names, [(one.units[0], unit) for unit in other.units]
    raise DataError(
        f"columns {', '.join(one.names)} and {', '.join(other.names)} differ",
        mend='take columns by name: sky_map["I"], sky_map["Q", "U"]',
    )


def _equal_units(names: tuple[str, ...], pairs: list[tuple[str, str]]) -> tuple[str, ...]:
    for name, (one, other) in zip(names, pairs, strict=True):
        if one != other:
            raise DataError(
                f"{name} is in {one or 'no unit'} and in {other or 'no unit'}",
                mend="convert one with to_unit, or say its unit with dataclasses.replace(sky_map, units=...)",
            )
    return tuple(one for one, _ in pairs)


def check_same_sky(one: SkyMap, other: SkyMap) -> None:
    """Raise a DataError unless two maps have the same pixels, frame and polarization convention."""
    a, b = one.pixelization, other.pixelization
    if not same_pixels(a, b):
        mend = None
        if isinstance(a, Healpix | PartialHealpix) and isinstance(b, Healpix | PartialHealpix):
            mend = "bring both to all pixels of the sky by whole()"
            if a.n_side != b.n_side:
                mend = "degrade the finer map"
            elif a.nest != b.nest:
                mend = "bring one to the order of the other by reordered()"
        raise DataError(f"the pixels of two maps differ: {_told(a)} and {_told(b)}", mend=mend)
    if one.frame and other.frame and one.frame != other.frame:
        raise DataError(f"one map is {one.frame}, the other {other.frame}", mend="make both in one frame")
    if one.polarization and other.polarization and one.polarization != other.polarization:
        raise DataError(f"polarization is {one.polarization} in one map, {other.polarization} in the other")


def same_pixels(one: Pixelization, other: Pixelization) -> bool:
    """Return whether pixels of the same number are the same in two pixelizations."""
    if not (isinstance(one, NumberedPixels) and isinstance(other, NumberedPixels)):
        return one == other
    a, b = one.layout, other.layout
    if a is None or b is None:
        return a is b and one.n_pix == other.n_pix
    return a.shape == b.shape and np.array_equal(a.index, b.index)


def _told(pixelization: Pixelization) -> str:
    facts = pixelization.describe()
    return " ".join(f"{name} {value}" if name != "kind" else str(value) for name, value in facts.items())


def keep_pixels(one: SkyMap, mask: SkyMap | Any) -> BoolArray:
    """Return where a mask keeps pixels of a map, bool (n_pix,): where it is True, or above 0.

    Raises
    ------
    DataError
        If the mask is on other pixels, a map of several columns, or has masked values.
    """
    if hasattr(mask, "pixelization"):
        check_same_sky(one, mask)
        if len(mask.values) != 1:
            raise DataError(f"a mask of {len(mask.values)} columns", mend='take one: mask["I"]')
        mask = mask.values[0]
    array = numeric_array(mask, "mask")
    if array.shape != one.values.shape[1:]:
        raise DataError(f"a mask of shape {array.shape} for {one.values.shape[1]} pixels")
    return array if array.dtype == bool else np.nan_to_num(array) > 0
