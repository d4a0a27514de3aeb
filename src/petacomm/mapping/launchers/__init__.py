"""Placements as the files that launchers read: each format written, read back, or refused."""

from __future__ import annotations

from pathlib import Path

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.files import replacing
from petacomm.mapping.launchers.coordinate_files import BlueGeneMap, VcoordFile
from petacomm.mapping.launchers.cray_order import RankOrder
from petacomm.mapping.launchers.openmpi import RankFile
from petacomm.mapping.launchers.slurm_hosts import HostFile
from petacomm.mapping.launchers.split import SplitKeys, new_ranks, reordered
from petacomm.mapping.launchers.target import LauncherFile, Target
from petacomm.mapping.placement import Placement

__all__ = ["FORMATS", "LauncherFile", "Target", "format_of", "new_ranks", "read", "reordered", "write"]

FORMATS: dict[str, LauncherFile] = {
    "openmpi": RankFile(),
    "slurm": HostFile(),
    "cray": RankOrder(),
    "fujitsu": VcoordFile(),
    "bluegene": BlueGeneMap(),
    "split": SplitKeys(),
}


def format_of(name: str) -> LauncherFile:
    """Return a format by its name in `FORMATS`.

    Raises
    ------
    ConfigError
        If there is none of this name.
    """
    if name not in FORMATS:
        raise ConfigError(f"unknown format '{name}' of a launcher", mend=did_you_mean(name, list(FORMATS)))
    return FORMATS[name]


def write(name: str, placement: Placement, path: str | Path, target: Target) -> list[str]:
    """Write the file of a launcher.

    Parameters
    ----------
    name : str
        One of `FORMATS`.
    placement : Placement
    path : str or Path
        Whole or unchanged.
    target : Target
        Its network and ranks a node are the placement's.

    Returns
    -------
    list of str
        Warnings of what is known to go wrong with such a file.

    Raises
    ------
    ConfigError
        If the format cannot say the placement; nothing is written then.
    """
    chosen = format_of(name)
    given = target.network.n_nodes, target.ranks_per_node
    if given != (placement.n_nodes, placement.ranks_per_node):
        raise ConfigError(
            f"the placement is on {placement.n_nodes} nodes of {placement.ranks_per_node} places, the file "
            f"for {given[0]} of {given[1]}",
            mend="give the placement's own network and ranks a node",
        )
    if not placement.n_ranks:
        raise ConfigError("a placement of no ranks", mend="place at least one")
    text = chosen.text(placement, target)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return chosen.warnings(text)


def read(name: str, path: str | Path, target: Target) -> Placement:
    """Read the file of a launcher back.

    Raises
    ------
    ConfigError
        If it cannot be read, a line is wrong, a rank is placed twice or never, or two share a place.
    """
    chosen = format_of(name)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"cannot be read: {reason}", where=str(path)) from None
    try:
        return chosen.parse(text, target, str(path))
    except ConfigError as error:
        if error.where and str(path) in error.where:
            raise
        where = f"{path}: {error.where}" if error.where else str(path)
        raise ConfigError(error.what, where=where, mend=error.mend) from None
