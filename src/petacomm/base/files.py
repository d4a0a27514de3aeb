"""Reading of text files, and atomic writing of files: under a temporary name, synced, then renamed."""

from __future__ import annotations

import errno
import glob
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from petacomm.base.errors import ConfigError, ResourceError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which is renamed to `path` if the block succeeds, else deleted.

    Raises
    ------
    ResourceError
        If the file cannot be written (disk full, no permission). An existing file at `path` is untouched.
    """
    target = Path(path)
    with write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            _sync(temporary)
            os.chmod(temporary, 0o666 & ~_umask())
            temporary.replace(target)
            sync_folder(target.parent)
        finally:
            temporary.unlink(missing_ok=True)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Bring the names in a folder to the disk: those of files that were renamed, or removed."""
    _sync(Path(path))


def remove_temporaries(path: str | os.PathLike[str]) -> None:
    """Remove temporary files of `path` that killed processes have left; not while another one writes it."""
    target = Path(path)
    for temporary in target.parent.glob(glob.escape(f".{target.name}.") + f"*{glob.escape(target.suffix)}"):
        temporary.unlink(missing_ok=True)


def check_writable(folder: Path) -> None:
    """Raise the error of writing into a folder, if any: to be found before hours of work."""
    probe = folder / ".writable"
    try:
        with atomic_write(probe):
            pass
    finally:
        if probe.exists():
            probe.unlink()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file by `atomic_write`, as UTF-8."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def require_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that is to be read; the end of a FIFO, say, is waited for without end.

    Raises
    ------
    OSError
        If it is missing, or no regular file.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
        raise OSError(
            errno.EINVAL, f"is a {kinds.get(stat.S_IFMT(mode), 'device')}, no file", os.fspath(path)
        )
    return Path(path)


def read_text(path: str | os.PathLike[str], mend: str | None = None) -> str:
    """Return the text of a file; raise a ConfigError with the remedy `mend` if it cannot be read as UTF-8."""
    try:
        return require_file(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"cannot be read: {reason}", where=os.fspath(path), mend=mend) from None


_MEND = "free space or choose another --out; what stood there before is untouched"


@contextmanager
def write_errors(path: str | os.PathLike[str], mend: str = _MEND) -> Iterator[None]:
    """Turn an OSError of writing `path` into a ResourceError with the remedy `mend`."""
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
