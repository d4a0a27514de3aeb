"""Cray MPICH's rank order file: the ranks in the order of their slots."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.mapping.launchers.target import LauncherFile, LaunchTarget, content_lines, placement_from_slots
from petacomm.mapping.placement import Placement

# cray-mpich 9.1.0 was observed to fail in MPI_Init if the encoded list has this many bytes or more.
_FAILING_BYTES = 1024


class CrayRankOrder(LauncherFile):
    """Cray MPICH's rank order file: comma-separated ranks, one line per node, nodes in order and filled."""

    title = "Cray MPICH"
    usage = "MPICH_RANK_REORDER_METHOD=3 MPICH_RANK_REORDER_FILE={file} (or name it MPICH_RANK_ORDER)"
    fills_nodes = True

    def format(self, placement: Placement, target: LaunchTarget) -> str:
        """Return the text of the file, one line per node."""
        order = placement.ranks_by_slot
        expected = np.arange(placement.n_ranks)
        gap = np.flatnonzero(placement.slot_numbers[order] != expected)
        if len(gap):
            node, slot = divmod(int(expected[gap[0]]), placement.ranks_per_node)
            raise ConfigError(
                f"MPICH_RANK_ORDER fills nodes in their order: slot {slot} of node {node} cannot be empty",
                mend="place ranks on the first nodes, each filled before the next",
            )
        per_node = placement.ranks_per_node
        rows = [order[start : start + per_node].tolist() for start in range(0, len(order), per_node)]
        return "".join(",".join(map(str, row)) + "\n" for row in rows)

    def parse(self, text: str, target: LaunchTarget, file: str) -> Placement:
        """Return the placement of a file's text, with ranks separated by commas or newlines."""
        slot_numbers: dict[int, int] = {}
        for line, where in content_lines(text, file):
            for word in line.strip(",").split(","):
                if not (word.strip().isdecimal() and len(word) < 11):
                    raise ConfigError(f"'{printable(word)}' is no rank", where=where, mend="write 0,4,1,5")
                if int(word) in slot_numbers:
                    raise ConfigError(f"rank {int(word)} is placed twice", where=where)
                slot_numbers[int(word)] = len(slot_numbers)
        return placement_from_slots(slot_numbers, target, file, "list all ranks")

    def warnings(self, text: str) -> list[str]:
        """Return a warning if the list may be too long."""
        n_bytes = len(text.encode())
        if n_bytes < _FAILING_BYTES:
            return []
        return [
            f"the list has {n_bytes:,} bytes: cray-mpich 9.1.0 was seen to fail in MPI_Init where it has "
            f"{_FAILING_BYTES:,} or more once encoded; try it, or use SLURM_HOSTFILE or Comm.Split"
        ]
