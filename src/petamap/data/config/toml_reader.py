"""Parsing of TOML into a `Document`."""

from __future__ import annotations

from pathlib import Path

from petacomm.base.toml import KeyLines, parse_toml
from petamap.data.config.document import Document, DocumentTable, Value


def read_toml_document(text: str, file: str, folder: Path) -> Document:
    """Return the document of a TOML text.

    Raises
    ------
    ConfigError
        If the text is not TOML, has a key twice, or is nested too deeply.
    """
    tree, lines = parse_toml(text, file)
    document = Document(file, folder)
    for name, content in tree.items():
        if name == "source":
            _read_sources(content, lines, document)
        elif isinstance(content, dict):
            document.sections[name] = _table(content, (name,), lines)
        else:
            what = f"'{name}' stands outside of any section"
            document.problems.add(lines.get((name,), 1), what, "sections begin with [name]")
    return document


def _read_sources(content: object, lines: KeyLines, document: Document) -> None:
    if not isinstance(content, list):
        document.problems.add(lines.get(("source",), 1), "source must be a list", "write [[source]]")
        return
    for index, item in enumerate(content):
        path = ("source", index)
        if isinstance(item, dict):
            document.sources.append(_table(item, path, lines))
        else:
            what = f"source.{index} must be a table"
            document.problems.add(lines.get(path, 1), what, "write [[source]]")


def _table(content: dict[str, object], path: tuple[str | int, ...], lines: KeyLines) -> DocumentTable:
    line = lines.get(path, 1)
    return DocumentTable(line, {key: _value(raw, (*path, key), lines, line) for key, raw in content.items()})


def _value(raw: object, path: tuple[str | int, ...], lines: KeyLines, above: int) -> Value:
    line = lines.get(path, above)
    if not isinstance(raw, list):
        return Value(raw, line)
    return Value(raw, line, tuple(lines.get((*path, index), line) for index in range(len(raw))))
