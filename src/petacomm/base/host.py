"""Processor and memory of this machine, and memory use of this process."""

from __future__ import annotations

import ctypes
import platform
import resource
import sys
from pathlib import Path


def cpu_info(key: str) -> str:
    """Return the value of a key of /proc/cpuinfo, such as "flags"; empty if there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def cpu_model() -> str:
    """Return the model name of the processor."""
    return cpu_info("model name") or platform.processor() or platform.machine()


def resident_bytes() -> int:
    """Return the resident memory of this process, in bytes."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return peak_bytes()


def peak_bytes() -> int:
    """Return the peak resident memory of this process, in bytes."""
    # getrusage also counts the launcher's memory, from before exec replaced it by this program.
    high_water = _kilobytes("/proc/self/status", "VmHWM:")
    if high_water is not None:
        return high_water * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def available_bytes() -> int:
    """Return the memory available to processes on this host, in bytes."""
    free = _kilobytes("/proc/meminfo", "MemAvailable:")
    return sys.maxsize if free is None else free * 1024


def return_free_memory() -> None:
    """Give memory back to the system that the process has freed; glibc would keep much of it for later."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _kilobytes(file: str, key: str) -> int | None:
    try:
        with open(file, encoding="ascii", errors="replace") as lines:
            return next((int(line.split()[1]) for line in lines if line.startswith(key)), None)
    except OSError:
        return None
