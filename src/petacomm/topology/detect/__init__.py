"""Where the ranks of this job are, from whatever is at hand on the running system."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from petacomm.base.errors import ConfigError
from petacomm.topology.detect import cray, fujitsu, slurm
from petacomm.topology.detect.coordinates import read_coordinates, write_coordinates
from petacomm.topology.detect.node_layout import NodeLayout, read_hwloc, system_layout
from petacomm.topology.detect.slurm import expand_hosts, expand_tasks, read_topology_conf
from petacomm.topology.detect.switch_tree import tree_of
from petacomm.topology.manager import TopologyManager

__all__ = [
    "NodeLayout",
    "detect",
    "expand_hosts",
    "expand_tasks",
    "gather_allocation",
    "node_layout",
    "read_coordinates",
    "read_hwloc",
    "read_topology_conf",
    "system_layout",
    "write_coordinates",
]


class _Gathers(Protocol):
    """What is needed of a communicator."""

    size: int

    def allgather(self, value: Any) -> list[Any]:
        """Return one object a rank in rank order."""
        ...


def detect(
    environ: Mapping[str, str] = os.environ, root: Path = Path("/"), n_ranks: int | None = None
) -> TopologyManager:
    """Return the ranks of the job that this process is in, without asking the others.

    Fujitsu's and Slurm's variables tell it, Slurm's with the ``topology.conf`` beside the ``slurm.conf`` that
    ``SLURM_CONF`` names, else in /etc/slurm, where it is to be read. Elsewhere it is this one node.

    Parameters
    ----------
    environ : mapping
    root : Path
        Of the files of the operating system.
    n_ranks : int, optional
        Of a job on this node alone; by default one a core.

    Raises
    ------
    ConfigError
        If variables or files are wrong.
    """
    if environ.get("PJM_NODE_X") or environ.get("PJM_MPI_SHAPE_X"):
        return fujitsu.job(environ)
    if environ.get("SLURM_JOB_NODELIST"):
        conf = Path(environ.get("SLURM_CONF", root / "etc/slurm/slurm.conf")).with_name("topology.conf")
        return slurm.job(environ, read_topology_conf(conf) if conf.is_file() else None)
    layout = node_layout(environ, root)
    count = layout.n_cores if n_ranks is None else n_ranks
    network, nodes = tree_of([(socket.gethostname(),)] * count)
    source = f"one node, {layout.n_cores} cores by {layout.source}"
    return TopologyManager(network, nodes, hosts=[socket.gethostname()] * count, source=source)


def gather_allocation(
    comm: _Gathers, environ: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> TopologyManager:
    """Return the ranks of a communicator where they really are: each says its own place. Collective.

    A place is what Slurm tells of the switches above a node (``SLURM_TOPOLOGY_ADDR``), else a Cray's place in
    its cabinets, else the name of the host, all of them under one switch.

    Raises
    ------
    ConfigError
        On all ranks, if they know their places in different ways.
    """
    host = environ.get("SLURMD_NODENAME") or socket.gethostname()
    place, source = slurm.address(environ), "Slurm's topology address"
    if place is None:
        place, source = cray.address(root), "Cray's names of nodes"
    if place is None:
        place, source = ("switch", host), "names of hosts; one switch assumed"
    told = comm.allgather((place, host, source))
    sources = sorted({where for _, _, where in told})
    if len(sources) > 1:
        raise ConfigError(f"ranks know their places by {' and by '.join(sources)}", mend="use a file")
    network, nodes = tree_of([place for place, _, _ in told])
    return TopologyManager(network, nodes, hosts=[host for _, host, _ in told], source=source)


def node_layout(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> NodeLayout:
    """Return the packages and cores of this node: from ``HWLOC_XMLFILE`` where it is set, else from Linux."""
    path = environ.get("HWLOC_XMLFILE")
    return read_hwloc(Path(path)) if path else system_layout(root)
