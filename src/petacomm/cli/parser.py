"""The parser that commands share, and how every command ends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from petacomm.base.errors import ConfigError, UserError, did_you_mean

INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        """Raise `message` as an error with its mend."""
        raise ConfigError(_reworded(message), mend=f"see {self.prog} --help")


def _reworded(message: str) -> str:
    """Say 'did you mean' where a command is misspelt, instead of listing every choice."""
    word, found, choices = message.partition(": invalid choice: ")
    if not found:
        return message
    word, _, choices = choices.partition(" (choose from ")
    known = [choice.strip(" '\")") for choice in choices.split(",")]
    word = word.split(", maybe you meant")[0].strip("'")
    return f"unknown command '{word}': {did_you_mean(word, known)}"


def parse_arguments(parser: Parser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; words may stand before and after options."""
    arguments, rest = parser.parse_known_args(argv)
    if rest and (rest[0].startswith("-") or not hasattr(arguments, "words")):
        parser.error(f"unknown argument '{rest[0]}'")
    if rest:
        arguments.words += rest
    if arguments.command is None:
        parser.print_help()
        raise SystemExit(0)
    return arguments


def run_command(build_parser: Callable[[], Parser], argv: Sequence[str] | None) -> int:
    """Run one command and return its exit code; an error is one line, without a traceback."""
    parser = build_parser()
    try:
        arguments = parse_arguments(parser, argv)
        code: int = arguments.handler(arguments)
    except UserError as error:
        _say(f"{parser.prog}: error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say(f"{parser.prog}: interrupted; files already written are whole")
        return INTERRUPTED
    except BrokenPipeError:
        # `petamap examples | head`: the reader has left, and flushing at exit would complain once more.
        sys.stdout = None
        return 0
    return code


def _say(line: str) -> None:
    """Speak on the first rank alone: every rank meets the same errors of the command line."""
    ranks = (os.environ.get(name, "0") for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"))
    if all(rank == "0" for rank in ranks):
        print(line, file=sys.stderr)
