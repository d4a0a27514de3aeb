"""Host files of Hydra, the launcher of MPICH and Intel MPI: hosts, and how many ranks in turn each starts."""

from __future__ import annotations

import itertools
import re

from petacomm.base.errors import ConfigError, printable
from petacomm.mapping.launchers.target import (
    LauncherFile,
    LaunchTarget,
    content_lines,
    require_slots_in_order,
)
from petacomm.mapping.placement import Placement

_LINE = re.compile(r"([^\s:]+)(?::(\d{1,9}))?")


class HydraHostFile(LauncherFile):
    """Hydra's host file: ``host:n`` for the next n ranks; a host may come again."""

    title = "MPICH, Intel MPI"
    usage = "mpiexec -f {file} -n {ranks} (Intel MPI: mpiexec -machinefile {file} -n {ranks})"
    needs_hosts = True

    def format(self, placement: Placement, target: LaunchTarget) -> str:
        """Return the text of the file, one line for ranks that follow each other on a host."""
        require_slots_in_order(placement, "Hydra")
        runs = itertools.groupby(placement.nodes.tolist())
        return "".join(f"{target.host(node)}:{len(list(ranks))}\n" for node, ranks in runs)

    def parse(self, text: str, target: LaunchTarget, file: str) -> Placement:
        """Return the placement of a file's text; a host without a number starts one rank."""
        nodes: list[int] = []
        for line, where in content_lines(text, file):
            match = _LINE.fullmatch(line)
            n_places = target.network.n_nodes * target.ranks_per_node
            if not match or not 0 < int(match[2] or 1) <= n_places:
                what = f"'{printable(line)}' is no host and number of ranks"
                raise ConfigError(what, where=where, mend="write host:4")
            nodes += [target.node(match[1], where)] * int(match[2] or 1)
        return Placement.from_nodes(nodes, target.network, target.ranks_per_node)
