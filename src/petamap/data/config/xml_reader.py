"""Parsing of XML into a `Document`, after the XML run configurations of MADmap.

The root is ``<petamap>``; its children are the sections and any number of ``<source kind="...">`` and
``<split>``. Their
children are the keys, with the value as text; a list has one ``<item>`` per value. ``<include>`` has the name
of another configuration. Document types, entities and inclusions of XML itself are never read.
`petamap.data.config.xsd` has the schema.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from petacomm.base.xml_text import parse_xml
from petamap.data.config.document import Document, DocumentTable, Value
from petamap.data.config.model import REPEATED

_SCHEMA = "{http://www.w3.org/2001/XMLSchema-instance}noNamespaceSchemaLocation"


def read_xml_document(text: str, file: str, folder: Path) -> Document:
    """Return the document of an XML text.

    Raises
    ------
    ConfigError
        If the text is not XML, declares a document type or entities, or is nested deeper than 256.
    """
    root = parse_xml(text, file)
    document = Document(file, folder)
    if root.tag != "petamap":
        document.problems.add(_line(root), f"the root is <{root.tag}>", "it must be <petamap>")
        document.problems.raise_any()
    _no_attributes(root, (_SCHEMA,), document)
    _no_text(root, document)
    for child in root:
        if child.tag == "source":
            document.sources.append(_source(child, document))
        elif child.tag == "include":
            _no_attributes(child, (), document)
            document.includes.append(_value(child, document))
        elif child.tag in REPEATED:
            _no_attributes(child, (), document)
            document.repeated.setdefault(child.tag, []).append(_table(child, document))
        elif child.tag in document.sections:
            what = f"section '{child.tag}' is given twice"
            first = document.sections[child.tag].line
            document.problems.add(_line(child), what, f"first in line {first}")
        else:
            _no_attributes(child, (), document)
            document.sections[child.tag] = _table(child, document)
    return document


def _line(element: Any) -> int:
    return int(element.sourceline or 1)


def _source(element: Any, document: Document) -> DocumentTable:
    _no_attributes(element, ("kind",), document)
    table = _table(element, document)
    if "kind" in table.values:
        document.problems.add(
            table.values["kind"].line, "<kind> is an attribute", 'write <source kind="...">'
        )
    kind = element.get("kind")
    if kind is not None:
        table.values["kind"] = Value(kind, _line(element), untyped=True)
    return table


def _table(element: Any, document: Document) -> DocumentTable:
    table = DocumentTable(_line(element))
    _no_text(element, document)
    for child in element:
        if child.tag in table.values:
            what = f"'{element.tag}.{child.tag}' is given twice"
            mend = f"first in line {table.values[child.tag].line}; a list holds one <item> a value"
            document.problems.add(_line(child), what, mend)
            continue
        _no_attributes(child, (), document)
        table.values[child.tag] = _value(child, document)
    return table


def _value(element: Any, document: Document) -> Value:
    line = _line(element)
    if len(element) == 0:
        return Value((element.text or "").strip(), line, untyped=True)
    _no_text(element, document)
    for child in element:
        _no_attributes(child, (), document)
        if child.tag != "item" or len(child):
            document.problems.add(
                _line(child), f"<{child.tag}> inside <{element.tag}>", "a list holds <item>s"
            )
    items: list[object] = [(child.text or "").strip() for child in element]
    return Value(items, line, tuple(_line(child) for child in element), untyped=True)


def _no_attributes(element: Any, allowed: tuple[str, ...], document: Document) -> None:
    for name in element.attrib:
        if name not in allowed:
            what = f"unknown attribute '{name}' of <{element.tag}>"
            document.problems.add(_line(element), what, "values are elements")


def _no_text(element: Any, document: Document) -> None:
    pieces = [element.text, *(child.tail for child in element)]
    if any(piece and piece.strip() for piece in pieces):
        document.problems.add(_line(element), f"text between the elements of <{element.tag}>")
