"""Overrides ``key=value`` on the command line, such as ``solver.tolerance=1e-8`` or ``source.0.n_side=64``.

Values are written as in TOML, with bare words for text; the names of a list are separated by commas. A
relative path on the command line refers to the working directory (which a shell completes), a relative path
in a file to the folder of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.toml import parse_toml
from petamap.data.config.document import Document, DocumentTable, Value
from petamap.data.config.fields import option_fields
from petamap.data.config.model import REPEATED, SECTIONS
from petamap.data.config.source_kinds import options_class


def override_document(document: Document, overrides: Sequence[str]) -> None:
    """Apply overrides to a document; invalid ones are added to its problems."""
    for text in overrides:
        try:
            _replace(document, text)
        except ConfigError as error:
            document.problems.add(0, error.what, error.mend)


def _replace(document: Document, text: str) -> None:
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
        known = [f"{section}.{key}" for section, kind in SECTIONS.items() for key in option_fields(kind)]
        raise ConfigError(f"unknown key '{name.strip()}'", mend=did_you_mean(name.strip(), known))
    table.values[parts[-1]] = _value(options, parts[-1], written.strip())


def _repeated_table(tables: Sequence[DocumentTable], parts: list[str], name: str) -> DocumentTable:
    kind, count = parts[0], len(tables)
    if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit()):
        raise ConfigError(f"unknown key '{name}'", mend=f"{kind}s are {kind}.0.key, {kind}.1.key, ...")
    if int(parts[1]) >= count:
        raise ConfigError(f"there is no {kind} {parts[1]}", mend=f"there are {count}, counted from 0")
    return tables[int(parts[1])]


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
    if field and field.is_path:
        raw = _from_working_directory(raw)
    if field and (field.is_name or field.is_pattern) and field.length is not None and raw is written:
        raw = [word.strip() for word in written.split(",") if word.strip()]
    return Value(raw, 0, untyped=raw is written)


def _from_working_directory(raw: object) -> object:
    if isinstance(raw, list):
        return [_from_working_directory(item) for item in raw]
    return str(Path.cwd() / raw) if isinstance(raw, str) and raw else raw
