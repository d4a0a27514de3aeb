"""Argument parser and error handling shared by all commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol

from petacomm.base.errors import ConfigError, UserError, did_you_mean
from petacomm.base.launcher import launched_rank
from petacomm.base.phases import clear_note
from petacomm.base.shortage import shortage_error
from petacomm.cli.supervisor import supervise

INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors as a ConfigError, on one line."""

    def error(self, message: str) -> NoReturn:
        """Raise a ConfigError with `message`."""
        raise ConfigError(_shorten(message), mend=f"see {self.prog} --help")


def _shorten(message: str) -> str:
    """Return argparse's message, with 'did you mean' instead of the list of all choices."""
    word, separator, choices = message.partition(": invalid choice: ")
    if not separator:
        return message
    word, _, choices = choices.partition(" (choose from ")
    known = [choice.strip(" '\")") for choice in choices.split(",")]
    word = word.split(", maybe you meant")[0].strip("'")
    return f"unknown command '{word}': {did_you_mean(word, known)}"


class CommandModule(Protocol):
    """Module with sub-commands."""

    def add_commands(self, commands: Any) -> None:
        """Add the sub-commands to the sub-parsers of the command."""


def command_parser(
    prog: str, version: str, description: str, epilog: str, modules: Iterable[CommandModule]
) -> Parser:
    """Return the parser of a command with the sub-commands of `modules`."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog=prog, description=description, epilog=epilog, formatter_class=raw, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"{prog} {version}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for module in modules:
        module.add_commands(commands)
    return parser


def parse_arguments(parser: Parser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed arguments; positional words may come before and after options."""
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
    """Run one command and return its exit code; errors are printed on one line, without a traceback.

    Without `argv`, this is the command of the process, and under a launcher another one tells its end.
    """
    parser = build_parser()
    try:
        if argv is None:
            supervise(parser.prog)
        arguments = parse_arguments(parser, argv)
        code: int = arguments.handler(arguments)
    except UserError as error:
        _print_error(f"{parser.prog}: {error.label}{error}")
        code = error.exit_code
    except KeyboardInterrupt:
        _print_error(f"{parser.prog}: interrupted; files already written are whole")
        code = INTERRUPTED
    except BrokenPipeError:
        # E.g. `petamap examples | head`: flushing a closed pipe at exit would raise a second error.
        sys.stdout = None
        code = 0
    except SystemExit:
        clear_note()
        raise
    except Exception as error:
        short = shortage_error(error, launched_rank())
        if short is None:
            raise
        # Other ranks may not fail: all print, and launchers are to end the others.
        print(f"{parser.prog}: error: {short}", file=sys.stderr)
        return short.exit_code
    clear_note()
    return code


def _print_error(line: str) -> None:
    """Print an error on the first rank only: errors of the command line are the same on all ranks."""
    if launched_rank() in (None, "0"):
        print(line, file=sys.stderr)
