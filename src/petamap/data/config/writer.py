"""Writing of run configurations as TOML or XML.

By default, only options that differ from their defaults are written; a complete record on request.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from petacomm.base.units import parse_quantity, units_by_dimension
from petamap.data.config.document import Document, DocumentTable, Value
from petamap.data.config.fields import OptionField, option_fields
from petamap.data.config.model import REPEATED, SECTIONS, RunConfig
from petamap.data.config.values import move_path


def to_document(config: RunConfig, folder: Path | None = None, *, complete: bool = False) -> Document:
    """Return the document of a configuration.

    Parameters
    ----------
    config : RunConfig
    folder : Path, optional
        Folder of the file to be written, if it is not `config.folder`: relative paths are rewritten.
    complete : bool
        Include options that equal their defaults.
    """
    document = Document(str(config.file or "configuration"), folder or config.folder)
    writer = _Tables(config.folder, document.folder, complete)
    for name in SECTIONS:
        table = writer.table(getattr(config, name), 1)
        if table.values:
            document.sections[name] = table
    for source in config.sources:
        table = writer.table(source.options, source.line)
        table.values = {"kind": Value(source.kind, source.line), **table.values}
        document.sources.append(table)
    for name in REPEATED:
        document.repeated[name] = [writer.table(options, 1) for options in getattr(config, f"{name}s")]
    return document


@dataclass(frozen=True)
class _Tables:
    """Conversion of options to tables, with relative paths moved from one folder to another."""

    old: Path
    new: Path
    complete: bool

    def table(self, options: Any, line: int) -> DocumentTable:
        table = DocumentTable(line)
        for name, field in option_fields(options.__class__).items():
            content = getattr(options, name)
            if content is not None and (self.complete or content != field.default):
                moved = move_path(content, self.old, self.new) if field.holds_path(content) else content
                table.values[name] = Value(written_value(field, moved), line)
        return table


def written_value(field: OptionField, content: Any) -> object:
    """Return the written form of the value of an option."""
    if isinstance(content, tuple):
        return [written_value(field, item) for item in content]
    if field.dimension:
        return format_quantity(content, field.dimension)
    return str(content) if isinstance(content, Path) else content


def format_quantity(number: float, dimension: str) -> str:
    """Return a number in internal units as text that `petacomm.base.units.parse_quantity` reads exactly.

    The unit is the one with the fewest digits: 64 MiB, not 67108864 B.
    """
    units = units_by_dimension()[dimension]
    written_value = [f"{number / parse_quantity(f'1 {unit}', dimension):.15g} {unit}" for unit in units]
    same = [text for text in written_value if parse_quantity(text, dimension) == number]
    return min(same, key=_length, default=f"{float(number)!r} {units[0]}")


def _length(text: str) -> tuple[int, float]:
    digits = text.partition(" ")[0]
    return len(digits), abs(math.log10(abs(float(digits)) or 1.0))


def to_toml(config: RunConfig, folder: Path | None = None, *, complete: bool = False) -> str:
    """Return the configuration as TOML; for `folder` and `complete` see `to_document`."""
    document = to_document(config, folder, complete=complete)
    blocks = [_toml_block(f"[{name}]", table) for name, table in document.sections.items()]
    blocks += [_toml_block("[[source]]", table) for table in document.sources]
    blocks += [
        _toml_block(f"[[{name}]]", table) for name, tables in document.repeated.items() for table in tables
    ]
    return "\n".join(blocks)


def _toml_block(header: str, table: DocumentTable) -> str:
    lines = [f"{key} = {toml_value(value.raw)}" for key, value in table.values.items()]
    return "\n".join([header, *lines]) + "\n"


def toml_value(raw: object) -> str:
    """Return a value as TOML."""
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, str):
        return json.dumps(raw, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(raw, list):
        return "[" + ", ".join(toml_value(item) for item in raw) + "]"
    return repr(raw)


def to_xml(config: RunConfig, folder: Path | None = None, *, complete: bool = False) -> str:
    """Return the configuration as XML (schema: `petamap.data.config.xsd`).

    For `folder` and `complete` see `to_document`.
    """
    from lxml import etree

    document = to_document(config, folder, complete=complete)
    root = etree.Element("petamap")
    for name, table in document.sections.items():
        _xml_table(etree.SubElement(root, name), table)
    for table in document.sources:
        kind = str(table.values.pop("kind").raw)
        _xml_table(etree.SubElement(root, "source", kind=kind), table)
    for name, tables in document.repeated.items():
        for table in tables:
            _xml_table(etree.SubElement(root, name), table)
    text = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return text.decode("utf-8")


def _xml_table(element: Any, table: DocumentTable) -> None:
    from lxml import etree

    for key, value in table.values.items():
        child = etree.SubElement(element, key)
        if not isinstance(value.raw, list):
            child.text = xml_text(value.raw)
            continue
        for item in value.raw:
            etree.SubElement(child, "item").text = xml_text(item)


def xml_text(raw: object) -> str:
    """Return a value that is no list as the text of an XML element."""
    return str(raw).lower() if isinstance(raw, bool) else str(raw)
