"""From a file to a run configuration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from petacomm.base.errors import ConfigError
from petamap.data.config.document import Document
from petamap.data.config.model import RunConfig
from petamap.data.config.overrides import override
from petamap.data.config.resolve import resolve
from petamap.data.config.toml_reader import read_toml
from petamap.data.config.xml_reader import read_xml

MAX_BYTES = 128 * 1024
_READERS = {".toml": read_toml, ".xml": read_xml}


def load(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> RunConfig:
    """Read a run configuration, TOML or XML by its suffix.

    Parameters
    ----------
    path : path
        The file.
    overrides : sequence of str
        ``key=value``, applied before anything is judged; see `petamap.data.config.overrides`.

    Raises
    ------
    ConfigError
        With all that is wrong, each by file, line, key and mend. No source is opened.
    """
    path = Path(path)
    if path.suffix.lower() not in _READERS:
        raise ConfigError("a run configuration is a .toml or an .xml file", where=str(path))
    return loads(_text(path), path, overrides)


def loads(text: str, path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a run configuration from a text that stands, or might stand, at `path`.

    Raises
    ------
    ConfigError
        As `load`.
    """
    document: Document = _READERS[path.suffix.lower()](text, str(path), path.absolute().parent)
    override(document, overrides)
    return resolve(document, path)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        mend = "'petamap init' writes one to begin with"
        raise ConfigError("there is no such configuration", where=str(path), mend=mend) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"more than {MAX_BYTES} bytes: this is no run configuration", where=str(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("not UTF-8", where=f"{path}:{line}", mend="save it as UTF-8") from None
