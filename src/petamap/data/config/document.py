"""Parsed but not yet validated configurations: tables of values with line numbers.

Lines of included files are counted on from those of the file before, so that one number tells file and line
(as positions of Go's ``token.FileSet`` do): the first line of a file follows the last of another.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from pathlib import Path

from petacomm.base.errors import ConfigError, printable
from petamap.data.config.pixel_options import without_replaced

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
        Line, counted from 1 through all files; 0 for the command line.
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

    def shifted(self, by: int) -> Value:
        """Return the value with its lines counted on from others."""
        items = tuple(line + by for line in self.item_lines)
        return replace(self, line=self.line + by, item_lines=items)


@dataclass
class DocumentTable:
    """Section or source: values by key."""

    line: int
    values: dict[str, Value] = field(default_factory=dict)

    def shifted(self, by: int) -> DocumentTable:
        """Return the table with its lines counted on from others."""
        return DocumentTable(self.line + by, {key: value.shifted(by) for key, value in self.values.items()})


class Problems:
    """Problems of a configuration, collected in order to report them all at once.

    Without `numbered`, it is no file and has no lines.
    """

    def __init__(self, file: str, numbered: bool = True) -> None:
        self.file = file
        self._files, self._before = [file], [0]  # names, and lines before the first of each
        self.numbered = numbered
        self._found: list[tuple[int, ConfigError]] = []

    def add_file(self, file: str, before: int) -> None:
        """Let lines after `before` be those of another file."""
        self._files.append(file)
        self._before.append(before)

    def __len__(self) -> int:
        return len(self._found)

    def place(self, line: int) -> str:
        """Return file and line of a value; line 0 stands for the command line."""
        if not self.numbered:
            return self.file
        if not line:
            return "command line"
        number = bisect_right(self._before, line - 1) - 1
        return f"{self._files[number]}:{line - self._before[number]}"

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

    def take(self, other: Problems, by: int) -> None:
        """Take over the problems of another file, with their lines shifted."""
        self._found += [(line + by, error) for line, error in other._found]

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
    includes : list of Value
        Other files, whose content comes before that of this one.
    sections : dict of str to DocumentTable
        Sections by name, including unknown ones.
    sources : list of DocumentTable
        Sources in order; the kind is one of the values.
    repeated : dict of str to list of DocumentTable
        Other tables that may be given several times, by their name.
    numbered : bool
        Whether it has lines: a mapping of options has none.
    problems : Problems
        Problems of the structure.
    """

    file: str
    folder: Path
    sections: dict[str, DocumentTable] = field(default_factory=dict)
    sources: list[DocumentTable] = field(default_factory=list)
    repeated: dict[str, list[DocumentTable]] = field(default_factory=dict)
    includes: list[Value] = field(default_factory=list)
    numbered: bool = True
    problems: Problems = field(init=False)

    def __post_init__(self) -> None:
        self.problems = Problems(self.file, self.numbered)
        self._folders, self._before = [self.folder], [0]

    def folder_of(self, line: int) -> Path:
        """Return the folder that relative paths in a line refer to."""
        return self._folders[bisect_right(self._before, max(line, 1) - 1) - 1]

    def add_file(self, file: str, folder: Path, before: int) -> None:
        """Let lines after `before` be those of another file."""
        self._folders.append(folder)
        self._before.append(before)
        self.problems.add_file(file, before)

    def put_before(self, other: Document, by: int) -> None:
        """Put the content of another file, lines shifted, before this one's, which has precedence."""
        for name, table in other.sections.items():
            own = self.sections.get(name)
            merged = table.shifted(by)
            if own is not None:
                before = merged.values
                if name == "map" and "pixelization" in own.values:
                    before = without_replaced(before, own.values["pixelization"].raw)
                merged = DocumentTable(own.line, before | own.values)
            self.sections[name] = merged
        self.sources[:0] = [table.shifted(by) for table in other.sources]
        for name, tables in other.repeated.items():
            self.repeated[name] = [one.shifted(by) for one in tables] + self.repeated.get(name, [])
        self.problems.take(other.problems, by)
