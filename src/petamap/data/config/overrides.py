"""``key=value`` on the command line: ``solver.tolerance=1e-8``, ``source.0.n_side=64``.

Values are written as in TOML, and bare words stand for text; commas part the names of a list. A relative
path on the command line starts at the working directory, since that is what a shell completes; one in a file
starts at the file's folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from petacomm.base.errors import ConfigError, did_you_mean
from petamap.data.config.document import Document, Table, Value
from petamap.data.config.fields import fields_of
from petamap.data.config.model import SECTIONS, RunConfig
from petamap.data.config.resolve import options_of, resolve
from petamap.data.config.toml_reader import read_value
from petamap.data.config.writer import document_of


def apply_overrides(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Return the configuration with values replaced.

    Raises
    ------
    ConfigError
        If an override names no option, or gives a value that the option cannot hold.
    """
    if not overrides:
        return config
    document = document_of(config)
    override(document, overrides)
    return resolve(document, config.file)


def override(document: Document, overrides: Sequence[str]) -> None:
    """Replace values of a document; what cannot be placed is added to its problems."""
    for text in overrides:
        try:
            _replace(document, text)
        except ConfigError as error:
            document.problems.add_error(0, error)


def _replace(document: Document, text: str) -> None:
    name, equals, written = text.partition("=")
    parts = name.strip().split(".")
    if not equals or len(parts) < 2:
        raise ConfigError(f"'{text}' is not key=value", mend="write e.g. solver.tolerance=1e-8")
    if parts[0] == "source":
        table, options = _source(document, parts, name)
    elif parts[0] in SECTIONS and len(parts) == 2:
        table = document.sections.setdefault(parts[0], Table(1))
        options = SECTIONS[parts[0]]
    else:
        known = [f"{section}.{key}" for section, kind in SECTIONS.items() for key in fields_of(kind)]
        raise ConfigError(f"unknown key '{name.strip()}'", mend=did_you_mean(name.strip(), known))
    table.values[parts[-1]] = _value(options, parts[-1], written.strip())


def _source(document: Document, parts: list[str], name: str) -> tuple[Table, type | None]:
    count = len(document.sources)
    if len(parts) != 3 or not (parts[1].isascii() and parts[1].isdigit()):
        raise ConfigError(f"unknown key '{name}'", mend="sources are source.0.key, source.1.key, ...")
    if int(parts[1]) >= count:
        raise ConfigError(f"there is no source {parts[1]}", mend=f"there are {count}, counted from 0")
    if parts[2] == "kind":
        raise ConfigError("the kind of a source cannot be overridden", mend="edit the file")
    table = document.sources[int(parts[1])]
    kind = table.values.get("kind")
    try:
        return table, options_of(kind.raw) if kind and isinstance(kind.raw, str) else None
    except ConfigError:  # told with the source itself
        return table, None


def _value(options: type | None, key: str, written: str) -> Value:
    """Return a value: text in quotes, lists and tables as in TOML, all else by what the option holds."""
    raw: object = written
    if written[:1] in ('"', "'", "[", "{"):
        try:
            raw = read_value(written)
        except ValueError:
            raise ConfigError(f"the value of '{key}' is not TOML: {written[:60]}") from None
    field = fields_of(options).get(key) if options else None
    if field and field.is_path:
        raw = _from_here(raw)
    if field and field.is_name and field.length is not None and raw is written:
        raw = [word.strip() for word in written.split(",") if word.strip()]
    return Value(raw, 0, untyped=raw is written)


def _from_here(raw: object) -> object:
    if isinstance(raw, list):
        return [_from_here(item) for item in raw]
    return str(Path.cwd() / raw) if isinstance(raw, str) and raw else raw
