"""The phase that this process is in, for messages about its end.

The name of the phase is also written to a note in memory that a supervising process shares
(`petacomm.cli.supervisor`); there is none otherwise.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

_NOTE_BYTES = 256

_open: list[str] = []  # names of phases within each other, the outermost first
_where = "at its start"
_note: mmap.mmap | None = None


@contextmanager
def in_phase(name: str) -> Iterator[None]:
    """Be in a phase within the block. An error that leaves the outermost phase remembers its name."""
    _open.append(name)
    if len(_open) == 1:
        _be(f"in phase '{name}'")
    try:
        yield
    except BaseException as error:
        error.__dict__["_phase"] = name
        raise
    finally:
        _open.pop()
        if not _open:
            _be(f"after phase '{name}'")


def where_in_work() -> str:
    """Return where in its work this process is: in a phase, after the last one, or at its start."""
    return _where


def phase_of(error: BaseException) -> str | None:
    """Return the outermost phase that an error was raised in, or that this process is in."""
    phase: str | None = _open[0] if _open else error.__dict__.get("_phase")
    return phase


def share_note() -> mmap.mmap:
    """Return the note of this process's phase, in memory that is shared with children forked from now on."""
    global _note
    _note = mmap.mmap(-1, _NOTE_BYTES)
    _write(_where)
    return _note


def read_note(note: mmap.mmap) -> str:
    """Return where in its work a process is, by its note; empty after `clear_note`."""
    return note[:].rstrip(b"\0").decode(errors="replace")


def clear_note() -> None:
    """Say that this process ends as it should: what was wrong, if anything, has been told."""
    _write("")


def _be(where: str) -> None:
    global _where
    _where = where
    _write(where)


def _write(when: str) -> None:
    if _note is not None:
        _note[:] = when.encode()[:_NOTE_BYTES].ljust(_NOTE_BYTES, b"\0")
