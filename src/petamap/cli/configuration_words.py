"""The words of a command line that name a configuration and change it, and their completion by a shell."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from petamap.examples import TO_RUN, example_names

WORDS = "configuration, then settings as KEY=VALUE"
EXAMPLE = "an example of the package (petamap examples)"


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
