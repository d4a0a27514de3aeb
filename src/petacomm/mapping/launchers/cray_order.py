"""Cray MPICH's order of ranks: ranks in the order of the places that they take."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.mapping.launchers.target import Target, lines_of
from petacomm.mapping.placement import Placement

# cray-mpich 9.1.0 was seen to fail in MPI_Init from so many bytes on, as it encodes the list.
_SEEN_TO_FAIL = 1024


class RankOrder:
    """A list of ranks between commas, a line a node: nodes of the allocation in their order, each filled."""

    title = "Cray MPICH"
    usage = "MPICH_RANK_REORDER_METHOD=3 MPICH_RANK_REORDER_FILE={file} (or name it MPICH_RANK_ORDER)"

    def text(self, placement: Placement, target: Target) -> str:
        """Return the ranks by their places, a line a node."""
        order = placement.order
        expected = np.arange(placement.n_ranks)
        gap = np.flatnonzero(placement.places[order] != expected)
        if len(gap):
            place = int(expected[gap[0]])
            node, slot = divmod(place, placement.ranks_per_node)
            raise ConfigError(
                f"MPICH_RANK_ORDER fills nodes in their order: slot {slot} of node {node} cannot be empty",
                mend="place ranks on the first nodes, each filled before the next",
            )
        per_node = placement.ranks_per_node
        rows = [order[start : start + per_node].tolist() for start in range(0, len(order), per_node)]
        return "".join(",".join(map(str, row)) + "\n" for row in rows)

    def parse(self, text: str, target: Target, file: str) -> Placement:
        """Read the ranks, separated by commas or lines."""
        found: dict[int, int] = {}
        for line, where in lines_of(text, file):
            for word in line.strip(",").split(","):
                if not (word.strip().isdecimal() and len(word) < 11):
                    raise ConfigError(f"'{printable(word)}' is no rank", where=where, mend="write 0,4,1,5")
                if int(word) in found:
                    raise ConfigError(f"rank {int(word)} is placed twice", where=where)
                found[int(word)] = len(found)
        missing = next((rank for rank in range(len(found)) if rank not in found), None)
        if missing is not None or not found:
            raise ConfigError(f"rank {missing or 0} has no place", where=file, mend="list all ranks")
        places = [found[rank] for rank in range(len(found))]
        return Placement.from_places(places, target.network, target.ranks_per_node)

    def warnings(self, text: str) -> list[str]:
        """Say where a list may be too long."""
        n_bytes = len(text.encode())
        if n_bytes < _SEEN_TO_FAIL:
            return []
        return [
            f"the list has {n_bytes:,} bytes: cray-mpich 9.1.0 was seen to fail in MPI_Init where it has "
            f"{_SEEN_TO_FAIL:,} or more once encoded; try it, or use SLURM_HOSTFILE or Comm.Split"
        ]
