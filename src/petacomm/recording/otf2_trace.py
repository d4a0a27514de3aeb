"""OTF2 traces, as Score-P writes them: messages and collectives of all ranks."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from petacomm.base.errors import ConfigError, DataError, ResourceError, printable
from petacomm.base.files import require_file
from petacomm.base.progress import Progress, SilentProgress
from petacomm.recording.recording import Recording, load_recording

_MODULE = "petacomm.recording.otf2_events"


def read_otf2(path: str | os.PathLike[str], progress: Progress | None = None) -> Recording:
    """Read what the ranks of a trace sent each other, by OTF2's own library in a process of its own.

    Ranks are those of MPI_COMM_WORLD; collectives are kept as calls. What is read is held by pair of ranks,
    call and size, so memory does not grow with the length of the trace.

    Parameters
    ----------
    path : path
        The anchor file (``traces.otf2``), beside which are the files of the trace.
    progress : Progress, optional
        Is told of what had to be assumed.

    Returns
    -------
    Recording

    Raises
    ------
    ConfigError
        If there is no such file.
    ResourceError
        If the Python package otf2 is not installed.
    DataError
        If the trace is damaged, or of a program without MPI.
    """
    where = os.fspath(path)
    try:
        anchor = require_file(path).resolve()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=where, mend=None) from None
    if importlib.util.find_spec("otf2") is None:
        raise ResourceError(
            "traces are read by the Python package otf2, which is not installed", where=where,
            mend="pip install otf2, or Debian's python3-otf2",
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "trace.npz"
        said = _read_apart(where, [str(anchor), str(out)])
        if "error" in said:
            raise DataError(printable(said["error"]), where=where, mend=said["mend"])
        for warning in said["warnings"]:
            (progress or SilentProgress()).warn(warning)
        return load_recording(out)


def _read_apart(where: str, words: list[str]) -> dict[str, str]:
    """Return what the process that reads a trace says; raise a DataError if it says nothing."""
    command = [sys.executable, "-m", _MODULE, *words]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    try:
        said: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing"]
        what = f"OTF2's library ended with code {done.returncode}, and said: {lines[-1][:200]}"
        raise DataError(printable(what), where=where, mend="is the trace whole? try otf2-print") from None
    return said
