"""Reading of text files, and atomic writing of files: under a temporary name, synced, then renamed."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import platform
import re
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from petacomm.base.errors import ConfigError, ResourceError

# Temporary files and folders: the name of what is to be, its process, where that is, and a random end.
_TEMPORARY = re.compile(r"^\..*\.(?P<process>\d+)-(?P<where>[0-9a-f]{8})-\w{8}(\.[^.]*)?$")
# Seconds without a write after which a process that cannot be asked is taken to have ended.
_ABANDONED_S = 3600
# Clocks of file systems are that far from those of their machines.
_CLOCKS_DIFFER_S = 60
_WRITTEN_AT_ONCE = 1 << 20  # bytes
_cleaned: set[Path] = set()  # folders
_NAME_BYTES = 255  # of a name at most, on all common file systems
_TEMPORARY_BYTES = 64  # of what a temporary name has beside that of its target


_MEND = "free space or choose another --out; what stood there before is untouched"


@contextmanager
def atomic_write(path: str | os.PathLike[str], mend: str = _MEND) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which is renamed to `path` if the block succeeds, else deleted.

    Raises
    ------
    ResourceError
        If the file cannot be written (disk full, no permission). An existing file at `path` is untouched.
    """
    target = Path(path)
    with write_errors(target, mend):
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target.parent)
        handle, name = tempfile.mkstemp(prefix=_prefix(target), suffix=target.suffix, dir=target.parent)
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


def temporary_folder(path: str | os.PathLike[str]) -> Path:
    """Return a new folder beside `path`, which is to be renamed to it; one of a killed process is removed.

    Raises
    ------
    ResourceError
        If it cannot be made.
    """
    target = Path(path)
    with write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target.parent)
        made = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
        made.chmod(0o777 & ~_umask())
    return made


def _prefix(target: Path) -> str:
    # of a long name the beginning: what is to be is told by the process that writes it, not by its name
    suffix = len(os.fsencode(target.suffix))
    name = os.fsencode(target.name)[: max(1, _NAME_BYTES - _TEMPORARY_BYTES - suffix)].decode(errors="ignore")
    return f".{name}.{os.getpid()}-{_here()}-"


def check_names(paths: Iterable[Path], mend: str) -> None:
    """Raise a ConfigError if the name of a file would be longer than file systems take."""
    for path in paths:
        if (length := len(os.fsencode(path.name))) > _NAME_BYTES:
            what = f"{length} bytes are too long a name: {path.name[:24]}...{path.name[-24:]}"
            raise ConfigError(f"{what}, of at most {_NAME_BYTES}", where=str(path.parent), mend=mend)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Bring the names in a folder to the disk: those of files that were renamed, or removed."""
    _sync(Path(path))


def remove_abandoned(folder: Path) -> None:
    """Remove temporary files and folders that killed processes have left in a folder, when first asked to.

    Their names tell the process that writes them. One of this machine that runs keeps them, unless it is
    being killed; one of another machine keeps those that it has written to within the last hour.
    """
    if folder in _cleaned:
        return
    _cleaned.add(folder)
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if writer := _TEMPORARY.search(entry.name):
                with contextlib.suppress(OSError):
                    if _is_abandoned(entry, int(writer["process"]), writer["where"]):
                        _remove(entry)


def _is_abandoned(entry: os.DirEntry[str], process: int, where: str) -> bool:
    written = _last_write(entry)
    if where != _here():
        return written < time.time() - _ABANDONED_S
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # of another user
        pass
    return _has_ended(process, written)


def _last_write(entry: os.DirEntry[str]) -> float:
    """Return when a file was written to, or the last of a folder's files."""
    written = entry.stat(follow_symlinks=False).st_mtime
    if entry.is_dir(follow_symlinks=False):
        with os.scandir(entry) as files:
            written = max(written, *(one.stat(follow_symlinks=False).st_mtime for one in files), 0.0)
    return written


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry)
    else:
        os.unlink(entry)


def _has_ended(process: int, written: float) -> bool:
    """Return whether a process that the system still knows can write no more, or is not the one that wrote.

    A process that was killed stays until its parent has asked for its end, and before that while it waits for
    a disk. Its number may be that of another one that began since.
    """
    if sys.platform != "linux":
        return False
    try:
        status = dict(line.split(":", 1) for line in _of_process(process, "status").splitlines())
        pending = int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)
        if status["State"].split()[0] in "ZX" or pending >> (signal.SIGKILL - 1) & 1:
            return True
        ticks = int(_of_process(process, "stat").rpartition(")")[2].split()[19])  # since the boot
    except (OSError, KeyError, ValueError):  # it ends just now
        return False
    began = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    return began > written + _CLOCKS_DIFFER_S


def _of_process(process: int, name: str) -> str:
    return Path(f"/proc/{process}/{name}").read_text(encoding="ascii", errors="replace")


@functools.cache
def _here() -> str:
    """Return a short name of what process numbers are of: this boot of this machine, or a container on it."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.blake2b(" ".join(parts).encode(), digest_size=4).hexdigest()


def reserve_space(file: BinaryIO, n_bytes: int) -> None:
    """Give an empty file that is open for writing its length, and its place on the disk.

    Raises
    ------
    OSError
        If the disk has no room.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, n_bytes)
        return
    zeros = bytes(min(n_bytes, _WRITTEN_AT_ONCE))  # macOS has no such call
    for begin in range(0, n_bytes, _WRITTEN_AT_ONCE):
        file.write(zeros[: n_bytes - begin])
    file.flush()


def check_writable(folder: Path) -> None:
    """Raise the error of writing into a folder, if any: to be found before hours of work."""
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file by `atomic_write`, as UTF-8."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def require_path(value: Any, what: str = "path") -> Path:
    """Return a path; raise a ConfigError of what is none."""
    if not isinstance(value, str | os.PathLike):
        raise ConfigError(f"must be a path, not {type(value).__name__}", where=what)
    return Path(value)


def require_possible(path: str | os.PathLike[str]) -> None:
    """Raise the error of what is no path, or of one that the system cannot look for, as one too long."""
    require_path(path, "out")  # numbers are open files to the system
    told_later = (FileNotFoundError, NotADirectoryError, PermissionError)  # by who writes there
    with write_errors(path, mend="choose another --out"), contextlib.suppress(*told_later):
        os.stat(path)


def require_current_folder() -> None:
    """Raise the error of work in a folder that is no more.

    Raises
    ------
    ResourceError
        If the current folder was removed, or may not be looked at.
    """
    try:
        os.getcwd()
    except OSError as error:
        raise ResourceError("the current folder is not there any more", mend="cd to one that is") from error


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
    """Return the text of a file without a byte order mark, as Windows' editors put before it.

    Raises
    ------
    ConfigError
        With the remedy `mend`, if it cannot be read as UTF-8.
    """
    try:
        return require_file(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"cannot be read: {reason}", where=os.fspath(path), mend=mend) from None


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
