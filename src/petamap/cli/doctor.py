"""``petamap doctor``: is everything in place, and if not, what to do."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from petacomm.base.host import available_bytes, cpu_info, cpu_model

OK, WARN, FAIL = "ok", "warn", "fail"
UNWELL = 5

# distribution -> (least version, what it is for); as in pyproject.toml
_NEEDED = {
    "numpy": ((1, 26), "arrays"),
    "scipy": ((1, 11), "optimisation and statistics"),
    "ducc0": ((0, 34), "FFTs and spherical harmonics"),
    "astropy": ((6, 0), "FITS files"),
    "h5py": ((3, 10), "HDF5 files"),
    "lxml": ((5,), "XML configurations"),
    "rich": ((13,), "progress on a terminal"),
}
_OPTIONAL = {"flacarray": "reads TOAST volumes compressed by FLAC", "healpy": "oracle of the tests"}

# Runs in a process of its own: an instruction that this processor lacks kills it, not the doctor.
_IMPORT_EXTENSIONS = """
import importlib
import pathlib, petamap
files = [file for root in petamap.__path__ for file in pathlib.Path(root).glob("*/_*")]
for file in sorted(file for file in files if file.suffix in (".so", ".pyd")):
    name = f"petamap.{file.parent.name}.{file.name.split('.')[0]}"
    print(name, flush=True)
    importlib.import_module(name)
"""


@dataclass(frozen=True)
class Check:
    """One line of the doctor's findings."""

    name: str
    status: str
    text: str
    mend: str = ""


def add_commands(commands: Any) -> None:
    """Add ``doctor`` to the subparsers."""
    parser = commands.add_parser(
        "doctor",
        help="check that everything is in place",
        description="Check the installation and the machine; each line is ok, warn or fail, with the mend.",
    )
    parser.set_defaults(handler=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    worst = OK
    for check in checks():
        print(f"{check.status:<5} {check.name:<12} {check.text}", flush=True)
        if check.mend:
            print(f"{'':<18} -> {check.mend}", flush=True)
        worst = max(worst, check.status, key=(OK, WARN, FAIL).index)
    print({OK: "\nall is well", WARN: "\nusable; see the warnings", FAIL: "\nnot usable; see above"}[worst])
    return UNWELL if worst == FAIL else 0


def checks() -> Iterator[Check]:
    """Yield every finding, the quick ones first."""
    yield python_version()
    for name, (least, purpose) in _NEEDED.items():
        yield package(name, least, purpose)
    for name, purpose in _OPTIONAL.items():
        yield optional_package(name, purpose)
    rest: tuple[Callable[[], Check], ...] = (extensions, processor, threads, memory, disk, mpi)
    for check in rest:
        yield check()


def python_version() -> Check:
    """Check the version of Python."""
    good = sys.version_info >= (3, 10)
    return Check(
        "python",
        OK if good else FAIL,
        f"{platform.python_version()} ({sys.executable})",
        "" if good else "use Python 3.10 or newer",
    )


def package(name: str, least: tuple[int, ...], purpose: str) -> Check:
    """Check that a package that petamap needs is there and new enough."""
    wanted = ".".join(map(str, least))
    version = _version(name)
    mend = f"pip install '{name}>={wanted}'"
    if version is None:
        return Check(name, FAIL, f"missing ({purpose})", mend)
    if _numbers(version) < least:
        return Check(name, FAIL, f"{version} is older than {wanted} ({purpose})", mend)
    return Check(name, OK, f"{version} ({purpose})")


def optional_package(name: str, purpose: str) -> Check:
    """Check whether a package that adds something is there."""
    version = _version(name)
    return Check(name, OK, f"{version or 'not installed, optional'} ({purpose})")


def extensions() -> Check:
    """Check that the compiled kernels load on this processor."""
    done = _python(_IMPORT_EXTENSIONS, [], timeout=60)
    names = done.stdout.split()
    if done.returncode == 0:
        return Check("kernels", OK, f"{len(names)} compiled modules load")
    last = names[-1] if names else "petamap"
    if done.returncode < 0:
        what = f"{last} needs instructions that this processor lacks (signal {-done.returncode})"
        return Check("kernels", FAIL, what, "build on this machine, or with PETAMAP_ARCH=x86-64-v3")
    return Check("kernels", FAIL, f"{last}: {_last_line(done.stderr)}", "install petamap again (make build)")


def processor() -> Check:
    """Hold the instruction sets that the kernels were built for against the processor's."""
    built = _python(
        "from petacomm.base._base import instruction_sets; print(*instruction_sets)", [], timeout=60
    )
    has = set(cpu_info("flags").split())
    name = cpu_model()
    if built.returncode != 0 or not has:
        return Check("processor", OK, name)
    used = set(built.stdout.split())
    if used - has:
        return Check(
            "processor", FAIL, f"{name} lacks {', '.join(sorted(used - has))}", "build on this machine"
        )
    unused = has & {"avx2", "fma", "avx512f"} - used
    if unused:
        text = f"{name}: the kernels do not use {', '.join(sorted(unused))}"
        return Check("processor", WARN, text, "build on this machine for more speed")
    return Check("processor", OK, f"{name} (kernels use {', '.join(sorted(used)) or 'the baseline'})")


def threads() -> Check:
    """Check the number of threads against the processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdigit() and int(wanted) > cpus:
        text = f"OMP_NUM_THREADS={wanted} on {cpus} processors"
        return Check("threads", WARN, text, f"export OMP_NUM_THREADS={cpus}")
    return Check("threads", OK, f"{cpus} processors" + (f", OMP_NUM_THREADS={wanted}" if wanted else ""))


def memory() -> Check:
    """Check that a small run fits into memory."""
    available = available_bytes()
    if available == sys.maxsize:
        return Check("memory", WARN, "cannot be told on this system")
    text = f"{available / 1e9:.1f} GB available"
    if available < 1e9:
        return Check("memory", WARN, text, "close other programs; the examples need about 1 GB")
    return Check("memory", OK, text)


def disk() -> Check:
    """Check that the working folder can hold maps."""
    folder = Path.cwd()
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:.1f} GB free in {folder}"
    if not os.access(folder, os.W_OK):
        return Check("disk", WARN, f"{folder} cannot be written", "give --out a folder that can")
    if free < 1e9:
        return Check("disk", WARN, text, "free space, or give --out another disk")
    return Check("disk", OK, text)


def mpi() -> Check:
    """Check that the launcher and mpi4py belong together, by a message between two processes."""
    if _version("mpi4py") is None:
        return Check("mpi", OK, "not installed, optional: runs are one process", "pip install 'petamap[mpi]'")
    launcher = launcher_path()
    if launcher is None:
        return Check(
            "mpi", WARN, "mpi4py is there but no mpiexec", "pip install mpich, or load your MPI module"
        )
    try:
        done = _python(_PING, [launcher, "-n", "2"], timeout=60)
    except subprocess.TimeoutExpired:
        return Check("mpi", FAIL, f"two processes of {launcher} did not meet in 60 s", _SAME_MPI)
    answer = done.stdout.strip()
    if done.returncode != 0:
        return Check("mpi", FAIL, f"{launcher}: {_last_line(done.stderr)}", _SAME_MPI)
    if not answer.startswith("ping"):
        return Check("mpi", FAIL, f"{launcher} started two runs of one process each", _SAME_MPI)
    return Check("mpi", OK, f"{answer.removeprefix('ping ')} ({launcher})")


def launcher_path() -> str | None:
    """Return mpiexec beside this Python, or else the one on the path."""
    beside = Path(sys.executable).with_name("mpiexec")
    return str(beside) if beside.exists() else shutil.which("mpiexec")


_SAME_MPI = (
    "mpiexec and mpi4py must belong to the same MPI library: pip install --force-reinstall mpich mpi4py"
)
_PING = """
from petacomm.mpi import world
comm = world()
if comm.size == 2:
    total = comm.sum(comm.rank + 1)
    if comm.rank == 0 and total == 3:
        from mpi4py import MPI
        print("ping", MPI.Get_library_version().splitlines()[0].strip())
"""


def _python(code: str, launcher: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    command = [*launcher, sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    import re

    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
