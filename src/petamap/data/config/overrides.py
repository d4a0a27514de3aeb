"""Overrides ``key=value`` on the command line: ``solver.tolerance=1e-8``, ``source.satellite.duration=2 h``.

A source goes by its kind, or by its number, counted from 0; a split, band or component by its name or number.

Values are written as in TOML, with bare words for text; the names of a list are separated by commas. A
relative path on the command line refers to the working directory (which a shell completes), a relative path
in a file to the folder of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from petacomm.base.errors import ConfigError, closest, did_you_mean
from petacomm.base.toml import parse_toml
from petamap.data.config.document import Document, DocumentTable, Value
from petamap.data.config.fields import option_fields
from petamap.data.config.model import REPEATED, SECTIONS
from petamap.data.config.pixel_options import without_replaced
from petamap.data.config.source_kinds import options_class


def override_document(document: Document, overrides: Sequence[str]) -> None:
    """Apply overrides to a document; invalid ones are added to its problems."""
    replaced = set()
    for text in overrides:
        try:
            replaced.add(_replace(document, text))
        except ConfigError as error:
            document.problems.add(0, error.what, error.mend)
    _drop_replaced(document, replaced)


def _drop_replaced(document: Document, replaced: set[str]) -> None:
    """Drop what files say of pixels of another kind than the overrides, whose keys are given, ask for."""
    table = document.sections.get("map")
    if table is not None and "map.pixelization" in replaced and "pixelization" in table.values:
        own = {key: value for key, value in table.values.items() if f"map.{key}" in replaced}
        table.values = without_replaced(table.values, table.values["pixelization"].raw) | own


def _replace(document: Document, text: str) -> str:
    """Apply an override to a document and return its key."""
    if not isinstance(text, str):
        what = f"an override must be text, not {type(text).__name__}"
        raise ConfigError(what, mend='write e.g. "solver.tolerance=1e-8"')
    name, equals, written = text.partition("=")
    parts = name.strip().split(".")
    if not equals or len(parts) < 2:
        raise ConfigError(f"'{text}' is not key=value", mend="write e.g. solver.tolerance=1e-8")
    if parts[0] == "source":
        table = _repeated_table(document.sources, parts, name)
        options = _source_options(table, parts[2])
    elif parts[0] in REPEATED:
        table = _repeated_table(document.repeated.get(parts[0], []), parts, name)
        options = REPEATED[parts[0]]
    elif parts[0] in SECTIONS and len(parts) == 2:
        table = document.sections.setdefault(parts[0], DocumentTable(1))
        options = SECTIONS[parts[0]]
    else:
        raise ConfigError(f"unknown key '{name.strip()}'", mend=_nearest(parts))
    table.values[parts[-1]] = _value(options, parts[-1], written.strip())
    return name.strip()


def _nearest(parts: Sequence[str]) -> str | None:
    """Return which key may be meant by one of an unknown table."""
    if len(parts) == 3 and (table := closest(parts[0], ["source", *REPEATED])):
        return f"did you mean '{'.'.join([table, *parts[1:]])}'?"
    known = [f"{section}.{key}" for section, kind in SECTIONS.items() for key in option_fields(kind)]
    return did_you_mean(".".join(parts), known)


def _repeated_table(tables: Sequence[DocumentTable], parts: list[str], name: str) -> DocumentTable:
    table, count = parts[0], len(tables)
    if len(parts) != 3:
        raise ConfigError(f"unknown key '{name}'", mend=f"{table}s are {table}.0.key, {table}.1.key, ...")
    called = parts[1]
    if not (called.isascii() and called.isdigit()):
        return tables[_find(table, tables, called, parts[2])]
    if int(called) >= count:
        raise ConfigError(f"there is no {table} {called}", mend=f"there are {count}, counted from 0")
    return tables[int(called)]


def _find(table: str, tables: Sequence[DocumentTable], called: str, key: str) -> int:
    """Return the number of the only source of a kind, or of the only other table of a name."""
    told_by = "kind" if table == "source" else "name"
    given = [one.values[told_by].raw if told_by in one.values else None for one in tables]
    numbers = [number for number, word in enumerate(given) if word == called]
    if len(numbers) == 1:
        return numbers[0]
    of = f"of kind '{called}'" if table == "source" else f"called '{called}'"
    if not numbers:
        known = sorted({word for word in given if isinstance(word, str)})
        mend = did_you_mean(called, known) or f"there is no {table} at all"
        raise ConfigError(f"there is no {table} {of}", mend=mend)
    choices = " or ".join(f"{table}.{number}.{key}" for number in numbers)
    raise ConfigError(f"{len(numbers)} {table}s are {of}", mend=f"say which: {choices}")


def _source_options(table: DocumentTable, key: str) -> type | None:
    if key == "kind":
        raise ConfigError("the kind of a source cannot be overridden", mend="edit the file")
    kind = table.values.get("kind")
    try:
        return options_class(kind.raw) if kind and isinstance(kind.raw, str) else None
    except ConfigError:  # reported with the source itself
        return None


def _value(options: type | None, key: str, written: str) -> Value:
    """Return a value: quoted text, lists and tables as in TOML, everything else by the type of the option."""
    raw: object = written
    if written[:1] in ('"', "'", "[", "{"):
        try:
            tree, _ = parse_toml(f"value = {written}", "")
        except ConfigError:
            tree = {}
        if list(tree) != ["value"]:
            raise ConfigError(f"the value of '{key}' is not TOML: {written[:60]}")
        raw = tree["value"]
    field = option_fields(options).get(key) if options else None
    if field and field.holds_path(raw):
        raw = _from_working_directory(raw)
    if field and (field.is_name or field.is_pattern) and field.length is not None and raw is written:
        raw = [word.strip() for word in written.split(",") if word.strip()]
    return Value(raw, 0, untyped=raw is written)


def _from_working_directory(raw: object) -> object:
    if isinstance(raw, list):
        return [_from_working_directory(item) for item in raw]
    return str(Path.cwd() / raw) if isinstance(raw, str) and raw else raw
