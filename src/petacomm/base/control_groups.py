"""Limits of the control groups that this process is in, as batch systems, containers and systemd set them.

Linux has two versions. A group's limits hold for all groups in it, so those of each group on the way to the
root are looked at. What cannot be read sets no limit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_MOUNT, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_MEMORY_LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")
_MEMORY_USED = ("memory.current", "memory.usage_in_bytes")
_FILES = ("inactive_file", "active_file")  # and total_... of version 1
_UNLIMITED = 1 << 60  # version 1 says so by a number as large


def memory_left(mount: Path = _MOUNT, own: Path = _OWN) -> int | None:
    """Return the bytes of memory that may be taken beside those in use; None if no group has a limit.

    Contents of files that the system would drop are not in use.
    """
    left = [_memory_left_in(group) for group in _groups("memory", mount, own)]
    return min((one for one in left if one is not None), default=None)


def processor_quota(mount: Path = _MOUNT, own: Path = _OWN) -> float | None:
    """Return the number of processors whose time may be taken; None if no group has a limit."""
    quotas = [_quota_of(group) for group in _groups("cpu", mount, own)]
    return min((one for one in quotas if one is not None), default=None)


def _groups(controller: str, mount: Path, own: Path) -> Iterator[Path]:
    """Yield the folders of this process's groups of a controller, and of those around them."""
    for line in (_text(own) or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        names = (controllers, controller) if controllers else ("", "unified")
        for root in (mount / name for name in names):
            inner = root / path.lstrip("/")
            yield inner
            yield from (folder for folder in inner.parents if folder.is_relative_to(root))


def _memory_left_in(group: Path) -> int | None:
    limits = [limit for name in _MEMORY_LIMITS if (limit := _number(group / name)) is not None]
    limit = min(limits, default=_UNLIMITED)
    if limit >= _UNLIMITED:
        return None
    used = next((n for name in _MEMORY_USED if (n := _number(group / name)) is not None), 0)
    rows = [line.split() for line in (_text(group / "memory.stat") or "").splitlines()]
    found = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}
    files = sum(found.get(f"total_{name}", found.get(name, 0)) for name in _FILES)
    return max(0, limit - max(0, used - files))


def _quota_of(group: Path) -> float | None:
    words = (_text(group / "cpu.max") or "").split()
    if not words:
        words = [_text(group / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period")]
    with contextlib.suppress(ValueError, ZeroDivisionError):
        quota, period = (int(word) for word in words)
        return quota / period if quota > 0 else None
    return None


def _number(file: Path) -> int | None:
    text = (_text(file) or "").strip()
    return int(text) if text.isdecimal() else None


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
