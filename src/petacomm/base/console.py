"""Lines for the user on standard error, and in a log beside it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

from petacomm.base.errors import ConfigError
from petacomm.base.screen import Screen


@dataclass
class Output:
    """What a command shows.

    Attributes
    ----------
    quiet : bool
        Whether progress and closing tables are left away; warnings and errors never are.
    verbose : bool
        Whether each step of a phase has its line.
    log : Path or None
        File that all lines are added to.
    """

    quiet: bool = False
    verbose: bool = False
    log: Path | None = None


output = Output()  # of this process


def choose_output(quiet: bool = False, verbose: bool = False, log: Path | None = None) -> None:
    """Set what the command of this process shows.

    Raises
    ------
    ConfigError
        If both less and more is asked for, or the log cannot be written.
    """
    if quiet and verbose:
        raise ConfigError("both --quiet and --verbose", mend="give one of them")
    output.quiet, output.verbose, output.log = quiet, verbose, None
    if log is not None:
        if log.exists() and not (log.is_file() or log.is_char_device()):
            raise ConfigError("the log is no file that can be written to", where=str(log))
        try:
            log.open("a", encoding="utf-8").close()
        except OSError as error:
            raise ConfigError(f"the log cannot be written: {error.strerror}", where=str(log)) from None
        output.log = log


def tell(text: str) -> None:
    """Print lines that the user must see, as errors, and add them to the log."""
    print(text, file=sys.stderr, flush=True)
    add_to_log(text)


def inform(text: str) -> None:
    """Print lines unless the user wants quiet, and add them to the log."""
    if not output.quiet:
        print(text, file=sys.stderr, flush=True)
    add_to_log(text)


def add_to_log(text: str) -> None:
    """Add lines to the log, if there is one, the first with the time of day."""
    if output.log is not None:
        with open_log(output.log) as file:
            print(time.strftime("%H:%M:%S"), text, file=file)


def open_log(log: Path) -> TextIO:
    """Open a log, to which lines are added; a warning tells if it can be written no more, and work goes on.

    Raises
    ------
    ConfigError
        If it cannot be opened.
    """

    def told(error: OSError) -> None:
        output.log = None
        print(f"warning: the log {log} ends here: {error.strerror}", file=sys.stderr, flush=True)

    try:
        file = log.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
    except OSError as error:
        raise ConfigError(f"the log cannot be written: {error.strerror}", where=str(log)) from None
    return cast(TextIO, Screen(file, OSError, told))
