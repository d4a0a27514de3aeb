"""Recordings from files: of `petacomm record`, and of other tools that know who sent to whom."""

from __future__ import annotations

import os
from pathlib import Path

from petacomm.base.progress import Progress
from petacomm.recording.ipm import read_ipm
from petacomm.recording.open_mpi_monitoring import read_monitoring
from petacomm.recording.otf2_trace import read_otf2
from petacomm.recording.recording import Recording, load_recording


def read_recording(path: str | os.PathLike[str], progress: Progress | None = None) -> Recording:
    """Read what the ranks of a job sent, in the format given by the suffix of the file name.

    Parameters
    ----------
    path : path
        ``.ipm.xml``: a profile of IPM, as of `read_ipm`; ``.otf2``: a trace, as of `read_otf2`; ``.prof``:
        files of Open MPI's monitoring, as of `read_monitoring`; any other: a recording of `petacomm record`.
    progress : Progress, optional
        Is told of what had to be assumed.

    Returns
    -------
    Recording

    Raises
    ------
    ConfigError
        If there is no such file.
    DataError
        If it is damaged.
    ResourceError
        If it is a trace, and the package otf2 is not installed.
    """
    read = _READERS.get(Path(path).suffix)
    return read(path, progress) if read else load_recording(path)


_READERS = {".xml": read_ipm, ".otf2": read_otf2, ".prof": read_monitoring}
