"""Take away what Linux has and macOS has not: for processes with this folder in PYTHONPATH."""

import mmap
import os
import sys
import time

_LACKING = {
    mmap: ("MADV_HUGEPAGE", "MADV_NOHUGEPAGE", "MAP_POPULATE"),
    os: ("memfd_create", "pidfd_open", "posix_fadvise", "posix_fallocate", "sched_getaffinity"),
    time: ("CLOCK_BOOTTIME",),
}


def refuse(event, arguments):
    """Raise an OSError where a file of the system is opened that Linux alone has."""
    if event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], str | bytes):
        return
    path = os.fsdecode(arguments[0])
    if path.startswith(("/proc/", "/sys/")) and path != "/proc/self/maps":  # threadpoolctl's
        raise FileNotFoundError(2, "there is no such file but on Linux", path)


for module, names in _LACKING.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.addaudithook(refuse)
