"""XML schema (XSD 1.0) of run configurations, generated from the options.

XSD 1.0 cannot express that a section occurs at most once, that files exist, or which keys belong to which
kind of source; the reader checks these. The schema has the keys of all kinds, and documents which kinds use
them.
"""

from __future__ import annotations

import re
from typing import Any

from petacomm.base.units import unit_spellings, units_by_dimension
from petamap.data.config.fields import OptionField, option_fields
from petamap.data.config.model import REPEATED, SECTIONS
from petamap.data.config.source_kinds import all_source_kinds

_NUMBER = r"[+\-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?"
_ZERO = r"[+\-]?(0+\.?0*|\.0+)([eE][+\-]?[0-9]+)?"
_WORD = re.compile("[A-Za-z]+")
_XS = "http://www.w3.org/2001/XMLSchema"


def config_xsd() -> str:
    """Return the documented XML schema, without kinds of sources that cannot be used."""
    from lxml import etree

    schema = etree.Element(f"{{{_XS}}}schema", nsmap={"xs": _XS})
    _document(schema, "The run configuration of petamap: sections and sources, in any order.")
    _add_quantities(schema)
    root = _add(_add(_add(schema, "element", name="petamap"), "complexType"), "choice", **_ANY_NUMBER)
    include = _add(root, "element", name="include", type="xs:string")
    _document(include, "Another configuration, which comes before this one. Any number of times.")
    for name, options in (SECTIONS | REPEATED).items():
        section = _add(root, "element", name=name)
        times = " Any number of times." if name in REPEATED else " At most once."
        _document(section, (options.__doc__ or "").partition("\n")[0] + times)
        keys = _add(_add(section, "complexType"), "all")
        for field in option_fields(options).values():
            _add_key(keys, [field], _meaning(field))
    _add_source(root)
    text = etree.tostring(schema, pretty_print=True, xml_declaration=True, encoding="UTF-8")
    return text.decode("utf-8")


_ANY_NUMBER = {"minOccurs": "0", "maxOccurs": "unbounded"}


def _add(parent: Any, tag: str, **attributes: str) -> Any:
    from lxml import etree

    return etree.SubElement(parent, f"{{{_XS}}}{tag}", attributes)


def _document(element: Any, text: str) -> None:
    _add(_add(element, "annotation"), "documentation").text = text


def _meaning(field: OptionField) -> str:
    default = "" if field.required or field.default in (None, "", ()) else f"; default {field.default}"
    return f"{field.help}; {field.allowed()}{default}"


def _add_quantities(schema: Any) -> None:
    for dimension, units in units_by_dimension().items():
        named = _add(schema, "simpleType", name=f"{dimension}-quantity")
        _document(named, f"A number and a unit of {dimension}, or zero.")
        escaped = "|".join(_WORD.sub(_any_spelling, re.sub(r"([.^])", r"\\\1", unit)) for unit in units)
        restriction = _add(named, "restriction", base="xs:token")
        _add(restriction, "pattern", value=f"{_NUMBER} ({escaped})|{_ZERO}")


def _any_spelling(word: re.Match[str]) -> str:
    return f"({'|'.join(unit_spellings(word[0]))})"


def _add_source(root: Any) -> None:
    usable = [kind for kind in all_source_kinds() if kind.usable]
    source = _add(root, "element", name="source")
    _document(source, "Adds observations, or parts of those that the sources before it gave.")
    content = _add(source, "complexType")
    keys = _add(content, "all")
    for name in sorted({name for kind in usable for name in kind.fields}):
        having = [kind for kind in usable if name in kind.fields]
        meaning = ". ".join(f"{kind.name}: {_meaning(kind.fields[name])}" for kind in having)
        _add_key(keys, [kind.fields[name] for kind in having], meaning)
    words = _add(_add(content, "attribute", name="kind", use="required"), "simpleType")
    restriction = _add(words, "restriction", base="xs:token")
    for kind in usable:
        _document(_add(restriction, "enumeration", value=kind.name), kind.summary)


def _add_key(keys: Any, fields: list[OptionField], meaning: str) -> None:
    """Add a key of one or more kinds of sources; if their types differ, any text or list is valid."""
    element = _add(keys, "element", name=fields[0].name, minOccurs="0")
    _document(element, meaning)
    if len({_signature(field) for field in fields}) > 1:
        _add_anything(element)
    elif fields[0].length is None:
        _add_type(element, fields[0])
    else:
        items = _add(_add(element, "complexType"), "sequence")
        length = fields[0].length
        bounds = {"minOccurs": str(length), "maxOccurs": str(length)} if length else _ANY_NUMBER
        _add_type(_add(items, "element", name="item", **bounds), fields[0])


def _signature(field: OptionField) -> tuple[object, ...]:
    words = (
        field.choices,
        field.dimension,
        field.minimum,
        field.maximum,
        field.is_name,
        field.is_pattern,
        field.may_be_empty,
        field.word,
        field.whole,
    )
    return field.scalar, field.length, *words


def _add_anything(element: Any) -> None:
    content = _add(element, "complexType", mixed="true")
    _add(_add(content, "sequence"), "element", name="item", type="xs:string", **_ANY_NUMBER)


def _add_type(element: Any, field: OptionField) -> None:
    if field.dimension:
        element.set("type", f"{field.dimension}-quantity")
        return
    base, pattern = _base(field)
    kind = _add(element, "simpleType")
    if field.word is not None or field.whole is not None:
        union = _add(kind, "union")
        word = _add(_add(union, "simpleType"), "restriction", base="xs:token")
        if field.word is not None:
            _add(word, "enumeration", value=field.word)
        if field.whole is not None:
            _add(word, "pattern", value=rf"[0-9]+(\.[0-9]+)?% of {field.whole}")
        kind = _add(union, "simpleType")
    restriction = _add(kind, "restriction", base=f"xs:{base}")
    for word in field.choices or ():
        _add(restriction, "enumeration", value=word)
    if pattern:
        _add(restriction, "pattern", value=pattern)
    if field.minimum is not None:
        _add(restriction, "minInclusive", value=str(field.scalar(field.minimum)))
    if field.maximum is not None:
        _add(restriction, "maxInclusive", value=str(field.scalar(field.maximum)))


def _base(field: OptionField) -> tuple[str, str | None]:
    if field.choices:
        return "token", None
    if field.scalar is bool:
        return "boolean", "true|false"
    if field.scalar is int:
        return "integer", None
    if field.scalar is float:
        return "double", _NUMBER
    if not (field.is_name or field.is_pattern):
        return "string", None
    names = (
        r"[A-Za-z0-9_.+*?\[\]!\-]{1,128}" if field.is_pattern else r"[A-Za-z0-9_+\-][A-Za-z0-9_.+\-]{0,127}"
    )
    return "token", f"({names})?" if field.may_be_empty else names
