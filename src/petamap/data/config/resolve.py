"""Validation of a document and its conversion to a run configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from petacomm.base.errors import ConfigError, closest, did_you_mean
from petamap.data.config.band_options import band_conflicts
from petamap.data.config.document import Document, DocumentTable
from petamap.data.config.fields import option_fields
from petamap.data.config.model import (
    REPEATED,
    SECTIONS,
    RunConfig,
    SourceConfig,
    noise_option_conflicts,
)
from petamap.data.config.pixel_options import map_option_conflicts
from petamap.data.config.source_kinds import all_source_kinds, options_class
from petamap.data.config.values import BadValue, convert_value, move_path

_CONFLICTS: dict[str, Callable[[Any], Iterator[tuple[str, str, str | None]]]] = {
    "map": map_option_conflicts,
    "noise": noise_option_conflicts,
}


def resolve(document: Document, file: Path | None = None) -> RunConfig:
    """Return the run configuration of a document.

    Raises
    ------
    ConfigError
        If the document is not valid; lists all problems.
    """
    problems = document.problems
    meant: dict[str, DocumentTable] = {}
    for name, table in document.sections.items():
        if name not in SECTIONS:
            problems.add(table.line, f"unknown section '{name}'", _section_mend(name))
            meant.setdefault(closest(name, [*SECTIONS]) or "", table)
    sections = {name: _section(name, document, meant.get(name)) for name in SECTIONS}
    sources = [_source(index, table, document) for index, table in enumerate(document.sources)]
    repeated: dict[str, Any] = {f"{name}s": _repeated(name, document) for name in REPEATED}
    problems.raise_any()
    valid = tuple(source for source in sources if source is not None)
    config = RunConfig(**sections, **repeated, sources=valid, folder=document.folder, file=file)
    for kind, number, what, mend in band_conflicts(config):
        problems.add(document.repeated[kind][number].line, what, mend)
    problems.raise_any()
    return config


def _section_mend(name: str) -> str | None:
    if name in ("sources", "Source"):
        return "did you mean '[[source]]'?"
    if name in (f"{one}s" for one in REPEATED):
        return f"did you mean '[[{name[:-1]}]]'?"
    return did_you_mean(name, [*SECTIONS, "source", *REPEATED])


def _section(name: str, document: Document, misspelt: DocumentTable | None) -> Any:
    """Return the options of a section; those of a table that means it are judged as if it had its name."""
    table = document.sections.get(name) or misspelt or DocumentTable(1)
    section = _options(SECTIONS[name], table, name, document)
    if name in _CONFLICTS and section is not None:
        for key, what, mend in _CONFLICTS[name](section):
            line = table.values[key].line if key in table.values else table.line
            document.problems.add(line, what, mend)
    return section


def _repeated(name: str, document: Document) -> tuple[Any, ...]:
    """Return the options of the tables of a name, of which no two are called the same."""
    tables = document.repeated.get(name, [])
    found = [_options(REPEATED[name], table, f"{name}.{i}", document) for i, table in enumerate(tables)]
    seen: dict[str, int] = {}
    for table, options in zip(tables, found, strict=True):
        if options is None:
            continue
        if options.name in seen:
            what = f"two tables [[{name}]] are called '{options.name}'"
            document.problems.add(
                table.line, what, f"the first one: {document.problems.place(seen[options.name])}"
            )
        seen.setdefault(options.name, table.line)
    return tuple(found)


def _source(index: int, table: DocumentTable, document: Document) -> SourceConfig | None:
    name = f"source.{index}"
    rest = DocumentTable(table.line, {key: value for key, value in table.values.items() if key != "kind"})
    kind, options = _kind(name, table, document)
    if options is None:
        _require_keys_of_any_kind(name, rest, document)
        return None
    resolved = _options(options, rest, name, document)
    if kind is None or resolved is None:
        return None
    places = {key: document.problems.place(value.line) for key, value in rest.values.items()}
    places["kind"] = document.problems.place(table.line)
    return SourceConfig(kind, resolved, table.line, places)


def _kind(name: str, table: DocumentTable, document: Document) -> tuple[str | None, type | None]:
    """Return the kind of a source, None after a problem with it, and the options of that kind.

    Those of a kind that is misspelt are of the kind most similar to it, so that keys are judged as well.
    """
    kind = table.values.get("kind")
    if kind is None:
        document.problems.add(table.line, f"{name}.kind is missing", 'write e.g. kind = "satellite"')
        return None, None
    if not isinstance(kind.raw, str):
        document.problems.add(kind.line, f"{name}.kind must be text")
        return None, None
    try:
        return kind.raw, options_class(kind.raw)
    except ConfigError as error:
        document.problems.add(kind.line, f"{name}.kind: {error.what}", error.mend)
    meant = closest(kind.raw, [kind.name for kind in all_source_kinds()])
    with contextlib.suppress(ConfigError):
        return None, None if meant is None else options_class(meant)
    return None, None


def _require_keys_of_any_kind(name: str, table: DocumentTable, document: Document) -> None:
    """Add a problem for each key of a source of unknown kind that no kind has."""
    known = {key for kind in all_source_kinds() for key in kind.fields}
    for key, value in table.values.items():
        if key not in known:
            mend = did_you_mean(key, sorted(known)) if closest(key, sorted(known)) else None
            document.problems.add(value.line, f"unknown key '{name}.{key}': no kind of source has it", mend)


def _options(options: type, table: DocumentTable, name: str, document: Document) -> Any:
    """Return an instance of an options dataclass, or None if there are problems."""
    fields = option_fields(options)
    before = len(document.problems)
    known: dict[str, object] = {}
    for key, value in table.values.items():
        if key not in fields:
            what = f"unknown key '{name}.{key}'"
            document.problems.add(value.line, what, _key_mend(key, name, list(fields)))
            continue
        try:
            folder = document.folder_of(value.line)
            found = convert_value(fields[key], value, f"{name}.{key}", folder)
            known[key] = move_path(found, folder, document.folder) if fields[key].holds_path(found) else found
        except BadValue as error:
            document.problems.add(error.line, error.what, error.mend)
    for key, field in fields.items():
        if field.required and key not in table.values:
            what = f"{name}.{key} is missing: {field.allowed()}"
            document.problems.add(table.line, what, field.help or None)
    if len(document.problems) > before:
        return None
    try:  # the ``__post_init__`` of the options may find inconsistencies
        return options(**known)
    except ConfigError as error:
        document.problems.add(table.line, f"{name}: {error.what}", error.mend)
        return None


def _key_mend(key: str, section: str, known: list[str]) -> str | None:
    for other, options in SECTIONS.items():
        if other != section and key in option_fields(options):
            return f"'{key}' belongs to [{other}]"
    return did_you_mean(key, known) or "it has no options"
