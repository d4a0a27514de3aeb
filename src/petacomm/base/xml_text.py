"""Elements of an XML text: document types, entities and inclusions of XML itself are never read."""

from __future__ import annotations

import re
from typing import Any

from petacomm.base.errors import ConfigError, printable

_DECLARATION = re.compile(r"<!(DOCTYPE|ENTITY|ELEMENT|ATTLIST|NOTATION)", re.IGNORECASE)


def parse_xml(text: str, file: str) -> Any:
    """Return the root of an XML text, an element of lxml without comments.

    Raises
    ------
    ConfigError
        If the text is not XML, declares a document type or entities, or is nested deeper than 256.
    """
    from lxml import etree

    declaration = _DECLARATION.search(text)
    if declaration:
        line = text.count("\n", 0, declaration.start()) + 1
        what = f"<!{declaration.group(1)} is not allowed"
        raise ConfigError(what, where=f"{file}:{line}", mend="remove document types and entities")
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        return etree.fromstring(text.encode("utf-8"), parser)
    except etree.XMLSyntaxError as error:
        what = re.sub(r", line \d+, column \d+.*$", "", error.msg or "no elements")
        raise ConfigError(printable(f"not XML: {what}"), where=f"{file}:{error.lineno or 1}") from None
