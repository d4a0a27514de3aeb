"""From a run configuration to TOML or XML.

Only what differs from the defaults is written, so that the file says what its author decided; a complete
record is written on request.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from petacomm.base.units import dimensions, quantity
from petamap.data.config.document import Document, Table, Value
from petamap.data.config.fields import Field, fields_of
from petamap.data.config.model import SECTIONS, RunConfig


def document_of(config: RunConfig, folder: Path | None = None, *, complete: bool = False) -> Document:
    """Return the configuration as it would be written.

    Parameters
    ----------
    folder : Path, optional
        Where the file will stand, if not in `config.folder`: relative paths are rewritten to start there.
    complete : bool
        Include what equals the default.
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
    return document


@dataclass(frozen=True)
class _Tables:
    """Writes options as tables, moving relative paths from one folder to another."""

    old: Path
    new: Path
    complete: bool

    def table(self, options: Any, line: int) -> Table:
        table = Table(line)
        for name, field in fields_of(type(options)).items():
            content = getattr(options, name)
            if content is not None and (self.complete or content != field.default):
                moved = self._moved(content) if field.is_path else content
                table.values[name] = Value(written(field, moved), line)
        return table

    def _moved(self, content: Any) -> Any:
        if isinstance(content, tuple):
            return tuple(self._moved(item) for item in content)
        if not content or self.old == self.new or os.path.isabs(content):
            return content
        return os.path.relpath(self.old / content, self.new)


def written(field: Field, content: Any) -> object:
    """Return what a file says for what an option holds."""
    if field.length is not None:
        return [_written_item(field, item) for item in content]
    return _written_item(field, content)


def _written_item(field: Field, content: Any) -> object:
    if field.dimension:
        return with_unit(content, field.dimension)
    return str(content) if isinstance(content, Path) else content


def with_unit(number: float, dimension: str) -> str:
    """Write a number in an internal unit so that `petacomm.base.units.quantity` reads exactly it back.

    The unit is the one that needs the fewest digits: 64 MiB, not 67108864 B.
    """
    units = dimensions()[dimension]
    written = [f"{number / quantity(f'1 {unit}', dimension):.15g} {unit}" for unit in units]
    same = [text for text in written if quantity(text, dimension) == number]
    return min(same, key=_effort, default=f"{float(number)!r} {units[0]}")


def _effort(text: str) -> tuple[int, float]:
    digits = text.partition(" ")[0]
    return len(digits), abs(math.log10(abs(float(digits)) or 1.0))


def to_toml(config: RunConfig, folder: Path | None = None, *, complete: bool = False) -> str:
    """Return the configuration as TOML; `folder` and `complete` as in `document_of`."""
    document = document_of(config, folder, complete=complete)
    blocks = [_toml_block(f"[{name}]", table) for name, table in document.sections.items()]
    blocks += [_toml_block("[[source]]", table) for table in document.sources]
    return "\n".join(blocks)


def _toml_block(header: str, table: Table) -> str:
    lines = [f"{key} = {toml_value(value.raw)}" for key, value in table.values.items()]
    return "\n".join([header, *lines]) + "\n"


def toml_value(raw: object) -> str:
    """Write one value as TOML."""
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, str):
        return json.dumps(raw, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(raw, list):
        return "[" + ", ".join(toml_value(item) for item in raw) + "]"
    return repr(raw)


def to_xml(config: RunConfig, folder: Path | None = None, *, complete: bool = False) -> str:
    """Return the configuration as XML, in the form that `petamap.data.config.xsd` describes.

    `folder` and `complete` are as in `document_of`.
    """
    from lxml import etree

    document = document_of(config, folder, complete=complete)
    root = etree.Element("petamap")
    for name, table in document.sections.items():
        _xml_table(etree.SubElement(root, name), table)
    for table in document.sources:
        kind = str(table.values.pop("kind").raw)
        _xml_table(etree.SubElement(root, "source", kind=kind), table)
    text = etree.tostring(root, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return text.decode("utf-8")


def _xml_table(element: Any, table: Table) -> None:
    from lxml import etree

    for key, value in table.values.items():
        child = etree.SubElement(element, key)
        if not isinstance(value.raw, list):
            child.text = _xml_text(value.raw)
            continue
        for item in value.raw:
            etree.SubElement(child, "item").text = _xml_text(item)


def _xml_text(raw: object) -> str:
    return str(raw).lower() if isinstance(raw, bool) else str(raw)
