"""Fields of options dataclasses, as used by readers, writers and help."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from petacomm.base.units import units_by_dimension

# options whose values are names, which become parts of file names and of report lines
_NAMES = frozenset({"name", "names", "detector", "observation"})
# options whose values choose among names
_CHOICES_OF_NAMES = frozenset({"detectors", "observations"})

_EXAMPLES = {
    "angle": "7.5 arcmin",
    "frequency": "50 mHz",
    "time": "1.5 h",
    "temperature": "100 uK",
    "noise": "60 uK s^0.5",
    "bytes": "64 MiB",
}
_INTERNAL: dict[str | None, str] = {
    "angle": "rad",
    "frequency": "Hz",
    "time": "s",
    "temperature": "K",
    "noise": "K s^0.5",
    "bytes": "B",
}
_WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "text", Path: "a path"}


@dataclass(frozen=True)
class OptionField:
    """Option of a section or source.

    Attributes
    ----------
    name : str
    scalar : type
        Type of the value or of the items of a list: bool, int, float, str or Path.
    length : int, optional
        None for a single value, 0 for a list of any length, else the required length of the list.
    default : object
        `dataclasses.MISSING` for a required option.
    help, dimension, choices, minimum, maximum, path, path_or_name, word, whole
        As declared by `petacomm.base.options.option`.
    """

    name: str
    scalar: type
    length: int | None
    default: Any
    help: str = ""
    dimension: str | None = None
    choices: tuple[str, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    path: bool = False
    path_or_name: bool = False
    word: str | None = None
    whole: str | None = None

    @property
    def required(self) -> bool:
        """Whether the option must be given."""
        return self.default is dataclasses.MISSING

    @property
    def is_name(self) -> bool:
        """Whether values are names: letters, digits and ``_ - . +``, the first not a dot."""
        return self.scalar is str and self.choices is None and self.name in _NAMES

    @property
    def is_pattern(self) -> bool:
        """Whether values are names or patterns of names: letters, digits and ``_ - . + * ? [ ] !``."""
        return self.scalar is str and self.choices is None and self.name in _CHOICES_OF_NAMES

    @property
    def is_path(self) -> bool:
        """Whether values are paths, existing or not."""
        return self.path or self.scalar is Path

    @property
    def may_be_empty(self) -> bool:
        """Whether no name or path is the default: a complete configuration has it as an empty text."""
        return self.default == "" and (self.is_name or self.is_pattern or self.is_path)

    def holds_path(self, content: object) -> bool:
        """Return whether a value is a path: where names are allowed as well, if it has a dot."""
        return self.is_path or (self.path_or_name and isinstance(content, str) and "." in content)

    @property
    def example(self) -> str | None:
        """Example of a value with a unit; None for an option without dimension."""
        if self.dimension is None:
            return None
        return _EXAMPLES.get(self.dimension) or f"1 {units_by_dimension()[self.dimension][0]}"

    def allowed(self) -> str:
        """Return a description of the allowed values."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.dimension:
            return f'a quantity with its unit, as "{self.example}"'
        if self.is_name:
            return "a name (at most 128 letters, digits, _ - . +; no dot first)"
        if self.is_pattern:
            return "a name, or a pattern with * ? [ ]"
        if self.path:
            return "the path of a file that exists"
        bounds = self.bounds()
        number = _WORDS[self.scalar] + (f", {bounds}" if bounds else "")
        if self.whole is not None:
            return f'{number}, or a percentage as "1% of {self.whole}"'
        return f"{self.word}, or {number}" if self.word else number

    def bounds(self) -> str:
        """Return a description of the bounds, in internal units; empty without bounds."""
        low, high = self.minimum, self.maximum
        unit = f" {_INTERNAL[self.dimension]}" if self.dimension in _INTERNAL else ""
        if low is not None and high is not None:
            return f"{low} to {high}{unit}"
        if low is not None:
            return f">= {low}{unit}"
        return f"<= {high}{unit}" if high is not None else ""


@lru_cache
def option_fields(options: Any) -> dict[str, OptionField]:
    """Return the fields of an options dataclass by name, in order.

    Raises
    ------
    TypeError
        If a field has a type that a configuration cannot represent (an error of the class, not of the user).
    """
    hints = typing.get_type_hints(options)
    return {
        entry.name: _field(entry, hints[entry.name]) for entry in dataclasses.fields(options) if entry.init
    }


def _field(entry: dataclasses.Field[Any], hint: Any) -> OptionField:
    hint = _without(hint, type(None))
    if any(entry.metadata.get(key) is not None for key in ("word", "whole")):
        hint = _without(hint, str)
    length: int | None = None
    if typing.get_origin(hint) is tuple:
        arguments = typing.get_args(hint)
        length = 0 if arguments[-1] is Ellipsis else len(arguments)
        items = {item for item in arguments if item is not Ellipsis}
        hint = items.pop() if len(items) == 1 else None
    if hint not in _WORDS:
        raise TypeError(f"option '{entry.name}': a configuration cannot hold values of type {entry.type}")
    known = {field.name for field in dataclasses.fields(OptionField)}
    declared = {key: value for key, value in entry.metadata.items() if key in known}
    return OptionField(entry.name, hint, length, entry.default, **declared)


def _without(hint: Any, other: type) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [kind for kind in typing.get_args(hint) if kind is not other]
        return rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007
    return hint
