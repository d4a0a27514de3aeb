"""Columns of a table: which of them are time, pointing, signal and flags of which detector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from petacomm.base.errors import ConfigError, DataError, UserError, printable
from petacomm.base.typing import AnyArray

_SHOWN = 30  # columns that a message names
_POINTING = ("lon", "lat", "psi")
_RESPONSE = ("response_i", "response_q", "response_u")
_SAMPLES = ("signal", "flags", "gain", "weight", "pixel", *_RESPONSE)
_MAY_BE_EMPTY = ("time", "psi", "signal")
_OPTIONAL = {"flags": "flags"}  # columns that may be missing under this name


class TableFile(Protocol):
    """Table whose columns are read by name."""

    path: Path
    names: tuple[str, ...]

    def unit(self, name: str) -> str:
        """Return the unit of a column, empty if the file tells none."""

    def place(self, row: int, name: str) -> str:
        """Return the place of a number, for messages."""

    def read_columns(self, names: Sequence[str]) -> Mapping[str, AnyArray]:
        """Return columns by name, of numbers or bool (n_rows,)."""


@dataclass(frozen=True)
class TableLayout:
    """Columns of an observation.

    Attributes
    ----------
    detectors : tuple of str
    time, lon, lat, psi : str
        Columns that all detectors share; empty for none.
    signal, flags, gain, weight : tuple of str
        Column of each detector; empty for none.
    pixel, response_i, response_q, response_u : tuple of str
        Pixel numbers, and responses to I, Q, U; empty for none.
    psi_each : tuple of str
        Polarization angles beside pixel numbers; empty for none.
    of_detector : bool
        Whether the pointing is of the only detector, in a table of several.
    """

    detectors: tuple[str, ...]
    time: str
    lon: str
    lat: str
    psi: str
    signal: tuple[str, ...]
    flags: tuple[str, ...]
    gain: tuple[str, ...]
    weight: tuple[str, ...]
    pixel: tuple[str, ...] = ()
    response_i: tuple[str, ...] = ()
    response_q: tuple[str, ...] = ()
    response_u: tuple[str, ...] = ()
    psi_each: tuple[str, ...] = ()
    of_detector: bool = False

    def columns(self) -> list[str]:
        """Return the names of all columns, each once."""
        shared = (self.time, self.lon, self.lat, self.psi)
        each = (
            *self.signal, *self.flags, *self.gain, *self.weight, *self.pixel, *self.response_i,
            *self.response_q, *self.response_u, *self.psi_each,
        )  # fmt: skip
        return list(dict.fromkeys(name for name in (*shared, *each) if name))


def find_layouts(
    table: TableFile, wanted: Mapping[str, str], places: Mapping[str, str], detectors: Sequence[str] = ()
) -> list[TableLayout]:
    """Return the columns of each observation of a table: one, or one a detector if pointing is its own.

    Parameters
    ----------
    table : TableFile
    wanted : mapping of str to str
        Names of the columns by option, in which ``*`` stands for the name of a detector; empty for none.
    places : mapping of str to str
        Place of each option that the configuration sets.
    detectors : sequence of str
        Names of the detectors where no column has a ``*``.

    Raises
    ------
    ConfigError, DataError
        If there is no such column; a ConfigError where the configuration names it.
    """
    finder = _ColumnFinder(table, wanted, places)
    names = finder.detectors() or tuple(detectors) or (finder.only(),)
    own = [key for key in _POINTING if "*" in wanted[key]]
    each: dict[str, Any] = {
        key: tuple(c for name in names if (c := finder.column(key, name))) for key in _SAMPLES
    }
    if wanted.get("pixel"):
        angles = tuple(c for name in names if (c := finder.column("psi", name)))
        return [TableLayout(names, finder.column("time"), "", "", "", **each, psi_each=angles)]
    shared: dict[str, Any] = {key: finder.column(key) for key in ("time", *_POINTING) if key not in own}
    if not own:
        return [TableLayout(names, **shared, **each)]
    return [
        TableLayout(
            (name,),
            **shared | {key: finder.column(key, name) for key in own},
            **{key: columns[k : k + 1] for key, columns in each.items()},
            of_detector=len(names) > 1,
        )
        for k, name in enumerate(names)
    ]


def find_column(table: TableFile, key: str, name: str, detector: str, places: Mapping[str, str]) -> str:
    """Return the column of a detector that an option names.

    Parameters
    ----------
    table : TableFile
    key, name : str
        The option and its name of a column, in which ``*`` stands for the detector.
    detector : str
    places : mapping of str to str
        Place of each option that the configuration sets.

    Raises
    ------
    ConfigError, DataError
        If there is no such column; a ConfigError where the configuration names it.
    """
    return _ColumnFinder(table, {key: name}, places).column(key, detector)


class _ColumnFinder:
    """Finds columns by names in which ``*`` may stand for a detector; capitals make no difference."""

    def __init__(self, table: TableFile, wanted: Mapping[str, str], places: Mapping[str, str]) -> None:
        self._table, self._wanted, self._places = table, wanted, places
        for key, name in wanted.items():
            if name.count("*") > 1 or ("*" in name and key == "time"):
                raise ConfigError(
                    f"{key} = '{name}' has a * that stands for no detector", where=places.get(key)
                )

    def detectors(self) -> tuple[str, ...]:
        """Return the names of detectors that stand in the columns, in their order; none without a ``*``."""
        naming = ("signal", *_POINTING, "pixel", *_RESPONSE)
        key = next((key for key in naming if "*" in self._wanted[key]), None)
        if key is None:
            return ()
        taken = {self._match(name) for name in self._wanted.values() if name and "*" not in name}
        special = [
            name for name in self._wanted.values() if "*" in name and len(name) > len(self._wanted[key])
        ]
        found = tuple(
            detector
            for column in self._table.names
            if column not in taken and not any(_star(name, column) for name in special)
            if (detector := _star(self._wanted[key], column))
        )
        if not found:
            raise self._missing(key, self._wanted[key])
        return found

    def only(self) -> str:
        """Return the name of the only detector: that of the column of the signal."""
        return self._match(self._wanted["signal"]) or self._wanted["signal"] or "boresight"

    def column(self, key: str, detector: str = "") -> str:
        """Return the column of an option for a detector; empty for none."""
        name = self._wanted[key].replace("*", detector)
        if not name:
            return ""
        found = self._match(name)
        if not found and _OPTIONAL.get(key) != name:
            raise self._missing(key, name)
        return found

    def _match(self, name: str) -> str:
        """Return the column of a name, exact or but for capitals; empty for none."""
        names = self._table.names
        same = [each for each in names if each == name] or [
            each for each in names if each.casefold() == name.casefold()
        ]
        if name and len(same) > 1:
            raise DataError(
                f"{len(same)} columns are called '{printable(name)}'", where=str(self._table.path)
            )
        return same[0] if name and same else ""

    def _missing(self, key: str, name: str) -> UserError:
        known = ", ".join(printable(each) for each in self._table.names[:_SHOWN])
        mend = f"columns: {known}" + ", ..." * (len(self._table.names) > _SHOWN)
        if key in self._places:
            what = f"{self._table.path} has no column '{printable(name)}'"
            return ConfigError(what, where=self._places[key], mend=mend)
        what = f"has no column '{printable(name)}'"
        none = ', or "" for none' if key in _MAY_BE_EMPTY else ""
        return DataError(what, where=str(self._table.path), mend=f'name it by {key} = "..."{none}; {mend}')


def _star(pattern: str, column: str) -> str:
    """Return what ``*`` of a pattern stands for in a column; empty if the pattern does not fit."""
    before, _, after = pattern.partition("*")
    text, n = column.casefold(), len(column) - len(after)
    fits = text.startswith(before.casefold()) and text.endswith(after.casefold()) and n > len(before)
    return column[len(before) : n] if fits else ""
