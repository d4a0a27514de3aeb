"""Conversion of frozen dataclasses to and from JSON, and their JSON schemas.

The fields of a record are scalars, other records, tuples of one type, or optional ones of these. JSON has no
numbers that are not finite; they are written as the strings ``"nan"``, ``"inf"`` and ``"-inf"``.
"""

from __future__ import annotations

import dataclasses
import math
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from petacomm.base.errors import DataError, did_you_mean

Record = TypeVar("Record")

_NOT_FINITE = ("nan", "inf", "-inf")
_SCALARS: dict[type, str] = {bool: "boolean", int: "integer", str: "string"}


def to_json(value: Any) -> Any:
    """Return a record, or a part of one, as objects for `json.dump`."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def from_json(record_type: type[Record], value: Any, where: str = "") -> Record:
    """Return the record of type `record_type` that `to_json` wrote.

    Raises
    ------
    DataError
        If a key is missing, unknown or of another type, with the place as ``file: a.b[3]``.
    """
    read: Record = _read(record_type, value, where)
    return read


def json_schema(record_type: type, title: str) -> dict[str, Any]:
    """Return the JSON schema (2020-12) of a record type, described by the help lines of its fields."""
    definitions: dict[str, Any] = {}
    top = _schema(record_type, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **top,
        "$defs": definitions,
    }


def _alternatives(kind: Any) -> tuple[Any, bool]:
    """Return (T, True) for ``T | None`` and (T, False) for any other T."""
    if get_origin(kind) in (Union, UnionType):
        (only,) = (part for part in get_args(kind) if part is not NoneType)
        return only, True
    return kind, False


def _read(kind: Any, value: Any, where: str) -> Any:
    kind, optional = _alternatives(kind)
    if optional and value is None:
        return None
    if dataclasses.is_dataclass(kind):
        return _read_record(kind, value, where)
    if get_origin(kind) is tuple:
        _expect(isinstance(value, list), "a list", value, where)
        return tuple(_read(get_args(kind)[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        _expect(number or value in _NOT_FINITE, "a number", value, where)
        return float(value)
    _expect(
        isinstance(value, kind) and (kind is bool or not isinstance(value, bool)), kind.__name__, value, where
    )
    return value


def _read_record(kind: Any, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), "an object", value, where)
    hints = get_type_hints(kind)
    for key in value:
        if key not in hints:
            raise DataError(f"unknown key '{key}'", where=where, mend=did_you_mean(key, list(hints)))
    defaults = {field.name for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING}
    missing = [name for name in hints if name not in value and name not in defaults]
    if missing:
        raise DataError(f"'{missing[0]}' is missing", where=where, mend="run again to write it anew")
    known = {
        name: _read(hints[name], value[name], f"{where} {name}".strip()) for name in hints if name in value
    }
    for field in dataclasses.fields(kind):
        choices = field.metadata.get("choices")
        if choices and field.name in known and known[field.name] not in choices:
            what = f"unknown {field.name} '{known[field.name]}'"
            raise DataError(what, where=where, mend=did_you_mean(str(known[field.name]), choices))
    return kind(**known)


def _expect(valid: bool, wanted: str, value: Any, where: str) -> None:
    if not valid:
        raise DataError(f"expected {wanted}, found {value!r:.60}", where=where)


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    kind, optional = _alternatives(kind)
    if optional:
        return {"anyOf": [_schema(kind, definitions), {"type": "null"}]}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _schema(get_args(kind)[0], definitions)}
    if kind is float:
        return {"anyOf": [{"type": "number"}, {"enum": list(_NOT_FINITE)}]}
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = _schema_of_record(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _schema_of_record(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    properties = {}
    for field in dataclasses.fields(kind):
        schema = _schema(hints[field.name], definitions) | {"description": field.metadata["help"]}
        if field.metadata["choices"]:
            schema["enum"] = list(field.metadata["choices"])
        if field.metadata["minimum"] is not None:
            schema["minimum"] = field.metadata["minimum"]
        properties[field.name] = schema
    return {
        "type": "object",
        "description": (kind.__doc__ or "").splitlines()[0],
        "properties": properties,
        "required": [
            field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING
        ],
        "additionalProperties": False,
    }
