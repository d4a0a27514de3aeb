"""Kinds of sources with their options, for help, configuration templates and schema."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from petacomm.base.errors import ConfigError
from petamap.data.config.fields import OptionField, option_fields


@dataclass(frozen=True)
class SourceKind:
    """Kind of source.

    Attributes
    ----------
    name : str
    summary : str
        One line; the reason if the kind cannot be used.
    fields : dict of str to OptionField
        Options; empty if the kind cannot be used.
    usable : bool
        False if a package that it needs is not installed.
    """

    name: str
    summary: str
    fields: dict[str, OptionField]
    usable: bool = True


def options_class(kind: str) -> type:
    """Return the options dataclass of a kind of source.

    Raises
    ------
    ConfigError
        If there is no such kind, or it needs a package that is not installed.
    """
    from petamap.data.source import source_class

    try:
        return source_class(kind).options
    except ModuleNotFoundError as error:
        what = f"kind of source '{kind}' needs the module '{error.name}', which is not installed"
        raise ConfigError(what, mend="install it") from error


def source_kind(name: str) -> SourceKind:
    """Return summary and options of a kind of source.

    Raises
    ------
    ConfigError
        If there is no such kind, or it needs a package that is not installed.
    """
    options = options_class(name)
    summary = (inspect.getdoc(options) or "").partition("\n")[0]
    return SourceKind(name, summary, option_fields(options))


def all_source_kinds() -> list[SourceKind]:
    """Return all kinds of sources, including those that cannot be used."""
    from petamap.data.source import source_kinds

    return [_kind_or_reason(name) for name in source_kinds()]


def _kind_or_reason(name: str) -> SourceKind:
    try:
        return source_kind(name)
    except ConfigError as error:
        return SourceKind(name, error.what, {}, usable=False)
