"""Volumes of all observations of a configuration, a file each, which ranks write side by side or together."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from petacomm.base.errors import ConfigError, ResourceError
from petacomm.base.files import check_names, require_possible, sync_folder, temporary_folder, write_errors
from petacomm.base.progress import Progress
from petacomm.mpi import Communicator, agree, agree_on_errors, error_of
from petamap.data.checks import check_not_empty
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
    Ranks write files side by side, several of them one of many samples. The bytes of the files do not depend
    on the number of ranks or threads.

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
        check_names([out / name for name in names], "give observations shorter names")
        for one in observations:
            check_not_empty(one)
            if one.pointing is not None:
                compressed_pointing(one, "volume")
        made = _begin(out, _signal_bytes(observations, precision)) if comm.rank == 0 else out
    made = comm.bcast(made)
    try:
        share_signals([[one.signals for one in observations]], comm)
        groups = deal_observations([_n_samples(one) for one in observations], comm.size)
        number = int(np.searchsorted(np.cumsum([group.n_ranks for group in groups]), comm.rank, "right"))
        own, ranks = groups[number].observations, comm.split(number)
        progress.begin("volumes", float(sum(_n_samples(observations[k]) for k in own)), "samples")

        def write_own() -> None:  # ranks of a group leave it together
            for k in own:
                write_volume(
                    made / names[k], [observations[k]], precision, n_threads, progress.advance, ranks
                )

        agree(comm, error_of(write_own))
        with agree_on_errors(comm), write_errors(out):
            if comm.rank == 0:
                made.replace(out)
                sync_folder(out.absolute().parent)
    finally:
        if comm.rank == 0:
            shutil.rmtree(made, ignore_errors=True)
    progress.end()
    return [out / name for name in names]


@dataclass
class WriterGroup:
    """Ranks that write some observations together, one after another."""

    n_ranks: int
    observations: list[int]


def deal_observations(sizes: Sequence[int], n_ranks: int) -> list[WriterGroup]:
    """Return groups of ranks and their observations, whose sizes are given.

    An observation of a rank's share of all samples or more has ranks of its own. The others are dealt from
    the largest on, each to the group whose ranks have least so far.
    """
    total = max(sum(sizes), 1)
    large = [number for number, size in enumerate(sizes) if size * n_ranks >= total]
    small = sorted(set(range(len(sizes))) - set(large), key=lambda number: -sizes[number])
    n_single = min(len(small), round(sum(sizes[number] for number in small) * n_ranks / total))
    groups = [WriterGroup(1, [number]) for number in large] + [WriterGroup(1, []) for _ in range(n_single)]

    def load(group: WriterGroup) -> float:
        return sum(sizes[number] for number in group.observations) / group.n_ranks

    for _ in range(n_ranks - len(groups)):
        max(groups, key=load).n_ranks += 1
    for number in small:
        min(groups, key=load).observations.append(number)
    return groups


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
