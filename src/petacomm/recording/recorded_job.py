"""Start of a job whose ranks load the interposition library."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from petacomm.base.errors import ConfigError, DataError, UserError, printable
from petacomm.base.files import write_errors
from petacomm.base.jobs import run_to_end
from petacomm.base.phases import in_phase
from petacomm.base.progress import Progress, SilentProgress
from petacomm.recording.interposer import compile_interposer, find_compiler
from petacomm.recording.rank_files import read_rank_files
from petacomm.recording.recording import Recording

_SHOWN = 60  # characters of a command, in messages
_SECONDS = 20  # of a launcher that is asked what it is


def run_recorded(
    command: Sequence[str],
    folder: Path,
    compiler: str | None = None,
    progress: Progress | None = None,
    output: int | None = None,
) -> tuple[Recording, int]:
    """Run a command of a launcher, and return what its ranks sent and its exit code.

    Parameters
    ----------
    command : sequence of str
        Launcher and arguments, such as ``["mpiexec", "-n", "64", "./program"]``.
    folder : Path
        Folder for the files of ranks, seen by all nodes: a new one is made in it, and removed when all
        files have been read.
    compiler : str, optional
        MPI compiler, of the MPI that the program runs with; by default that beside the launcher.
    progress : Progress, optional
        Is told of warnings.
    output : int, optional
        File descriptor of the command's standard output; by default that of this process.

    Returns
    -------
    recording : Recording
    code : int
        Exit code of the command, which may have failed after all ranks had called MPI_Finalize.

    Raises
    ------
    ConfigError
        If there is no launcher or no compiler.
    DataError
        If a rank has not written its file, e.g. as it died before MPI_Finalize.
    ResourceError
        If the library cannot be compiled, or the folder not be written.
    """
    progress = progress or SilentProgress()
    if not command or shutil.which(command[0]) is None:
        what = f"'{command[0]}' is not found" if command else "no command"
        raise ConfigError(what, mend="write petacomm record --out graph -- mpiexec -n 64 ./program")
    if sys.platform != "linux":
        raise ConfigError(f"no recording on {sys.platform}", mend="record on Linux, whose loader is asked")
    library = compile_interposer(find_compiler(command[0], compiler))
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        ranks = Path(tempfile.mkdtemp(prefix="petacomm-record-", dir=folder)).resolve()
    try:
        with in_phase("record"):
            code = run_to_end(*with_interposer(command, library, ranks), stdout=output)
        try:
            recording, warnings = read_rank_files(ranks, _shown(command))
        except UserError as error:
            if not code:
                raise
            raise DataError(
                f"the job ended with exit code {code}, and {error.what}",
                where=error.where,
                mend="ranks that die before MPI_Finalize leave no record: mend the job's own error",
            ) from None
    finally:
        shutil.rmtree(ranks, ignore_errors=True)
    for warning in warnings:
        progress.warn(warning)
    return recording, code


def _shown(command: Sequence[str]) -> str:
    text = printable(shlex.join(command))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def with_interposer(command: Sequence[str], library: Path, folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return a command and an environment such that ranks load the library, and the launcher if it must.

    Hydra's and Open MPI's launchers are told by options what to set in the environment of ranks, and bring
    it to other nodes; of other launchers, like srun, it is taken that they pass on their own.
    """
    before = os.environ.get("LD_PRELOAD", "")
    variables = {
        "PETACOMM_RECORD": str(folder),
        "PETACOMM_RECORD_PRELOAD": before,
        "LD_PRELOAD": " ".join([str(library), before]).strip(),
    }
    kind = launcher_kind(command[0])
    if kind == "hydra":
        options = [word for name, value in variables.items() for word in ("-genv", name, value)]
    elif kind == "open-mpi":
        options = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
    else:
        return list(command), os.environ | variables
    return [command[0], *options, *command[1:]], dict(os.environ)


def launcher_kind(launcher: str) -> str:
    """Return "hydra", "open-mpi" or, of any other launcher, ""."""
    if not os.path.basename(launcher).startswith(("mpiexec", "mpirun", "orterun", "prterun", "hydra")):
        return ""
    try:
        done = subprocess.run(
            [launcher, "--version"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = (done.stdout + done.stderr).lower()
    if "open mpi" in said or "openrte" in said or "prrte" in said:
        return "open-mpi"
    return "hydra" if "hydra" in said or "intel(r) mpi" in said else ""
