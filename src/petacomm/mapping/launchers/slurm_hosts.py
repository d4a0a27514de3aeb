"""Slurm's host file: the host of each task in order, for ``srun --distribution=arbitrary``."""

from __future__ import annotations

from petacomm.mapping.launchers.target import (
    LauncherFile,
    LaunchTarget,
    content_lines,
    require_slots_in_order,
)
from petacomm.mapping.placement import Placement


class SlurmHostFile(LauncherFile):
    """Slurm's host file: the host of each task; the tasks of a host take its slots in order."""

    title = "Slurm"
    usage = "SLURM_HOSTFILE={file} srun --distribution=arbitrary -n {ranks}"
    needs_hosts = True

    def format(self, placement: Placement, target: LaunchTarget) -> str:
        """Return the text of the file, one host per line."""
        require_slots_in_order(placement, "SLURM_HOSTFILE")
        return "".join(f"{target.host(node)}\n" for node in placement.nodes.tolist())

    def parse(self, text: str, target: LaunchTarget, file: str) -> Placement:
        """Return the placement of a file's text, with hosts separated by newlines or commas."""
        nodes = [
            target.node(host.strip(), where)
            for line, where in content_lines(text, file)
            for host in line.rstrip(",").split(",")
        ]
        return Placement.from_nodes(nodes, target.network, target.ranks_per_node)
