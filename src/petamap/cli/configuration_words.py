"""The words of a command line that name a configuration and change it, and their completion by a shell."""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path
from typing import Any

from petacomm.base.errors import ConfigError
from petamap.examples import TO_RUN, example_names, find_example

WORDS = "configuration, then settings as KEY=VALUE"
EXAMPLE = "an example of the package (petamap examples)"
_OVERRIDE = re.compile(r"[A-Za-z_][\w.\-\[\]]*=")


def add_configuration_arguments(
    parser: argparse.ArgumentParser,
    words: str = WORDS,
    example: str = EXAMPLE,
    files: tuple[str, ...] = TO_RUN,
) -> None:
    """Add the words and the option that name a configuration, with these texts of help.

    Examples are those that have one of `files`.
    """
    named = parser.add_argument("words", metavar="CONFIG", nargs="*", help=words)
    named.completer = complete_word  # type: ignore[attr-defined]
    chosen = parser.add_argument("--example", metavar="NAME", help=example)
    chosen.completer = partial(complete_example, files=files)  # type: ignore[attr-defined]


def add_threads_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--threads`` to a parser."""
    parser.add_argument(
        "--threads", metavar="N", type=int, help="of each process [OMP_NUM_THREADS, or all its cores]"
    )


def complete_word(prefix: str, **_: Any) -> list[str]:
    """Return the configurations and the keys that a word may become."""
    from argcomplete.completers import FilesCompleter

    from petamap.data.config import SECTIONS
    from petamap.data.config.fields import option_fields

    keys = [f"{section}.{key}=" for section, options in SECTIONS.items() for key in option_fields(options)]
    files: list[str] = FilesCompleter(("toml", "xml"))(prefix)
    return [key for key in keys if key.startswith(prefix)] + files


def complete_example(prefix: str, files: tuple[str, ...] = TO_RUN, **_: Any) -> list[str]:
    """Return the names of examples, those with one of `files`, that a word may become."""
    return [name for name in example_names(files) if name.startswith(prefix)]


def is_setting(word: str) -> bool:
    """Return whether a word of the command line is ``key=value``."""
    return _OVERRIDE.match(word) is not None


def split_words(words: list[str]) -> tuple[Path | None, list[str]]:
    """Return the configuration and the ``key=value`` settings among the words.

    Raises
    ------
    ConfigError
        If more than one word is not a setting.
    """
    settings = [word for word in words if is_setting(word)]
    files = [word for word in words if not is_setting(word)]
    if len(files) > 1:
        raise ConfigError(
            f"one configuration a run, found {' and '.join(files)}", mend="settings are KEY=VALUE"
        )
    return (Path(files[0]) if files else None), settings


def configuration_path(file: Path | None, example: str | None, files: tuple[str, ...] = TO_RUN) -> Path:
    """Return the path of the configuration, or of that of an example: the first of `files` that exists.

    Raises
    ------
    ConfigError
        If neither or both are given, or the example is unknown.
    """
    if example is not None:
        if file is not None:
            raise ConfigError(f"both '{file}' and --example given", mend="give one of them")
        return find_example(example, files)
    if file is None:
        raise ConfigError("no configuration given", mend="petamap run CONFIG, or petamap run --example spire")
    return file
