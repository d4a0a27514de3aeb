"""Lock of a folder that one process at a time writes to."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from petacomm.base.errors import ConfigError
from petacomm.base.files import write_errors


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Hold a lock while a folder is written to; the end of the process, however it comes, gives it back.

    On file systems without locks this does nothing.

    Parameters
    ----------
    path : Path
        File of the lock, which is made and removed.

    Raises
    ------
    ConfigError
        If another process holds it.
    ResourceError
        If the file cannot be made.
    """
    descriptor = _locked(path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # first: whoever has opened it meanwhile sees that it is gone
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return the descriptor of the file that the path names, locked."""
    import fcntl

    while True:
        with write_errors(path):
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                return descriptor  # no locks here
            os.close(descriptor)
            raise ConfigError(
                "another process writes to this folder now",
                where=str(path.parent),
                mend="wait for its end, or choose another --out",
            ) from None
        if _is_named(descriptor, path):
            return descriptor
        os.close(descriptor)


def _is_named(descriptor: int, path: Path) -> bool:
    """Return whether a path still names an open file: its last holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
