"""Argument parser and error handling shared by all commands."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

from petacomm.base import console
from petacomm.base.errors import ConfigError, ResourceError, Termination, UserError, did_you_mean
from petacomm.base.files import require_current_folder
from petacomm.base.host import require_address_space
from petacomm.base.launcher import launched_rank, launched_size
from petacomm.base.phases import clear_note, where_in_work
from petacomm.base.root_cause import root_cause
from petacomm.base.screen import lasting_screens
from petacomm.base.signal_errors import forget_signal, raise_of_signal, when_safe
from petacomm.cli.supervisor import end_by_signal, supervise

INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors as a ConfigError, on one line."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.register("type", Path, _path)

    def error(self, message: str) -> NoReturn:
        """Raise a ConfigError with `message`."""
        raise ConfigError(_shorten(message), mend=f"see {self.prog} --help")


def _path(word: str) -> Path:
    """Return a path; no empty word, as of a variable that is not set: it would be the current folder."""
    if not word:
        raise argparse.ArgumentTypeError("an empty path")
    return Path(word)


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


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says how much a command shows; `run_command` acts on it."""
    parser.add_argument("-q", "--quiet", action="store_true", help="show warnings and errors alone")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each step, and memory used")
    parser.add_argument("--log", metavar="FILE", type=Path, help="add what is shown to a file, with times")


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


def refuse_options(
    arguments: argparse.Namespace,
    parser: argparse.ArgumentParser,
    verb: str,
    verbs_of: Mapping[str, Sequence[str]],
) -> None:
    """Raise a ConfigError if an option is given that a verb of a command does not take.

    Parameters
    ----------
    arguments : argparse.Namespace
    parser : argparse.ArgumentParser
        Of the command, which has the defaults.
    verb : str
        Empty for a command without one.
    verbs_of : mapping of str to sequence of str
        Verbs that take an option, by its name.
    """
    for name, verbs in verbs_of.items():
        if verb not in verbs and getattr(arguments, name) != parser.get_default(name):
            where = f"with '{verb}'" if verb else f"without '{' or '.join(verbs)}'"
            raise ConfigError(
                f"--{name.replace('_', '-')} {where}", mend=f"leave it away, or see {parser.prog} --help"
            )


def run_command(build_parser: Callable[[], Parser], argv: Sequence[str] | None) -> int:
    """Run one command and return its exit code; errors are printed on one line, without a traceback.

    Without `argv`, this is the command of the process, and under a launcher another one tells its end.
    """
    parser = build_parser()
    if argv is None:
        _complete(parser)
    with lasting_screens():
        return _run_command(parser, argv)


def _run_command(parser: Parser, argv: Sequence[str] | None) -> int:
    console.choose_output()
    try:
        if argv is None:
            supervise(parser.prog)
        with _raising_signals():
            code = _answer(parser, argv)
    except SystemExit:
        clear_note()
        raise
    except BaseException as error:
        if argv is None:
            _end_by_its_signal(root_cause(error))
        code = _tell_end(error, parser.prog)
    finally:
        forget_signal()
    clear_note()
    return code


def _answer(parser: Parser, argv: Sequence[str] | None) -> int:
    """Return the exit code of a command; that its results do not fit on a disk is an error of it."""
    try:
        arguments = parse_arguments(parser, argv)
        require_address_space()
        require_current_folder()
        _choose_output(arguments, parser.prog, sys.argv[1:] if argv is None else argv)
        code: int = arguments.handler(arguments)
    except SystemExit:  # help
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return code


def _complete(parser: Parser) -> None:
    """Answer a shell that asks for completions of a command line, and end; else just return."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def _choose_output(arguments: argparse.Namespace, prog: str, words: Sequence[str]) -> None:
    given = {name: value for name in ("quiet", "verbose", "log") if (value := getattr(arguments, name, None))}
    if launched_rank() not in (None, "0"):
        given.pop("log", None)
    console.choose_output(**given)
    console.add_to_log(f"{time.strftime('%Y-%m-%d')} {prog} {' '.join(words)}")


@contextmanager
def _raising_signals() -> Iterator[None]:
    """Let SIGTERM raise a `Termination` within the block; only the main thread of a program can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    forget_signal()
    handlers = {signal.SIGTERM: when_safe(_terminate)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # background jobs may ignore it
        handlers[signal.SIGINT] = when_safe(_interrupt)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int) -> None:
    signal.signal(number, signal.SIG_IGN)  # a launcher that sends it again gets the same end
    raise_of_signal(Termination(f"terminated {where_in_work()}; files already written are whole"), number)


def _interrupt(number: int) -> None:
    raise_of_signal(KeyboardInterrupt(), number)


def _end_by_its_signal(error: BaseException) -> None:
    """End a rank of several as the signal that raised an error does; return if it was no signal.

    Before ranks can tell each other of errors, as while they meet first, some may wait for this one, and the
    launcher ends them only if it sees that. The process beside this one tells it.
    """
    for kind, number in ((KeyboardInterrupt, signal.SIGINT), (Termination, signal.SIGTERM)):
        if isinstance(error, kind) and launched_size() != 1:
            end_by_signal(number)


def _tell_end(error: BaseException, prog: str) -> int:
    """Tell an error that ends a command on one line, and return the exit code; raise it if it is a defect."""
    cause = root_cause(error, launched_rank())
    if isinstance(cause, KeyboardInterrupt):
        _tell_once(f"{prog}: interrupted; files already written are whole")
        return INTERRUPTED
    if not isinstance(cause, UserError):
        raise error
    line = f"{prog}: {cause.label}{cause}"
    if isinstance(cause, ResourceError) and cause is not error:
        # Other ranks may not fail: all print, and launchers are to end the others.
        console.tell(line)
    else:
        _tell_once(line)
    return cause.exit_code


def _tell_once(line: str) -> None:
    """Tell an error on the first rank only: errors of the command line are the same on all ranks."""
    if launched_rank() in (None, "0"):
        console.tell(line)
