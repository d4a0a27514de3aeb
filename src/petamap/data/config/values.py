"""Conversion of parsed values to the types and units of options."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.units import parse_percentage, parse_quantity, split_quantity
from petamap.data.config.document import Value
from petamap.data.config.fields import OptionField

_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,127}", re.ASCII)
_PATTERN = re.compile(r"[A-Za-z0-9_.+*?\[\]!-]{1,128}", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def is_name(text: str) -> bool:
    """Return whether text is a name, of a run or observation, as file names may have it."""
    return _NAME.fullmatch(text) is not None


class BadValue(ConfigError):
    """Error of a value that its option does not allow, with its line."""

    def __init__(self, what: str, line: int, mend: str | None = None) -> None:
        super().__init__(what, mend=mend)
        self.line = line


def convert_value(field: OptionField, value: Value, name: str, folder: Path) -> object:
    """Return the value of an option: in internal units, tuples for lists, paths as written.

    Parameters
    ----------
    field : OptionField
        Option.
    value : Value
        Parsed value.
    name : str
        Full name of the option, for messages.
    folder : Path
        Folder that relative paths refer to.

    Raises
    ------
    BadValue
        If the option does not allow the value.
    """
    if field.length is None:
        return _scalar(field, value, name, folder)
    if value.untyped and value.raw == "":
        return _sequence(field, Value([], value.line), name, folder)
    return _sequence(field, value, name, folder)


def _sequence(field: OptionField, value: Value, name: str, folder: Path) -> tuple[object, ...]:
    if not isinstance(value.raw, list):
        raise BadValue(
            f"{name} must be a list, not {_shown(value.raw)}", value.line, f"each: {field.allowed()}"
        )
    if field.length and len(value.raw) != field.length:
        raise BadValue(f"{name} must have {field.length} items, not {len(value.raw)}", value.line)
    return tuple(
        _scalar(field, value.item(index), f"{name}[{index}]", folder) for index in range(len(value.raw))
    )


def _scalar(field: OptionField, value: Value, name: str, folder: Path) -> object:
    try:
        if field.word is not None and value.raw == field.word:
            return field.word
        if field.whole is not None and isinstance(value.raw, str) and "%" in value.raw:
            parse_percentage(value.raw, field.whole)
            return value.raw
        if field.dimension:
            return _within(field, _with_unit(field, value), value, name)
        if field.scalar is bool:
            return _bool(value)
        if field.scalar in (int, float):
            return _within(field, _number(field, value), value, name)
        return _text(field, value, name, folder)
    except BadValue:
        raise
    except ConfigError as error:  # unknown unit, no percentage
        raise BadValue(f"{name}: {error.what}", value.line, error.mend) from None
    except (TypeError, OverflowError, ValueError):
        wanted = f"{name} must be {field.allowed()}, not {_shown(value.raw)}"
        raise BadValue(wanted, value.line, _mend(field, value)) from None


def _shown(raw: object) -> str:
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, list | dict):
        return "a list" if isinstance(raw, list) else "a table"
    text = f"'{raw}'" if isinstance(raw, str) else str(raw)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= 60 else text[:56] + "...'"


def _mend(field: OptionField, value: Value) -> str | None:
    raw = value.raw
    if field.dimension and isinstance(raw, int | float) and not isinstance(raw, bool):
        unit = (field.example or "").partition(" ")[2]
        return f'give the unit: "{raw} {unit}", if that is what you mean'
    if isinstance(raw, str) and field.scalar in (int, float) and not value.untyped and _NUMBER.fullmatch(raw):
        return "without the quotes"
    if isinstance(raw, str) and field.scalar is bool and raw.lower() in ("true", "false"):
        return f"write {raw.lower()}" + ("" if value.untyped else ", without quotes")
    return None


def _bool(value: Value) -> bool:
    if isinstance(value.raw, bool):
        return value.raw
    if value.untyped and value.raw in ("true", "false"):
        return value.raw == "true"
    raise TypeError


def _number(field: OptionField, value: Value) -> int | float:
    raw = value.raw
    if isinstance(raw, str) and value.untyped:
        pattern = _INTEGER if field.scalar is int else _NUMBER
        if not pattern.fullmatch(raw):
            raise TypeError
        return int(raw) if field.scalar is int else float(raw)
    if isinstance(raw, bool) or not isinstance(raw, int if field.scalar is int else (int, float)):
        raise TypeError
    return raw if field.scalar is int else float(raw)


def _with_unit(field: OptionField, value: Value) -> int | float:
    raw = value.raw
    if isinstance(raw, str):
        number = _quantity(raw, field, value)
    elif isinstance(raw, int | float) and not isinstance(raw, bool) and raw == 0:
        number = 0.0
    else:
        raise TypeError
    if field.scalar is float:
        return number
    if not math.isfinite(number) or number != int(number):
        raise TypeError
    return int(number)


def _quantity(text: str, field: OptionField, value: Value) -> float:
    if value.untyped and _NUMBER.fullmatch(text) and float(text) == 0:
        return 0.0
    number, _ = split_quantity(text)
    if _NUMBER.fullmatch(text.strip()) or not (_NUMBER.fullmatch(number) or number.lstrip("+-")[:3] in _ODD):
        raise TypeError
    assert field.dimension is not None
    return parse_quantity(text, field.dimension)


_ODD = ("inf", "nan")  # parsed as numbers, then rejected with the bounds


def _within(field: OptionField, number: int | float, value: Value, name: str) -> int | float:
    if not math.isfinite(number):
        raise BadValue(f"{name} must be finite, not {_shown(value.raw)}", value.line)
    low, high = field.minimum, field.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        what = f"{name} is out of bounds: {_shown(value.raw)}"
        raise BadValue(what, value.line, f"allowed: {field.bounds()}")
    if isinstance(number, int) and abs(number) >= 2**63:
        raise BadValue(f"{name} is too large for an integer", value.line)
    return number


def _text(field: OptionField, value: Value, name: str, folder: Path) -> str | Path:
    text = value.raw
    if not isinstance(text, str):
        raise TypeError
    if field.choices and text not in field.choices:
        mend = did_you_mean(text, list(field.choices))
        raise BadValue(f"{name} must be {field.allowed()}, not {_shown(text)}", value.line, mend)
    if not text.isprintable() or text != text.strip():
        what = f"{name} must be one line without control characters or blanks at its ends, not {_shown(text)}"
        raise BadValue(what, value.line)
    if text.startswith("!"):
        raise BadValue(f"{name} looks like a tag: {_shown(text)}", value.line, "tags are not understood")
    if not text and field.may_be_empty:
        return Path(text) if field.scalar is Path else text
    if (field.is_name and not is_name(text)) or (field.is_pattern and not _PATTERN.fullmatch(text)):
        raise TypeError
    if field.is_path:
        _check_path(field, text, value, name, folder)
    return Path(text) if field.scalar is Path else text


def _check_path(field: OptionField, text: str, value: Value, name: str, folder: Path) -> None:
    if not text:
        raise BadValue(f"{name} is an empty path", value.line, "leave the key out instead")
    if field.path and not _exists(folder / text):
        mend = None if Path(text).is_absolute() else f"relative paths start at {folder}"
        raise BadValue(f"{name}: there is no file {_shown(text)}", value.line, mend)


def move_path(content: Any, old: Path, new: Path) -> Any:
    """Return a path, or several, relative to one folder as such relative to another; absolute ones stay."""
    if isinstance(content, tuple):
        return tuple(move_path(item, old, new) for item in content)
    if not content or old == new or os.path.isabs(content):
        return content
    return content.__class__(os.path.relpath(old / content, new))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # name too long, or no permission to enter a folder
        return False
