"""Starting configurations: every option with its meaning, those left at their default commented out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from petacomm.base.errors import ConfigError, did_you_mean
from petamap.data.config.fields import Field, fields_of
from petamap.data.config.model import SECTIONS
from petamap.data.config.source_kinds import kind_of
from petamap.data.config.writer import toml_value, written

# what the words of `petamap init --kind` begin with; any kind of source is such a word too
STARTS: dict[str, tuple[str, ...]] = {
    "satellite": ("satellite", "sky-spectra", "noise"),
    "ground": ("ground", "sky-spectra", "noise", "common-mode"),
    "files": ("volume",),
    "madmap": ("madmap1",),
}
_HEAD = (
    "A run configuration of petamap. Options that are commented out show their defaults, or an example.",
    "Check it with 'petamap check FILE', make the map with 'petamap run FILE'.",
)
_SOURCES = "Sources, applied in order: each adds observations, or parts of those before it."


@dataclass(frozen=True)
class Line:
    """One option of a starting configuration: comment, key, value, and whether it is commented out."""

    comment: str
    key: str
    value: object
    active: bool


@dataclass(frozen=True)
class Block:
    """A section, or a source where `kind` is given."""

    name: str
    kind: str | None
    comment: str
    lines: tuple[Line, ...]


def template(start: str = "satellite", form: str = ".toml") -> str:
    """Return a starting configuration.

    Parameters
    ----------
    start : str
        A word of `STARTS`, or a kind of source.
    form : str
        ".toml" or ".xml".

    Raises
    ------
    ConfigError
        If there is no such start.
    """
    blocks = list(_blocks(_kinds(start)))
    return _xml(blocks) if form == ".xml" else _toml(blocks)


def _kinds(start: str) -> tuple[str, ...]:
    from petamap.data.source import kinds

    if start in STARTS:
        return STARTS[start]
    if start in kinds():
        return (start,)
    raise ConfigError(f"nothing starts with '{start}'", mend=did_you_mean(start, [*STARTS, *kinds()]))


def _blocks(kinds: Sequence[str]) -> Iterator[Block]:
    chosen = _numbered if kinds[0] == "madmap1" else _healpix
    for name, options in SECTIONS.items():
        fields = fields_of(options).values()
        lines = tuple(_line(field, chosen.get(f"{name}.{field.name}")) for field in fields)
        yield Block(name, None, (options.__doc__ or "").partition("\n")[0], lines)
    for kind in kinds:
        found = kind_of(kind)
        yield Block("source", kind, found.summary, tuple(_line(field) for field in found.fields.values()))


_healpix: dict[str, object] = {"run.name": "first", "map.n_side": 256}
_numbered: dict[str, object] = {"run.name": "first", "map.pixelization": "numbered", "map.stokes": "I"}


def _line(field: Field, chosen: object = None) -> Line:
    default = default_of(field)
    if chosen is not None:
        return Line(_comment(field), field.name, chosen, active=True)
    if default is not None:
        return Line(_comment(field), field.name, default, active=False)
    example = _listed(field, _placeholder(field))
    ending = "" if field.required else "; no default"
    return Line(_comment(field) + ending, field.name, example, active=field.required)


def _comment(field: Field) -> str:
    """Return the help, with what is allowed unless the value beside it says so well enough."""
    plain = field.dimension or field.path or field.scalar is bool or field.allowed() in ("text", "a path")
    allowed = "" if plain else f" [{field.allowed()}]"
    return field.help + allowed


def default_of(field: Field) -> object:
    """Return the default of an option as it would be written; None where it has none."""
    if field.required or field.default is None:
        return None
    return written(field, field.default)


def _listed(field: Field, item: object) -> object:
    return item if field.length is None else [item] * (field.length or 1)


def _placeholder(field: Field) -> object:
    if field.choices:
        return field.choices[0]
    if field.dimension:
        return field.example
    if field.is_path:
        return "PATH"
    if field.scalar is bool:
        return False
    if field.scalar in (int, float):
        return field.scalar(max(field.minimum or 1, min(field.maximum or 1, 1)))
    return "NAME" if field.is_name else "TEXT"


def _toml(blocks: Sequence[Block]) -> str:
    lines = [f"# {text}" for text in _HEAD]
    seen_source = False
    for block in blocks:
        if block.kind and not seen_source:
            lines += ["", f"# {_SOURCES}"]
            seen_source = True
        lines += ["", f"# {block.comment}", f"[[{block.name}]]" if block.kind else f"[{block.name}]"]
        lines += [f"kind = {toml_value(block.kind)}"] if block.kind else []
        for line in block.lines:
            mark = "" if line.active else "#"
            lines += [f"# {line.comment}", f"{mark}{line.key} = {toml_value(line.value)}"]
    return "\n".join(lines) + "\n"


def _xml(blocks: Sequence[Block]) -> str:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<petamap>"]
    lines += [_xml_comment(text, 1) for text in (*_HEAD, _SOURCES)]
    for block in blocks:
        lines += ["", _xml_comment(block.comment, 1)]
        lines.append(f'  <source kind="{escape(block.kind)}">' if block.kind else f"  <{block.name}>")
        for line in block.lines:
            element = f"<{line.key}>{_xml_content(line.value)}</{line.key}>"
            lines.append(_xml_comment(line.comment, 2))
            lines.append(f"    {element}" if line.active else _xml_comment(element, 2))
        lines.append(f"  </{block.name}>")
    return "\n".join([*lines, "</petamap>"]) + "\n"


def _xml_comment(text: str, depth: int) -> str:
    return f"{'  ' * depth}<!-- {text.replace('--', '- -')} -->"


def _xml_content(value: object) -> str:
    if isinstance(value, list):
        return "".join(f"<item>{_xml_content(item)}</item>" for item in value)
    return str(value).lower() if isinstance(value, bool) else escape(str(value))
