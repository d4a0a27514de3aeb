"""``petamap doctor``: checks of the installation and the machine."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from petacomm.base.errors import UserError
from petacomm.base.host import cpu_model, memory_bounds
from petacomm.base.threads import allowed_processors, available_threads

OK, WARN, FAIL = "ok", "warn", "fail"
FAILURE_EXIT_CODE = 5

# distribution -> (minimum version, purpose); as in pyproject.toml
_NEEDED = {
    "numpy": ((1, 26), "arrays"),
    "scipy": ((1, 11), "optimisation and statistics"),
    "ducc0": ((0, 34), "FFTs and spherical harmonics"),
    "astropy": ((6, 0), "FITS files"),
    "h5py": ((3, 10), "HDF5 files"),
    "lxml": ((5,), "XML configurations"),
    "rich": ((13,), "progress on a terminal"),
}
_BELOW = {"ducc0": (0, 42)}  # versions that are too new, as in pyproject.toml
_OPTIONAL = {"flacarray": "reads TOAST volumes compressed by FLAC", "healpy": "oracle of the tests"}

# Run in a separate process, which an instruction that the processor lacks would kill.
_IMPORT_EXTENSIONS = """
import importlib
import pathlib, petacomm, petamap
from petacomm.base.instruction_set import kernel_set
for package in (petacomm, petamap):
    for root in map(pathlib.Path, package.__path__):
        for file in sorted([*root.glob("*/_*"), *root.glob(f"*/{kernel_set()}/_*")]):
            if file.suffix in (".so", ".pyd"):
                name = f"{package.__name__}.{file.relative_to(root).parts[0]}.{file.name.split('.')[0]}"
                print(name, flush=True)
                importlib.import_module(name)
"""


@dataclass(frozen=True)
class DoctorCheck:
    """Result of a check: name, status (ok, warn, fail), text, and what to do."""

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
    for check in run_checks():
        print(f"{check.status:<5} {check.name:<12} {check.text}", flush=True)
        if check.mend:
            print(f"{'':<18} -> {check.mend}", flush=True)
        worst = max(worst, check.status, key=(OK, WARN, FAIL).index)
    print({OK: "\nall is well", WARN: "\nusable; see the warnings", FAIL: "\nnot usable; see above"}[worst])
    return FAILURE_EXIT_CODE if worst == FAIL else 0


def run_checks() -> Iterator[DoctorCheck]:
    """Yield the results of all checks, the fast ones first."""
    yield check_python()
    for name, (least, purpose) in _NEEDED.items():
        yield check_package(name, least, purpose)
    for name, purpose in _OPTIONAL.items():
        yield check_optional_package(name, purpose)
    yield check_kernels()
    yield check_processor()
    yield check_threads()
    yield check_memory()
    yield check_disk()
    yield check_mpi()


def check_python() -> DoctorCheck:
    """Check the version of Python."""
    good = sys.version_info >= (3, 10)
    return DoctorCheck(
        "python",
        OK if good else FAIL,
        f"{platform.python_version()} ({sys.executable})",
        "" if good else "use Python 3.10 or newer",
    )


def check_package(name: str, least: tuple[int, ...], purpose: str) -> DoctorCheck:
    """Check that a required package is installed, new enough and not too new."""
    wanted, below = ".".join(map(str, least)), ".".join(map(str, _BELOW.get(name, ())))
    version = _version(name)
    mend = f"pip install '{name}>={wanted}{below and f',<{below}'}'"
    if version is None:
        return DoctorCheck(name, FAIL, f"missing ({purpose})", mend)
    if _numbers(version) < least:
        return DoctorCheck(name, FAIL, f"{version} is older than {wanted} ({purpose})", mend)
    if below and _numbers(version) >= _BELOW[name]:
        return DoctorCheck(name, FAIL, f"{version} is not older than {below} ({purpose})", mend)
    return DoctorCheck(name, OK, f"{version} ({purpose})")


def check_optional_package(name: str, purpose: str) -> DoctorCheck:
    """Check whether an optional package is installed."""
    version = _version(name)
    return DoctorCheck(name, OK, f"{version or 'not installed, optional'} ({purpose})")


def check_kernels() -> DoctorCheck:
    """Check that the compiled kernels load on this processor."""
    try:
        from petacomm.base.instruction_set import built_sets, kernel_set

        chosen = kernel_set()
    except UserError as error:
        return DoctorCheck("kernels", FAIL, f"{error.where}: {error.what}", error.mend or "")
    except ImportError as error:
        return DoctorCheck("kernels", FAIL, str(error), _INSTALL)
    done = _python(_IMPORT_EXTENSIONS, [], timeout=60)
    names = done.stdout.split()
    if done.returncode == 0:
        text = f"{len(names)} compiled modules load, for {chosen} (there are {', '.join(built_sets())})"
        return DoctorCheck("kernels", OK, text)
    last = names[-1] if names else "petamap"
    if done.returncode < 0:
        what = f"{last} needs instructions that this processor lacks (signal {-done.returncode})"
        return DoctorCheck("kernels", FAIL, what, "build petamap on this machine")
    return DoctorCheck("kernels", FAIL, f"{last}: {_last_line(done.stderr)}", _INSTALL)


def check_processor() -> DoctorCheck:
    """Compare the instruction set of the kernels with what the processor has."""
    name = cpu_model()
    try:
        from petacomm.base.instruction_set import VARIABLE, built_sets, kernel_set, processor_sets

        chosen, best = kernel_set(), processor_sets()[-1]
    except (UserError, ImportError):  # told by check_kernels
        return DoctorCheck("processor", OK, name)
    if chosen == best:
        return DoctorCheck("processor", OK, f"{name} ({best})")
    mend = f"unset {VARIABLE}" if best in built_sets() else f"build for {best} too: more speed"
    return DoctorCheck("processor", WARN, f"{name} has {best}, the kernels are for {chosen}", mend)


def check_threads() -> DoctorCheck:
    """Check the number of threads against the processors that this process may use."""
    threads, present = available_threads(), len(allowed_processors())
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > present:
        text = f"OMP_NUM_THREADS={wanted} on {present} processors"
        return DoctorCheck("threads", WARN, text, f"export OMP_NUM_THREADS={present}")
    text = f"{threads} of {present} processors" if threads < present else f"{present} processors"
    return DoctorCheck("threads", OK, text + (f", OMP_NUM_THREADS={wanted}" if wanted else ""))


def check_memory() -> DoctorCheck:
    """Check that a small run fits into memory."""
    bounds = memory_bounds()
    if not bounds:
        return DoctorCheck("memory", WARN, "cannot be told on this system")
    bound = min(bounds, key=bounds.__getitem__)
    available = bounds[bound]
    text = f"{available / 1e9:.1f} GB available" + (f", by {bound}" if bound != "free memory" else "")
    if available < 1e9:
        return DoctorCheck("memory", WARN, text, "close other programs; the examples need about 1 GB")
    return DoctorCheck("memory", OK, text)


def check_disk() -> DoctorCheck:
    """Check that the working folder is writable and has space for maps."""
    folder = Path.cwd()
    free = shutil.disk_usage(folder).free
    text = f"{free / 1e9:.1f} GB free in {folder}"
    if not os.access(folder, os.W_OK):
        return DoctorCheck("disk", WARN, f"{folder} cannot be written", "give --out a folder that can")
    if free < 1e9:
        return DoctorCheck("disk", WARN, text, "free space, or give --out another disk")
    return DoctorCheck("disk", OK, text)


def check_mpi() -> DoctorCheck:
    """Check that the launcher and mpi4py use the same MPI library, by a sum over two processes."""
    if _version("mpi4py") is None:
        return DoctorCheck(
            "mpi", OK, "not installed, optional: runs are one process", "pip install 'petamap[mpi]'"
        )
    launcher = launcher_path()
    if launcher is None:
        return DoctorCheck(
            "mpi", WARN, "mpi4py is there but no mpiexec", "pip install mpich, or load your MPI module"
        )
    try:
        done = _python(_PING, [launcher, "-n", "2"], timeout=60)
    except subprocess.TimeoutExpired:
        return DoctorCheck("mpi", FAIL, f"two processes of {launcher} did not meet in 60 s", _SAME_MPI)
    answer = done.stdout.strip()
    if done.returncode != 0:
        return DoctorCheck("mpi", FAIL, f"{launcher}: {_last_line(done.stderr)}", _SAME_MPI)
    if not answer.startswith("ping"):
        return DoctorCheck("mpi", FAIL, f"{launcher} started two runs of one process each", _SAME_MPI)
    return DoctorCheck("mpi", OK, f"{answer.removeprefix('ping ')} ({launcher})")


def launcher_path() -> str | None:
    """Return mpiexec in the folder of this Python, or else the one on the path."""
    local = Path(sys.executable).with_name("mpiexec")
    return str(local) if local.exists() else shutil.which("mpiexec")


_INSTALL = "install petamap again (make build)"
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
    """Run a program; its output goes to files, as a killed launcher's processes would keep pipes open."""
    command = [*launcher, sys.executable, "-c", code]
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        done = subprocess.run(command, stdout=out, stderr=err, text=True, timeout=timeout, check=False)
        out.seek(0)
        err.seek(0)
        done.stdout, done.stderr = out.read(), err.read()
    return done


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    import re

    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
