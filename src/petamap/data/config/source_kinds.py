"""The kinds of source there are, with their options: for help, starting configurations and schema."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from petacomm.base.errors import ConfigError
from petamap.data.config.fields import Field, fields_of
from petamap.data.config.resolve import options_of


@dataclass(frozen=True)
class Kind:
    """A kind of source.

    Attributes
    ----------
    name : str
    summary : str
        One line; where the kind cannot be used, why.
    fields : dict of str to Field
        Its options; empty where it cannot be used.
    usable : bool
        False where a package that it needs is not installed.
    """

    name: str
    summary: str
    fields: dict[str, Field]
    usable: bool = True


def kind_of(name: str) -> Kind:
    """Return what there is to know of one kind.

    Raises
    ------
    ConfigError
        If there is no such kind, or a package that it needs is not installed.
    """
    options = options_of(name)
    summary = (inspect.getdoc(options) or "").partition("\n")[0]
    return Kind(name, summary, fields_of(options))


def catalogue() -> list[Kind]:
    """Return all kinds, those that cannot be used included."""
    from petamap.data.source import kinds

    return [_kind_or_reason(name) for name in kinds()]


def _kind_or_reason(name: str) -> Kind:
    try:
        return kind_of(name)
    except ConfigError as error:
        return Kind(name, error.what, {}, usable=False)
