"""Whole files or none: written under a temporary name, synced, renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from petacomm.base.errors import ResourceError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it becomes `path`, else nothing changes.

    Raises
    ------
    ResourceError
        If the file cannot be written (disk full, no permission). What stood at `path` is untouched.
    """
    target = Path(path)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            _sync(temporary)
            os.chmod(temporary, 0o666 & ~_umask())
            temporary.replace(target)
            _sync(target.parent)
        finally:
            temporary.unlink(missing_ok=True)


_MEND = "free space or choose another --out; what stood there before is untouched"


@contextmanager
def writing(path: str | os.PathLike[str], mend: str = _MEND) -> Iterator[None]:
    """Turn what the system says against writing `path` into a ResourceError."""
    try:
        yield
    except OSError as error:
        raise ResourceError(
            f"cannot be written: {error.strerror or error}",
            where=os.fspath(path),
            mend=mend,
        ) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
