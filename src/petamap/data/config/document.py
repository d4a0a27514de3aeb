"""A configuration as it was written, before it is known to mean anything: tables of values with lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from petacomm.base.errors import ConfigError, UserError, printable

_SHOWN = 10
_MOST = 100  # after so many the rest is not looked at: a file of nothing but errors is refused soon


@dataclass(frozen=True)
class Value:
    """A value and where it stands.

    Attributes
    ----------
    raw : object
        What the file says: text, number, bool or a list of them. XML and the command line know only text.
    line : int
        Counted from 1; 0 where it comes from the command line.
    item_lines : tuple of int
        The lines of the items of a list, where they are known.
    untyped : bool
        Whether text may stand for a number or a bool.
    """

    raw: object
    line: int
    item_lines: tuple[int, ...] = ()
    untyped: bool = False

    def item(self, index: int) -> Value:
        """Return one item of a list."""
        assert isinstance(self.raw, list)
        line = self.item_lines[index] if index < len(self.item_lines) else self.line
        return Value(self.raw[index], line, untyped=self.untyped)


@dataclass
class Table:
    """A section, or one source: values by key."""

    line: int
    values: dict[str, Value] = field(default_factory=dict)


class Problems:
    """What is wrong with a configuration, collected so that all of it can be told at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: list[tuple[int, ConfigError]] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, line: int, what: str, mend: str | None = None) -> None:
        """Keep one problem; line 0 is the command line.

        Raises
        ------
        ConfigError
            If these are too many to go on.
        """
        where = f"{self.file}:{line}" if line else "command line"
        error = ConfigError(printable(what), where=where, mend=printable(mend) if mend else None)
        self._found.append((line, error))
        if len(self._found) == _MOST:
            self.raise_any()

    def add_error(self, line: int, error: UserError) -> None:
        """Keep what an error says."""
        self.add(line, error.what, error.mend)

    def raise_any(self) -> None:
        """Raise what was found, in the order of the lines.

        Raises
        ------
        ConfigError
            The problem, or one that lists up to ten of them, a line each.
        """
        errors = [error for _, error in sorted(self._found, key=lambda found: found[0])]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            lines = [f"\n  {error}" for error in errors[:_SHOWN]]
            if len(errors) > _SHOWN:
                lines.append(f"\n  and {len(errors) - _SHOWN} more")
            count = f"{len(errors)} problems" + " or more" * (len(errors) == _MOST)
            raise ConfigError(count + "".join(lines), where=self.file)


@dataclass
class Document:
    """A configuration file taken apart.

    Attributes
    ----------
    file : str
        Its name, as error messages give it.
    folder : Path
        Where relative paths start.
    sections : dict of str to Table
        By name, unknown ones included.
    sources : list of Table
        In order; the kind of each is a value like the others.
    problems : Problems
        What the reader found wrong with the structure.
    """

    file: str
    folder: Path
    sections: dict[str, Table] = field(default_factory=dict)
    sources: list[Table] = field(default_factory=list)
    problems: Problems = field(init=False)

    def __post_init__(self) -> None:
        self.problems = Problems(self.file)
