"""The errors a user meets: each says where, what, and the mend, and knows its exit code."""

from __future__ import annotations

from typing import ClassVar

_LONGEST = 400  # characters of a message


class UserError(Exception):
    """An error that a user can act on.

    Parameters
    ----------
    what : str
        What is wrong, in one sentence.
    where : str, optional
        The place: ``file:line``, or file, observation, detector and sample.
    mend : str, optional
        What to do about it.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str | None = None, mend: str | None = None) -> None:
        super().__init__(what, where, mend)
        self.what = what
        self.where = where
        self.mend = mend

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.mend})" if self.mend else text

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel between ranks by pickle; keyword-only arguments need this.
        return _rebuild, (type(self), self.what, self.where, self.mend)


def _rebuild(kind: type[UserError], what: str, where: str | None, mend: str | None) -> UserError:
    return kind(what, where=where, mend=mend)


class ConfigError(UserError):
    """The run configuration or the command line is wrong."""

    exit_code = 2


class DataError(UserError):
    """An input file or its content is wrong."""

    exit_code = 3


class ConvergenceError(UserError):
    """The solver did not reach its tolerance."""

    exit_code = 4


class ResourceError(UserError):
    """Memory, disk or time do not suffice."""

    exit_code = 5


def did_you_mean(word: str, known: list[str]) -> str | None:
    """Return a mend naming the closest of `known`, or all of them where none is close."""
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known: {', '.join(sorted(known))}" if known else None


def printable(text: str) -> str:
    """Return what a message may quote from a file: no control characters, no endless words."""
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:_LONGEST])
    return shown if len(text) <= _LONGEST else shown + "..."
