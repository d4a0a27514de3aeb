"""Processor and memory of this machine, and memory use of this process."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
from pathlib import Path

from petacomm.base.control_groups import memory_left
from petacomm.base.errors import ResourceError
from petacomm.base.text import format_bytes

# Address space that Python with NumPy, SciPy and HDF5 needs, on any number of cores; measured on few.
_LIBRARIES_BYTES = 512 << 20


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


def memory_bounds(n_processes: int = 1) -> dict[str, int]:
    """Return the bytes that each of some processes on this host may take more, by what says so.

    Parameters
    ----------
    n_processes : int
        Processes that share what the host, control groups and Slurm allow.

    Returns
    -------
    dict of str to int
        Of what is free, or where the system does not tell that, of all memory; of a control group's limit,
        the memory asked of Slurm, and limits of this process. Of those that there are.
    """
    free, group, asked = _kilobytes("/proc/meminfo", "MemAvailable:"), memory_left(), _slurm_bytes()
    bounds = {
        "free memory": None if free is None else free * 1024 // n_processes,
        "the memory of the machine": None if free else _machine_bytes() // n_processes - resident_bytes(),
        "the limit of a control group": None if group is None else group // n_processes,
        "the memory asked of Slurm": None if asked is None else asked // n_processes - resident_bytes(),
        "ulimit -v": _below_limit(resource.RLIMIT_AS, "VmSize:"),
        "ulimit -d": _below_limit(resource.RLIMIT_DATA, "VmData:"),
    }
    return {name: max(0, value) for name, value in bounds.items() if value is not None}


def require_address_space() -> None:
    """Check that a process may map what its libraries need before it does any work.

    OpenBLAS waits for ever, or ends the process, where it cannot.

    Raises
    ------
    ResourceError
        If `ulimit -v` allows less.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < _LIBRARIES_BYTES:
        raise ResourceError(
            f"ulimit -v {limit // 1024} leaves no room for libraries",
            mend=f"allow {_LIBRARIES_BYTES // 1024} or more",
        )


def available_bytes(n_processes: int = 1) -> int:
    """Return the bytes that each of some processes on this host may take beside what they have.

    It is the least of `memory_bounds`.
    """
    return min(memory_bounds(n_processes).values(), default=sys.maxsize)


def _machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require_memory(n_bytes: float, what: str, mend: str) -> None:
    """Check that there is memory for what takes it only after a long time of work.

    Parameters
    ----------
    n_bytes : float
        Bytes that it takes at least.
    what : str
        What takes it.
    mend : str

    Raises
    ------
    ResourceError
        If this process may not take as many; `what` and both numbers are named.
    """
    bounds = memory_bounds()
    limit = min(bounds, key=bounds.__getitem__, default=None)
    if limit is not None and n_bytes > bounds[limit]:
        needed, left = format_bytes(n_bytes), format_bytes(bounds[limit])
        raise ResourceError(f"{what} take {needed} of memory or more, beyond {limit} of {left}", mend=mend)


def _slurm_bytes() -> int | None:
    """Return the bytes of a node that the job has asked of Slurm; None if it has asked for none."""
    per_node, per_cpu, cpus = (
        _environment_number(f"SLURM_{name}") for name in ("MEM_PER_NODE", "MEM_PER_CPU", "CPUS_ON_NODE")
    )
    return (per_node or per_cpu * cpus) << 20 or None


def _environment_number(name: str) -> int:
    text = os.environ.get(name, "").strip()
    return int(text) if text.isdecimal() else 0


def _below_limit(kind: int, used: str) -> int | None:
    """Return the bytes from what this process uses to its limit of a kind; None if it has none."""
    limit = resource.getrlimit(kind)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    return limit - (_kilobytes("/proc/self/status", used) or 0) * 1024


def keep_freed_memory() -> None:
    """Have this process use again what it frees, in arrays of up to 16 MB.

    Solvers free vectors and make others in each iteration; each page that glibc gives back in between and
    gets anew is a fault. It keeps arrays as large as one that was freed before, up to 32 MB, and twice that
    at the end of its heap, unless the environment says what it keeps.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p],
    )  # fmt: skip
    libc.free(libc.malloc(16 << 20))


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
