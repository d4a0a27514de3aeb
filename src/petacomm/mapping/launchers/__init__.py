"""Placement files of job launchers: writing, reading and their formats."""

from __future__ import annotations

from pathlib import Path

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.files import read_text, write_text
from petacomm.mapping.launchers.coordinate_files import BlueGeneMapFile, VcoordFile
from petacomm.mapping.launchers.cray_order import CrayRankOrder
from petacomm.mapping.launchers.hydra import HydraHostFile
from petacomm.mapping.launchers.openmpi import OpenMpiRankFile
from petacomm.mapping.launchers.slurm_hosts import SlurmHostFile
from petacomm.mapping.launchers.split import SplitKeys, new_ranks, reorder_communicator
from petacomm.mapping.launchers.target import LauncherFile, LaunchTarget
from petacomm.mapping.placement import Placement

__all__ = [
    "FORMATS",
    "LaunchTarget",
    "get_format",
    "new_ranks",
    "read_launcher_file",
    "reorder_communicator",
    "write_launcher_file",
]

FORMATS: dict[str, LauncherFile] = {
    "openmpi": OpenMpiRankFile(),
    "hydra": HydraHostFile(),
    "slurm": SlurmHostFile(),
    "cray": CrayRankOrder(),
    "fujitsu": VcoordFile(),
    "bluegene": BlueGeneMapFile(),
    "split": SplitKeys(),
}


def get_format(name: str) -> LauncherFile:
    """Return a format by its name in `FORMATS`.

    Raises
    ------
    ConfigError
        If there is no such format.
    """
    if name not in FORMATS:
        raise ConfigError(f"unknown format '{name}' of a launcher", mend=did_you_mean(name, list(FORMATS)))
    return FORMATS[name]


def write_launcher_file(name: str, placement: Placement, path: str | Path, target: LaunchTarget) -> list[str]:
    """Write a placement as a launcher's file.

    Parameters
    ----------
    name : str
        One of `FORMATS`.
    placement : Placement
    path : str or Path
        Written atomically.
    target : LaunchTarget
        Its network and ranks per node must be those of the placement.

    Returns
    -------
    list of str
        Warnings of known problems with the file.

    Raises
    ------
    ConfigError
        If the format cannot express the placement; nothing is written.
    """
    chosen = get_format(name)
    given = target.network.n_nodes, target.ranks_per_node
    if given != (placement.n_nodes, placement.ranks_per_node):
        raise ConfigError(
            f"the placement is on {placement.n_nodes} nodes of {placement.ranks_per_node} places, the file "
            f"for {given[0]} of {given[1]}",
            mend="give the placement's own network and ranks a node",
        )
    if not placement.n_ranks:
        raise ConfigError("a placement of no ranks", mend="place at least one")
    text = chosen.format(placement, target)
    write_text(path, text)
    return chosen.warnings(text)


def read_launcher_file(name: str, path: str | Path, target: LaunchTarget) -> Placement:
    """Read a placement from a launcher's file.

    Raises
    ------
    ConfigError
        If it cannot be read, a line is wrong, a rank is missing or duplicate, or two ranks have one slot.
    """
    chosen = get_format(name)
    text = read_text(path)
    try:
        return chosen.parse(text, target, str(path))
    except ConfigError as error:
        if error.where and str(path) in error.where:
            raise
        where = f"{path}: {error.where}" if error.where else str(path)
        raise ConfigError(error.what, where=where, mend=error.mend) from None
