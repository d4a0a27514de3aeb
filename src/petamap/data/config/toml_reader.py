"""Parsing of TOML into a `Document`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from petacomm.base.errors import did_you_mean
from petacomm.base.toml import KeyLines, parse_toml
from petamap.data.config.document import Document, DocumentTable, Value
from petamap.data.config.model import REPEATED


def read_toml_document(text: str, file: str, folder: Path) -> Document:
    """Return the document of a TOML text.

    Raises
    ------
    ConfigError
        If the text is not TOML, has a key twice, or is nested too deeply.
    """
    document = Document(file, folder)
    tree, lines = parse_toml(text, file)
    read_tree(tree, lines, document)
    return document


def read_tree(tree: Mapping[str, Any], lines: KeyLines, document: Document) -> None:
    """Read the sections and tables of a parsed text into a document; `lines` may be empty."""
    for name, content in tree.items():
        if name == "include":
            document.includes = _includes(content, lines, document)
        elif name == "source":
            document.sources += _read_tables(name, content, lines, document)
        elif name in REPEATED:
            document.repeated[name] = _read_tables(name, content, lines, document)
        elif isinstance(content, dict):
            document.sections[name] = _table(content, (name,), lines)
        elif isinstance(content, list) and content and all(isinstance(item, dict) for item in content):
            mend = did_you_mean(name, ["source", *REPEATED])
            document.problems.add(lines.get((name, 0), 1), f"there are no tables [[{name}]]", mend)
        else:
            what = f"'{name}' stands outside of any section"
            document.problems.add(lines.get((name,), 1), what, "sections begin with [name]")


def _includes(content: object, lines: KeyLines, document: Document) -> list[Value]:
    """Return the files to include: one, or a list of them."""
    value = _value(content if isinstance(content, list) else [content], ("include",), lines, 1)
    found = [value.item(index) for index in range(len(value.raw))]  # type: ignore[arg-type]
    wrong = next((one for one in found if not isinstance(one.raw, str) or not one.raw), None)
    if wrong is not None:
        document.problems.add(wrong.line, "include is a list of files", 'write include = ["base.toml"]')
        return []
    return found


def _read_tables(name: str, content: object, lines: KeyLines, document: Document) -> list[DocumentTable]:
    tables: list[DocumentTable] = []
    if not isinstance(content, list):
        document.problems.add(lines.get((name,), 1), f"{name} must be a list", f"write [[{name}]]")
        return tables
    for index, item in enumerate(content):
        path = (name, index)
        if isinstance(item, dict):
            tables.append(_table(item, path, lines))
        else:
            what = f"{name}.{index} must be a table"
            document.problems.add(lines.get(path, 1), what, f"write [[{name}]]")
    return tables


def _table(content: dict[str, object], path: tuple[str | int, ...], lines: KeyLines) -> DocumentTable:
    line = lines.get(path, 1)
    return DocumentTable(line, {key: _value(raw, (*path, key), lines, line) for key, raw in content.items()})


def _value(raw: object, path: tuple[str | int, ...], lines: KeyLines, above: int) -> Value:
    line = lines.get(path, above)
    if not isinstance(raw, list):
        return Value(raw, line)
    return Value(raw, line, tuple(lines.get((*path, index), line) for index in range(len(raw))))
