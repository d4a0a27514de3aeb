"""Rank files of Open MPI and PRRTE: one line ``rank 0=host slot=1:0-2`` per rank."""

from __future__ import annotations

import re

from petacomm.base.errors import ConfigError, printable
from petacomm.mapping.launchers.target import LauncherFile, LaunchTarget, content_lines, placement_from_slots
from petacomm.mapping.placement import Placement

_LINE = re.compile(r"rank\s+(\d{1,10})\s*=\s*(\S+)\s+slot\s*=\s*(?:(\d{1,9}):)?(\d{1,9})(?:-(\d{1,9}))?")


class OpenMpiRankFile(LauncherFile):
    """Open MPI's rank file: host and cores of each rank; hosts without names are ``+n0``, ``+n1``, ..."""

    title = "Open MPI, PRRTE"
    usage = "mpirun --map-by rankfile:file={file} (Open MPI 4: mpirun -rf {file})"

    def format(self, placement: Placement, target: LaunchTarget) -> str:
        """Return the text of the file, one line per rank."""
        lines = []
        for rank, (node, slot) in enumerate(
            zip(placement.nodes.tolist(), placement.slots.tolist(), strict=True)
        ):
            host = f"+n{node}" if target.hosts is None else target.host(node)
            lines.append(f"rank {rank}={host} slot={_cores(slot, target)}\n")
        return "".join(lines)

    def parse(self, text: str, target: LaunchTarget, file: str) -> Placement:
        """Return the placement of a file's text, with ranks in any order."""
        slot_numbers: dict[int, int] = {}
        for line, where in content_lines(text, file):
            match = _LINE.fullmatch(line)
            if not match:
                mend = "write rank 0=host slot=0-3"
                raise ConfigError(f"'{printable(line)}' is no line of a rank file", where=where, mend=mend)
            rank = int(match[1])
            if rank in slot_numbers:
                raise ConfigError(f"rank {rank} is placed twice", where=where)
            relative = re.fullmatch(r"\+n(\d{1,10})", match[2])
            node = int(relative[1]) if relative else target.node(match[2], where)
            slot_numbers[rank] = node * target.ranks_per_node + _slot(match, target, where)
        return placement_from_slots(slot_numbers, target, file)


def _cores(slot: int, target: LaunchTarget) -> str:
    first = slot * target.cores_per_rank
    package = ""
    if target.cores_per_package is not None:
        package = f"{first // target.cores_per_package}:"
        first %= target.cores_per_package
    last = first + target.cores_per_rank - 1
    return f"{package}{first}" if first == last else f"{package}{first}-{last}"


def _slot(match: re.Match[str], target: LaunchTarget, where: str) -> int:
    first = int(match[4])
    width = int(match[5] or first) - first + 1
    if match[3] is not None:
        if target.cores_per_package is None:
            raise ConfigError("cores are counted in packages", where=where, mend="say the cores of a package")
        first += int(match[3]) * target.cores_per_package
    if width != target.cores_per_rank or first % width:
        raise ConfigError(
            f"cores {match[4]} to {match[5] or match[4]} are not those of a slot of {target.cores_per_rank}",
            where=where,
            mend="say how many cores a rank has",
        )
    slot = first // width
    if slot >= target.ranks_per_node:
        raise ConfigError(f"a node has no slot {slot}", where=where, mend=f"it has {target.ranks_per_node}")
    return slot
