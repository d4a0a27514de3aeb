"""Inclusion of configurations in others: ``include = ["instrument.toml"]``.

The files come first, in their order, each with those that it includes. Sections of the file that includes
them are merged into theirs, key by key, and its own keys win; its sources follow theirs. A file that is
reached twice counts once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from petacomm.base.errors import ConfigError
from petamap.data.config.document import Document, Value

MOST_FILES = 100


def include_files(
    document: Document, path: Path, n_lines: int, read: Callable[[Path], tuple[Document, int]]
) -> None:
    """Put the files that a document includes, and those that these include, before its content.

    Parameters
    ----------
    document : Document
    path : Path
        Its file.
    n_lines : int
        Lines of the file.
    read : callable
        Returns the document of a file, and its number of lines.

    Raises
    ------
    ConfigError
        If files include each other, there are more than 100, or one cannot be read.
    """
    _Inclusion(document, n_lines, read).add(document.includes, document, [path.resolve()])


class _Inclusion:
    """Inclusions into a document: the files seen so far, and the number of their lines."""

    def __init__(
        self, document: Document, n_lines: int, read: Callable[[Path], tuple[Document, int]]
    ) -> None:
        self.document, self.n_lines, self.read = document, n_lines, read
        self.seen: set[Path] = set()

    def add(self, includes: list[Value], of: Document, within: list[Path], by: int = 0) -> None:
        """Put files before the content, the last first, so that they come in their order."""
        for value in reversed(includes):
            place = self.document.problems.place(value.line + by)
            if not isinstance(value.raw, str) or not value.raw:
                raise ConfigError("include is a list of files", where=place, mend='include = ["base.toml"]')
            path = of.folder / value.raw
            found = path.resolve()
            if found in within:
                chain = " includes ".join(one.name for one in [*within[within.index(found) :], found])
                raise ConfigError(f"files include each other: {chain}", where=place)
            if found in self.seen:
                continue
            self.seen.add(found)
            if len(self.seen) > MOST_FILES:
                raise ConfigError(f"more than {MOST_FILES} files are included", where=place)
            self._put(path, within, place)

    def _put(self, path: Path, within: list[Path], place: str) -> None:
        if not path.is_file():
            mend = "relative paths start at the folder of the file that includes it"
            raise ConfigError(f"there is no file '{path}' to include", where=place, mend=mend)
        other, n_lines = self.read(path)
        before = self.n_lines
        self.n_lines += n_lines
        self.document.add_file(other.file, other.folder, before)
        self.document.put_before(other, before)
        self.add(other.includes, other, [*within, path.resolve()], before)
