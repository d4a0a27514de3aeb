"""Reads TOML: values by the standard library, lines by `petamap.data.config.toml_lines`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from petamap.base.errors import ConfigError
from petamap.data.config.document import Document, Table, Value, printable
from petamap.data.config.toml_lines import Lines, locate

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def read_toml(text: str, file: str, folder: Path) -> Document:
    """Take a TOML text apart.

    Raises
    ------
    ConfigError
        If it is not TOML, names a key twice, or nests deeper than any configuration.
    """
    lines = locate(text, file)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), text, file, lines) from None
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


def _syntax_error(message: str, text: str, file: str, lines: Lines) -> ConfigError:
    place = _PLACE.search(message)
    line = int(place.group(1)) if place and place.group(1) else text.count("\n") + 1
    what = _PLACE.sub("", message)
    what = f"not TOML: {what[:1].lower()}{what[1:]}"
    keys = [".".join(map(str, path)) for path, at in lines.items() if at == line]
    if what.endswith("invalid value") and keys:
        what += f" of '{keys[-1]}'"
    mend = "text, and numbers with units, stand in quotes" if "invalid value" in what else None
    return ConfigError(printable(what), where=f"{file}:{line}", mend=mend)


def _read_sources(content: object, lines: Lines, document: Document) -> None:
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


def _table(content: dict[str, object], path: tuple[str | int, ...], lines: Lines) -> Table:
    line = lines.get(path, 1)
    return Table(line, {key: _value(raw, (*path, key), lines, line) for key, raw in content.items()})


def _value(raw: object, path: tuple[str | int, ...], lines: Lines, above: int) -> Value:
    line = lines.get(path, above)
    if not isinstance(raw, list):
        return Value(raw, line)
    return Value(raw, line, tuple(lines.get((*path, index), line) for index in range(len(raw))))


def read_value(text: str) -> object:
    """Read one TOML value.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        tree = tomllib.loads(f"value = {text}")
    except RecursionError:
        raise ValueError("nested too deep") from None
    if list(tree) != ["value"]:
        raise ValueError("more than a value")
    return tree["value"]
