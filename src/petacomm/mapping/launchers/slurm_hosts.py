"""Slurm's host file: a host for each task in their order, for ``srun --distribution=arbitrary``."""

from __future__ import annotations

from petacomm.mapping.launchers.target import Target, lines_of, refuse_slots_out_of_turn
from petacomm.mapping.placement import Placement


class HostFile:
    """Hosts in the order of tasks, repeated for each task; tasks of a host take its slots in turn."""

    title = "Slurm"
    usage = "SLURM_HOSTFILE={file} srun --distribution=arbitrary -n N"

    def text(self, placement: Placement, target: Target) -> str:
        """Return a host a line."""
        refuse_slots_out_of_turn(placement, "SLURM_HOSTFILE")
        return "".join(f"{target.host(node)}\n" for node in placement.nodes.tolist())

    def parse(self, text: str, target: Target, file: str) -> Placement:
        """Read the hosts, separated by lines or commas."""
        nodes = [
            target.node(host.strip(), where)
            for line, where in lines_of(text, file)
            for host in line.rstrip(",").split(",")
        ]
        return Placement.from_nodes(nodes, target.network, target.ranks_per_node)

    def warnings(self, text: str) -> list[str]:
        """Nothing is known to go wrong."""
        return []
