"""Parsed but not yet validated configurations: tables of values with line numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from petacomm.base.errors import ConfigError, printable

_SHOWN = 10  # problems in a message
_MOST = 100  # problems after which reading stops


@dataclass(frozen=True)
class Value:
    """Value with its position in the file.

    Attributes
    ----------
    raw : object
        Value as parsed: text, number, bool or a list of them. XML and the command line have only text.
    line : int
        Line, counted from 1; 0 for the command line.
    item_lines : tuple of int
        Lines of the items of a list, if they are known.
    untyped : bool
        Whether text may stand for a number or a bool.
    """

    raw: object
    line: int
    item_lines: tuple[int, ...] = ()
    untyped: bool = False

    def item(self, index: int) -> Value:
        """Return an item of a list."""
        assert isinstance(self.raw, list)
        line = self.item_lines[index] if index < len(self.item_lines) else self.line
        return Value(self.raw[index], line, untyped=self.untyped)


@dataclass
class DocumentTable:
    """Section or source: values by key."""

    line: int
    values: dict[str, Value] = field(default_factory=dict)


class Problems:
    """Problems of a configuration, collected in order to report them all at once."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: list[tuple[int, ConfigError]] = []

    def __len__(self) -> int:
        return len(self._found)

    def place(self, line: int) -> str:
        """Return file and line of a value; line 0 stands for the command line."""
        return f"{self.file}:{line}" if line else "command line"

    def add(self, line: int, what: str, mend: str | None = None) -> None:
        """Add a problem; line 0 stands for the command line.

        Raises
        ------
        ConfigError
            If there are too many problems to continue.
        """
        error = ConfigError(printable(what), where=self.place(line), mend=printable(mend) if mend else None)
        self._found.append((line, error))
        if len(self._found) == _MOST:
            self.raise_any()

    def raise_any(self) -> None:
        """Raise the problems, if any, in the order of lines.

        Raises
        ------
        ConfigError
            The only problem, or an error that lists up to ten of them, one per line.
        """
        errors = [error for _, error in sorted(self._found, key=lambda item: item[0])]
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
    """Parsed configuration file.

    Attributes
    ----------
    file : str
        Name of the file for messages.
    folder : Path
        Folder that relative paths refer to.
    sections : dict of str to DocumentTable
        Sections by name, including unknown ones.
    sources : list of DocumentTable
        Sources in order; the kind is one of the values.
    repeated : dict of str to list of DocumentTable
        Other tables that may be given several times, by their name.
    problems : Problems
        Problems of the structure.
    """

    file: str
    folder: Path
    sections: dict[str, DocumentTable] = field(default_factory=dict)
    sources: list[DocumentTable] = field(default_factory=list)
    repeated: dict[str, list[DocumentTable]] = field(default_factory=dict)
    problems: Problems = field(init=False)

    def __post_init__(self) -> None:
        self.problems = Problems(self.file)
