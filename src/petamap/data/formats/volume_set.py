"""Volumes of all observations of a configuration, a file each, which the ranks write side by side."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from petacomm.base.errors import ConfigError, ResourceError
from petacomm.base.files import require_possible, sync_folder, temporary_folder, write_errors
from petacomm.base.progress import Progress
from petacomm.mpi import Communicator, agree_on_errors
from petamap.data.formats.volume_write import compressed_pointing, write_volume
from petamap.data.observation import Observation, share_signals

Precision = Literal["float64", "float32"]
_BYTES = {"float64": 8, "float32": 4}


def write_volumes(
    out: Path,
    observations: Sequence[Observation],
    comm: Communicator,
    progress: Progress,
    *,
    precision: Precision = "float64",
    n_threads: int = 1,
) -> list[Path]:
    """Write a volume of each observation into a new folder, which a source can read. Collective.

    The folder is whole or absent: files are written into a temporary one, which becomes `out` at the end.
    Their bytes do not depend on the number of ranks or threads.

    Parameters
    ----------
    out : Path
        Folder that does not exist yet, or is empty.
    observations : sequence of Observation
        The signal is written as the sum of its contributions.
    comm : Communicator
    progress : Progress
    precision : {"float64", "float32"}
        Data type of the signal.
    n_threads : int
        Threads of this rank that make samples.

    Returns
    -------
    list of Path
        The files, in the order of the observations.

    Raises
    ------
    ConfigError, DataError, ResourceError
        On all ranks, if the folder is in use, a volume cannot hold an observation, or there is no room.
    """
    names = [f"{number:04d}_{one.name}.h5" for number, one in enumerate(observations)]
    with agree_on_errors(comm):
        for one in observations:
            if one.pointing is not None:
                compressed_pointing(one, "volume")
        made = _begin(out, _signal_bytes(observations, precision)) if comm.rank == 0 else out
    made = comm.bcast(made)
    try:
        share_signals([[one.signals for one in observations]], comm)
        own = deal_observations(observations, comm.size)[comm.rank]
        progress.begin("volumes", float(sum(_n_samples(observations[number]) for number in own)), "samples")
        with agree_on_errors(comm):
            for number in own:
                write_volume(
                    made / names[number], [observations[number]], precision, n_threads, progress.advance
                )
        with agree_on_errors(comm), write_errors(out):
            if comm.rank == 0:
                made.replace(out)
                sync_folder(out.absolute().parent)
    finally:
        if comm.rank == 0:
            shutil.rmtree(made, ignore_errors=True)
    progress.end()
    return [out / name for name in names]


def deal_observations(observations: Sequence[Observation], n_ranks: int) -> list[list[int]]:
    """Return the observations of each rank: from the largest on, to the rank that has least so far."""
    sizes = [_n_samples(one) for one in observations]
    dealt: list[list[int]] = [[] for _ in range(n_ranks)]
    loads = [0] * n_ranks
    for number in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        rank = loads.index(min(loads))
        dealt[rank].append(number)
        loads[rank] += sizes[number]
    return [sorted(numbers) for numbers in dealt]


def _n_samples(observation: Observation) -> int:
    return observation.n_samp * observation.n_det


def _signal_bytes(observations: Sequence[Observation], precision: Precision) -> int:
    return sum(_n_samples(one) for one in observations if one.signals) * _BYTES[precision]


def _begin(out: Path, n_bytes: int) -> Path:
    """Check that the files can be written, and return the folder that they are written into."""
    require_possible(out)
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        what = "is there already" if out.is_dir() else "is a file, not a folder"
        raise ConfigError(what, where=str(out), mend="choose another --out, or remove it")
    made = temporary_folder(out)
    free = shutil.disk_usage(made).free
    if n_bytes > free:
        made.rmdir()
        raise ResourceError(
            f"the signal takes {n_bytes / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free",
            where=str(out), mend="free space, choose another --out, or --precision float32",
        )  # fmt: skip
    return made
