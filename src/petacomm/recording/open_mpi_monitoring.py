"""Files of Open MPI's monitoring component: sums of messages and bytes by pair, a file a rank."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import read_text
from petacomm.base.progress import Progress, SilentProgress
from petacomm.recording.recording import (
    CALLS,
    COLLECTIVES,
    MESSAGES,
    RankGroup,
    Recording,
    size_class,
    summed,
)

_NAME = re.compile(r"(.+)\.(\d{1,9})\.prof")
_LINE = re.compile(r"([EISR])\t(\d{1,9})\t(\d{1,9})\t(\d{1,18}) bytes\t(\d{1,18}) msgs sent(\t[\d,]*)?")
_WORLD = re.compile(r"D\tMPI_COMM_WORLD\tprocs: (\d+(?:,\d+)*)")
_CALL = {"E": "send", "I": "send", "S": "put", "R": "get"}
_INSIDE = "inside of MPI"
_MEND = "run with --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3, and keep all files"


def read_monitoring(path: str | os.PathLike[str], progress: Progress | None = None) -> Recording:
    """Read what Open MPI's monitoring component wrote of a job, from the files of all ranks.

    Messages that the library sends for collectives, communicators and windows are those that it sent, in a
    group of their own. Histograms of sizes are of both kinds together, so that the messages of a pair are
    all taken to have the mean size.

    Parameters
    ----------
    path : path
        The file of one rank (``NAME.0.prof``), beside which are those of the others.
    progress : Progress, optional
        Is told of what had to be assumed.

    Returns
    -------
    Recording

    Raises
    ------
    ConfigError
        If there is no such file, or its name is not that of one.
    DataError
        If a file is none or damaged, or those of ranks are missing.
    """
    match = _NAME.fullmatch(Path(path).name)
    if not match:
        raise ConfigError("no file of Open MPI's monitoring", where=os.fspath(path), mend="name NAME.0.prof")
    n_ranks = _n_ranks(Path(path))
    rows: list[tuple[int, ...]] = []
    for rank in range(n_ranks):
        rows += _rows(Path(path).with_name(f"{match[1]}.{rank}.prof"), rank, n_ranks)
    (progress or SilentProgress()).warn("messages of a pair are taken to have their mean size")
    ranks = np.arange(n_ranks, dtype=np.int32)
    groups = [RankGroup("MPI_COMM_WORLD", ranks), RankGroup(_INSIDE, ranks)]
    direct = summed(np.array(rows, MESSAGES))
    return Recording(n_ranks, "Open MPI's monitoring", groups, direct, np.empty(0, COLLECTIVES))


def _n_ranks(path: Path) -> int:
    for line in read_text(path).splitlines():
        if match := _WORLD.fullmatch(line):
            return len(match[1].split(","))
    raise DataError("no record of MPI_COMM_WORLD", where=str(path), mend=_MEND)


def _rows(path: Path, rank: int, n_ranks: int) -> list[tuple[int, ...]]:
    if not path.exists():
        raise DataError(f"{n_ranks} ranks, and rank {rank} has no file", where=str(path), mend=_MEND)
    rows: list[tuple[int, ...]] = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line[:2] not in ("E\t", "I\t", "S\t", "R\t"):
            continue
        match = _LINE.fullmatch(line.rstrip())
        if not match or int(match[2]) != rank or int(match[3]) >= n_ranks:
            raise DataError("no line of messages", where=f"{path}:{number}", mend=_MEND)
        kind, partner, n_bytes, messages = match[1], int(match[3]), int(match[4]), int(match[5])
        ends = (partner, rank) if kind == "R" else (rank, partner)
        mean = int(size_class(n_bytes // max(messages, 1)))
        if messages:
            rows.append((0, CALLS.index(_CALL[kind]), int(kind == "I"), *ends, mean, messages, n_bytes))
    return rows
