"""Streams to whoever looks on, whose loss does not end the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO


class Screen:
    """Text stream that goes on as if all were well once nobody can be told any more.

    What is not here is that of the stream.

    Parameters
    ----------
    stream : text file
    lost : type
        Error of a stream that is lost: `BrokenPipeError`, or any `OSError` of one that holds no results.
        Others are raised, once.
    told : callable, optional
        Called with the error when the stream is lost.

    Examples
    --------
    >>> import os
    >>> reading, writing = os.pipe()
    >>> os.close(reading)
    >>> screen = Screen(open(writing, "w"), BrokenPipeError)
    >>> print("nobody reads this", file=screen, flush=True)
    """

    def __init__(
        self, stream: TextIO, lost: type[OSError], told: Callable[[OSError], None] | None = None
    ) -> None:
        self.stream, self._lost, self._told = stream, lost, told

    def write(self, text: str) -> int:
        """Write text, and return its length."""
        self._try(lambda: self.stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write out what is kept back."""
        self._try(self.stream.flush)

    def close(self) -> None:
        """Write out what is kept back, and close the stream."""
        self.flush()
        self.stream.close()

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError as error:
            self._drop()  # else what it keeps would fail again as Python ends
            if not isinstance(error, self._lost):
                raise
            if self._told is not None:
                self._told(error)

    def _drop(self) -> None:
        """Let what the stream still keeps, and what comes, go nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, self.stream.fileno())
        finally:
            os.close(nowhere)
        with suppress(OSError):
            self.stream.flush()


@contextmanager
def lasting_screens() -> Iterator[None]:
    """Let a command do its work whole, though nobody may read what it prints meanwhile.

    Standard output that nobody reads is dropped, but a full disk is an error there where it is written to or
    flushed, which the command does at its end: results may be written to it. Standard error is dropped where
    it cannot be written, or does not exist.
    """
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w") as nowhere:
        out, err = (nowhere if stream is None else stream for stream in before)
        sys.stdout, sys.stderr = Screen(out, BrokenPipeError), Screen(err, OSError)
        try:
            yield
        finally:
            with suppress(OSError):
                sys.stdout.flush()
            sys.stderr.flush()
            sys.stdout, sys.stderr = before
