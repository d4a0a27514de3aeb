"""Columns of sky maps: that names, units and pixels fit the values, and how columns are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from petacomm.base.errors import ConfigError, DataError, require_known
from petacomm.base.typing import FloatArray
from petamap.sky.map_conventions import FRAME_LETTERS
from petamap.sky.pixelization import Pixelization


def checked_columns(
    values: FloatArray,
    pixelization: Pixelization,
    names: str | Sequence[str],
    units: str | Sequence[str],
    frame: str | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names and units of columns (n_columns, n_pix); one unit is that of all.

    Raises
    ------
    DataError
        If their numbers, or that of the pixels, are not those of the values.
    ConfigError
        If the frame is not known.
    """
    n_columns, n_pix = values.shape
    if n_pix != pixelization.n_pix:
        raise DataError(f"values on {n_pix} pixels for {pixelization.n_pix} pixels of {pixelization}")
    units = (units,) * n_columns if isinstance(units, str) else tuple(units)
    for what, found in (("names", names), ("units", units)):
        if len(found) != n_columns:
            raise DataError(f"{len(found)} {what} for {n_columns} columns")
    if frame is not None:
        require_known("unknown frame", frame, tuple(FRAME_LETTERS))
    return tuple(names), units


def requested_columns(names: Any) -> tuple[str, ...]:
    """Return names of columns, one or a sequence of them.

    Raises
    ------
    ConfigError
        If it is a number or a range.
    """
    found = (names,) if isinstance(names, str) or not isinstance(names, Sequence) else tuple(names)
    if not all(isinstance(name, str) for name in found):
        raise ConfigError(
            "columns are asked for by name",
            mend='sky_map["I"], sky_map["Q", "U"]; arrays are sky_map.values and sky_map.to_healpy()',
        )
    return found


def map_as_array_error(pixelization: Pixelization) -> ConfigError:
    """Return the error of a map that is taken for an array, whose order would not be known."""
    return ConfigError(
        f"a map on {type(pixelization).__name__} is no array",
        mend="take sky_map.values, (n_columns, n_pix), or sky_map.to_healpy(), sky_map.to_enmap()",
    )
