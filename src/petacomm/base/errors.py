"""Errors for users: each has a message, a place, a remedy, and an exit code of the command."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

_LONGEST = 400  # characters of a message


class UserError(Exception):
    """An error that a user can act on.

    Parameters
    ----------
    what : str
        What is wrong, in one sentence.
    where : str, optional
        Place of the error: ``file:line``, or file, observation, detector and sample.
    mend : str, optional
        Remedy: what the user can do about it.

    Attributes
    ----------
    what, where, mend : str
        The parameters.
    exit_code : int
        Exit code of a command that ends with the error.

    Examples
    --------
    >>> from petacomm import UserError
    >>> print(UserError("no such detector", where="focalplane.toml:7"))
    focalplane.toml:7: no such detector
    """

    exit_code: ClassVar[int] = 1
    label: ClassVar[str] = "error: "  # before the message on the screen

    def __init__(self, what: str, *, where: str | None = None, mend: str | None = None) -> None:
        super().__init__(what, where, mend)
        self.what = what
        self.where = where
        self.mend = mend

    def __str__(self) -> str:
        text = f"{_escaped(self.where)}: {self.what}" if self.where else self.what
        return f"{text} ({self.mend})" if self.mend else text

    def __reduce__(self) -> tuple[object, ...]:
        # Errors are pickled between ranks, which does not support keyword-only arguments by itself.
        return _rebuild, (type(self), self.what, self.where, self.mend)


def _rebuild(error_type: type[UserError], what: str, where: str | None, mend: str | None) -> UserError:
    return error_type(what, where=where, mend=mend)


class ConfigError(UserError):
    """Error in the run configuration or the command line.

    Parameters
    ----------
    what : str
        What is wrong, in one sentence.
    where : str, optional
        Place of the error.
    mend : str, optional
        Remedy.

    Examples
    --------
    >>> from petacomm import ConfigError
    >>> print(ConfigError("no algorithm 'rign'", where="run.toml:3", mend="did you mean 'ring'?"))
    run.toml:3: no algorithm 'rign' (did you mean 'ring'?)
    """

    exit_code = 2


class TimeLimitError(ConfigError):
    """End of the job's time before there is anything to save that another job could go on from."""


class DataError(UserError):
    """Error in an input file or its content.

    Parameters
    ----------
    what : str
        What is wrong, in one sentence.
    where : str, optional
        Place of the error.
    mend : str, optional
        Remedy.

    Examples
    --------
    >>> from petacomm import DataError
    >>> print(DataError("not a map", where="map.fits"))
    map.fits: not a map
    """

    exit_code = 3


class ConvergenceError(UserError):
    """Failure of a solver to reach its tolerance.

    Parameters
    ----------
    what : str
        What is wrong, in one sentence.
    where : str, optional
        Place of the error.
    mend : str, optional
        Remedy.

    Examples
    --------
    >>> from petacomm import ConvergenceError
    >>> ConvergenceError("a residual of 0.1 after 100 iterations").exit_code
    4
    """

    exit_code = 4


class ResourceError(UserError):
    """Lack of memory, disk space or time, or of a library.

    Parameters
    ----------
    what : str
        What is wrong, in one sentence.
    where : str, optional
        Place of the error.
    mend : str, optional
        Remedy.

    Examples
    --------
    >>> from petacomm import ResourceError
    >>> print(ResourceError("no space", mend="free space"))
    no space (free space)
    """

    exit_code = 5


class Interruption(UserError):
    """End of a job that was asked to stop and wants to go on later: no error, but no result either.

    Parameters
    ----------
    what : str
        Why it stopped, in one sentence.
    where : str, optional
        Place of the saved state.
    mend : str, optional
        How to go on.

    Examples
    --------
    >>> from petacomm import Interruption
    >>> Interruption("stopped by SIGTERM").exit_code
    75
    """

    exit_code = 75  # EX_TEMPFAIL of <sysexits.h>
    label = ""


class Termination(UserError):
    """End of a command by SIGTERM that has nothing to go on from; exit code 143, as shells count signals."""

    exit_code = 143
    label = ""


# raised by signals, anywhere: whoever handles errors of its own work lets them pass
STOPS = (Interruption, Termination, TimeLimitError)


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put a place before that of a ConfigError that leaves the block."""
    try:
        yield
    except STOPS:
        raise
    except ConfigError as error:
        place = f"{where}, {error.where}" if error.where else where
        raise ConfigError(error.what, where=place, mend=error.mend) from error


def closest(word: str, known: list[str]) -> str | None:
    """Return the known word that is most similar to a word; None if none is similar."""
    import difflib

    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.6)), None)


def did_you_mean(word: str, known: list[str]) -> str | None:
    """Return a remedy that names the most similar of the known words, or all if none is similar."""
    meant = closest(str(word), known)
    if meant is not None:
        return f"did you mean '{meant}'?"
    return f"known: {', '.join(sorted(known))}" if known else None


def require_known(what: str, word: str, known: Iterable[str]) -> None:
    """Raise a ConfigError of `what` and the word, and the most similar known one, unless it is known."""
    words = list(known)
    if not is_known(word, words):
        raise ConfigError(f"{what} '{word}'", mend=did_you_mean(word, words))


def is_known(word: object, known: Iterable[str]) -> bool:
    """Return whether a word is one of those known; what is no text, such as an array, is not."""
    return isinstance(word, str) and word in known


def printable(text: str) -> str:
    """Return text from a file for use in a message, escaped and cut to 400 characters."""
    escaped = _escaped(text[:_LONGEST])
    return escaped if len(text) <= _LONGEST else escaped + "..."


def _escaped(text: str) -> str:
    """Return text on one line, whatever a file's name has."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
