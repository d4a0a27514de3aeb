"""Reading of run configurations from files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from petacomm.base.arguments import require_text
from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.files import require_file
from petamap.data.config.document import Document
from petamap.data.config.fields import option_fields
from petamap.data.config.inclusion import include_files
from petamap.data.config.model import REPEATED, SECTIONS, RunConfig
from petamap.data.config.overrides import override_document
from petamap.data.config.resolve import resolve
from petamap.data.config.toml_reader import read_toml_document, read_tree
from petamap.data.config.xml_reader import read_xml_document

MAX_BYTES = 128 * 1024
_READERS = {".toml": read_toml_document, ".xml": read_xml_document}


def load_config(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> RunConfig:
    r"""Read a run configuration, TOML or XML by its suffix.

    Parameters
    ----------
    path : path
        File with the suffix ``.toml`` or ``.xml``.
    overrides : sequence of str
        ``key=value``, applied before validation (see `petamap.data.config.overrides`).

    Returns
    -------
    RunConfig

    Raises
    ------
    ConfigError
        If the configuration is not valid; lists all problems with file, line, key and a suggestion. No source
        is opened.

    Examples
    --------
    >>> from pathlib import Path
    >>> import petamap
    >>> text = '[map]\nn_side = 64\n[[source]]\nkind = "satellite"\nduration = "1 h"\n'
    >>> _ = Path("run.toml").write_text(text)
    >>> petamap.load_config("run.toml", ["map.n_side=128"]).map.n_side
    128
    """
    path = Path(path)
    if path.suffix.lower() not in _READERS:
        raise ConfigError("a run configuration is a .toml or an .xml file", where=str(path))
    return parse_config(_text(path), path, overrides)


def parse_config(
    text: str, path: Path = Path("configuration.toml"), overrides: Sequence[str] = ()
) -> RunConfig:
    r"""Return the run configuration of a text.

    Parameters
    ----------
    text : str
        Configuration in TOML or XML.
    path : Path
        File of the text, which need not exist: it gives the format, the folder of relative paths, and the
        name for messages.
    overrides : sequence of str
        ``key=value``, applied before validation.

    Returns
    -------
    RunConfig

    Raises
    ------
    ConfigError
        If the configuration is not valid.

    Examples
    --------
    >>> from pathlib import Path
    >>> import petamap
    >>> text = '[map]\nn_side = 64\n[[source]]\nkind = "satellite"\nduration = "1 h"\n'
    >>> config = petamap.parse_config(text, Path("run.toml"))
    >>> config.map.n_side, config.sources[0].kind
    (64, 'satellite')
    """
    path = Path(path)
    document, n_lines = _document(require_text(text, "configuration"), path)
    if document.includes:
        include_files(document, path, n_lines, _included)
    override_document(document, overrides)
    return resolve(document, path)


def _document(text: str, path: Path) -> tuple[Document, int]:
    """Return the document of a text and the number of its lines."""
    if path.suffix.lower() not in _READERS:
        raise ConfigError("a run configuration is a .toml or an .xml file", where=str(path))
    document: Document = _READERS[path.suffix.lower()](text, str(path), path.absolute().parent)
    return document, text.count("\n") + 1


def _included(path: Path) -> tuple[Document, int]:
    return _document(_text(path), path)


def require_configuration(config: Any) -> None:
    """Raise a ConfigError unless this is a run configuration, as the path of its file is not."""
    if not isinstance(config, RunConfig):
        path = f'"{config}"' if isinstance(config, str | os.PathLike) else '"run.toml"'
        what = f"is a {type(config).__name__}, no configuration"
        raise ConfigError(what, where="config", mend=f"give petamap.load_config({path})")


def config_of_options(options: Mapping[str, Any]) -> RunConfig:
    """Return the run configuration of options, for data that are given beside them.

    Parameters
    ----------
    options : mapping
        What a configuration in TOML holds, ``{"solver": {"tolerance": 1e-8}, "split": [{...}]}``; options of
        sections may be named in short, ``{"solver.tolerance": 1e-8}``. Relative paths refer to the working
        directory.

    Raises
    ------
    ConfigError
        If an option is not valid; lists all problems.
    """
    tree: dict[str, Any] = {}
    document = Document("options", Path.cwd(), numbered=False)
    for name, value in options.items():
        section, dot, key = str(name).partition(".")
        if dot and isinstance(tree.setdefault(section, {}), dict):
            tree[section][key] = _plain(value)
        elif isinstance(value, Mapping):
            tree.setdefault(section, {}).update(_plain(value))
        elif isinstance(value, list | tuple) or section in ("source", *REPEATED):
            tree[section] = _plain(value)
        else:
            known = [f"{one}.{key}" for one, kind in SECTIONS.items() for key in option_fields(kind)]
            meant = [one for one in known if one.endswith(f".{name}")]
            mend = f"it is {' or '.join(meant)}" if meant else did_you_mean(str(name), known)
            document.problems.add(1, f"unknown option '{name}'", mend)
    read_tree(tree, {}, document)
    return resolve(document)


def _plain(value: Any) -> Any:
    """Return a value as a parser of TOML does: paths as text, numbers of NumPy as Python's."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if hasattr(value, "item") else value


def _text(path: Path) -> str:
    try:
        with require_file(path).open("rb") as file:
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
