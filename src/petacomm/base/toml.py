"""Reading TOML with the line number of every key, which the standard library's reader does not return.

The scanner is linear in the text and follows headers, dotted and quoted keys, strings of all four kinds,
arrays and inline tables. It does not check values: where the text is not TOML it stops and leaves the error
to the reader. It runs first, so that errors name duplicate keys, and deep nesting or long keys are rejected
before the reader sees them.
"""

from __future__ import annotations

import re
import sys
from typing import Any, TypeAlias

from petacomm.base.errors import ConfigError, printable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Key: TypeAlias = tuple[str | int, ...]
KeyLines: TypeAlias = dict[Key, int]

MAX_DEPTH = 16  # of nested arrays and tables, and of the parts of a key

MAX_SCALAR = 500  # characters of a number; the reader's time grows quadratically with them

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_BLANK = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_REST = re.compile(r"[^\n]*\n?")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]*")
_STRINGS = {
    '"""': re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL),
    "'''": re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}"),
    '"': re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    "'": re.compile(r"'[^'\n]*'"),
}


def parse_toml(text: str, file: str) -> tuple[dict[str, Any], KeyLines]:
    """Return the tree of a TOML text and the line of each key.

    Raises
    ------
    ConfigError
        If the text is not TOML, has a duplicate key, or nests deeper than `MAX_DEPTH`.
    """
    lines = locate_keys(text, file)
    try:
        return tomllib.loads(text), lines
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), text, file, lines) from None


def _syntax_error(message: str, text: str, file: str, lines: KeyLines) -> ConfigError:
    place = _PLACE.search(message)
    line = int(place.group(1)) if place and place.group(1) else text.count("\n") + 1
    what = _PLACE.sub("", message)
    what = f"not TOML: {what[:1].lower()}{what[1:]}"
    keys = [".".join(map(str, path)) for path, at in lines.items() if at == line]
    if what.endswith("invalid value") and keys:
        what += f" of '{keys[-1]}'"
    mend = "text, and numbers with units, stand in quotes" if "invalid value" in what else None
    return ConfigError(printable(what), where=f"{file}:{line}", mend=mend)


def locate_keys(text: str, file: str) -> KeyLines:
    """Return the line of each key, table and list item by its path; lines count from 1.

    Raises
    ------
    ConfigError
        If a key is duplicate or the nesting is deeper than `MAX_DEPTH`.
    """
    return _Scanner(text, file).run()


class _NotToml(Exception):
    """The text at the present position is not TOML."""


class _Scanner:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self.lines: KeyLines = {}
        self._sizes: dict[Key, int] = {}  # of arrays of tables
        self._declared: set[Key] = set()  # by a header
        self._line, self._counted = 1, 0

    def run(self) -> KeyLines:
        try:
            base: Key = ()
            while self._gap() < len(self.text):
                if self.text[self.at] == "[":
                    base = self._header()
                else:
                    self._pair(base, 0)
                self._match(_REST)
        except _NotToml:
            pass
        return self.lines

    def line(self) -> int:
        """Return the line of the present position."""
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def _match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if not match:
            raise _NotToml
        self.at = match.end()
        return match.group()

    def _gap(self) -> int:
        self._match(_GAP)
        return self.at

    def _skip(self, word: str) -> bool:
        present = self.text.startswith(word, self.at)
        self.at += len(word) * present
        return present

    def _expect(self, word: str) -> None:
        if not self._skip(word):
            raise _NotToml

    def _header(self) -> Key:
        line = self.line()
        array = self._skip("[[")
        if not array:
            self._expect("[")
        parts = self._key()
        self._expect("]]" if array else "]")
        path = self._resolved(parts)
        if array:
            index = self._sizes.get(path, 0)
            self._sizes[path] = index + 1
            self.lines.setdefault(path, line)
            path = (*path, index)
        elif path in self._declared:
            raise self._error(f"[{_dotted(path)}] is given twice", line, f"first in line {self.lines[path]}")
        self._declared.add(path)
        self.lines.setdefault(path, line)
        return path

    def _resolved(self, parts: Key) -> Key:
        """Return the path of a header, with the newest item of each array of tables in it."""
        path: Key = ()
        for count, part in enumerate(parts, 1):
            path = (*path, part)
            if path in self._sizes and count < len(parts):
                path = (*path, self._sizes[path] - 1)
        return path

    def _key(self) -> Key:
        parts: list[str | int] = []
        while True:
            self._match(_BLANK)
            parts.append(self._key_part())
            if len(parts) > MAX_DEPTH:
                raise self._error(f"a key of more than {MAX_DEPTH} parts")
            self._match(_BLANK)
            if not self._skip("."):
                return tuple(parts)

    def _key_part(self) -> str:
        quote = self.text[self.at : self.at + 1]
        if quote not in ('"', "'") or not quote:
            return self._match(_BARE)
        inside = self._match(_STRINGS[quote])[1:-1]
        return _unescaped(inside) if quote == '"' else inside

    def _pair(self, base: Key, depth: int) -> None:
        line = self.line()
        parts = self._key()
        self._expect("=")
        path = (*base, *parts)
        if path in self.lines:
            raise self._error(f"'{_dotted(path)}' is given twice", line, f"first in line {self.lines[path]}")
        for length in range(len(base) + 1, len(path)):
            self.lines.setdefault(path[:length], line)
        self.lines[path] = line
        self._match(_BLANK)
        self._value(path, depth)

    def _value(self, path: Key, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH}")
        head = self.text[self.at : self.at + 1]
        if head == "[":
            self._array(path, depth)
        elif head == "{":
            self._inline_table(path, depth)
        elif head and head in "\"'":
            self._string(path, head)
        elif len(self._match(_SCALAR)) > MAX_SCALAR:
            raise self._error(f"the value of '{_dotted(path)}' is longer than {MAX_SCALAR} characters")

    def _string(self, path: Key, head: str) -> None:
        triple = self.text[self.at : self.at + 3]
        try:
            self._match(_STRINGS[triple if triple in _STRINGS else head])
        except _NotToml:
            raise self._error(f"the text of '{_dotted(path)}' has no closing quote") from None

    def _array(self, path: Key, depth: int) -> None:
        self._expect("[")
        index = 0
        while self._gap() < len(self.text) and not self._skip("]"):
            item = (*path, index)
            self.lines[item] = self.line()
            self._value(item, depth + 1)
            self._gap()
            if not self._skip(",") and not self.text.startswith("]", self.at):
                raise _NotToml
            index += 1

    def _inline_table(self, path: Key, depth: int) -> None:
        self._expect("{")
        while self._gap() < len(self.text) and not self._skip("}"):
            self._pair(path, depth + 1)
            self._gap()
            if not self._skip(",") and not self.text.startswith("}", self.at):
                raise _NotToml

    def _error(self, what: str, line: int | None = None, mend: str | None = None) -> ConfigError:
        return ConfigError(printable(what), where=f"{self.file}:{line or self.line()}", mend=mend)


def _dotted(path: Key) -> str:
    return ".".join(map(str, path))


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_SHORT = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match.group(1) or match.group(2)
        if code is None:
            return _SHORT.get(match.group(3), match.group(3))
        return chr(int(code, 16)) if int(code, 16) < 0x110000 else ""

    return _ESCAPE.sub(character, text)
