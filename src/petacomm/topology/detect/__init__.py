"""Detection of a job's allocation from the environment, system files and the ranks themselves."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from petacomm.base.arguments import require_integer
from petacomm.base.errors import ConfigError
from petacomm.topology.detect import cray, fujitsu, pals, pbs, slurm
from petacomm.topology.detect.coordinates import read_coordinates, write_coordinates
from petacomm.topology.detect.node_layout import NodeLayout, read_hwloc, read_sysfs
from petacomm.topology.detect.slurm import expand_hosts, expand_tasks, read_topology_conf
from petacomm.topology.detect.switch_tree import fat_tree_from_paths
from petacomm.topology.manager import TopologyManager

__all__ = [
    "NodeLayout",
    "detect_allocation",
    "detect_node_layout",
    "expand_hosts",
    "expand_tasks",
    "gather_allocation",
    "read_coordinates",
    "read_hwloc",
    "read_sysfs",
    "write_coordinates",
]

_MOST_RANKS = 2**24


class _Communicator(Protocol):
    """The part of a communicator that `gather_allocation` needs."""

    size: int

    def allgather(self, value: Any) -> list[Any]:
        """Return the objects of all ranks, in rank order."""


def detect_allocation(
    environ: Mapping[str, str] = os.environ, root: Path = Path("/"), n_ranks: int | None = None
) -> TopologyManager:
    """Return the allocation of this process's job, without communication.

    It is read from Fujitsu's or Slurm's environment variables; with Slurm also from ``topology.conf``, in the
    folder of the ``slurm.conf`` that ``SLURM_CONF`` names or else in /etc/slurm, if there is one. In a
    process that HPE's PALS has started it is read from the file that ``PALS_APINFO`` names, else in a job of
    PBS from that of ``PBS_NODEFILE``. Without a job scheduler the allocation is this node.

    Parameters
    ----------
    environ : mapping
    root : Path
        Root of the file system.
    n_ranks : int, optional
        Number of ranks if there is no job scheduler; by default one per core.

    Returns
    -------
    TopologyManager

    Raises
    ------
    ConfigError
        If variables or files are wrong.

    Examples
    --------
    >>> import petacomm
    >>> manager = petacomm.detect_allocation({}, n_ranks=4)
    >>> manager.n_ranks
    4
    """
    if not isinstance(environ, Mapping):
        raise ConfigError(
            f"must be a mapping, not {type(environ).__name__}", where="environ", mend="os.environ"
        )
    if environ.get("PJM_NODE_X") or environ.get("PJM_MPI_SHAPE_X"):
        return fujitsu.pjm_allocation(environ)
    if environ.get("SLURM_JOB_NODELIST"):
        conf = Path(environ.get("SLURM_CONF", root / "etc/slurm/slurm.conf")).with_name("topology.conf")
        return slurm.slurm_allocation(environ, read_topology_conf(conf) if conf.is_file() else None)
    if environ.get("PALS_APINFO"):
        return pals.pals_allocation(environ)
    if environ.get("PBS_NODEFILE"):
        return pbs.pbs_allocation(environ)
    layout = detect_node_layout(environ, root)
    count = layout.n_cores if n_ranks is None else require_integer(n_ranks, "n_ranks", 1, _MOST_RANKS)
    network, nodes = fat_tree_from_paths([(socket.gethostname(),)] * count)
    source = f"one node, {layout.n_cores} cores by {layout.source}"
    return TopologyManager(network, nodes, hosts=[socket.gethostname()] * count, source=source)


def gather_allocation(
    comm: _Communicator, environ: Mapping[str, str] = os.environ, root: Path = Path("/")
) -> TopologyManager:
    """Return the allocation of a communicator, from the position that each rank detects. Collective on comm.

    The position of a node is given by the switches above it according to Slurm (``SLURM_TOPOLOGY_ADDR``),
    else by its place in a Cray's cabinets, from its files or the host's name, else by its host name, with all
    nodes under one switch.

    Raises
    ------
    ConfigError
        On all ranks, if they detect their positions from different sources.
    """
    host = environ.get("SLURMD_NODENAME") or socket.gethostname()
    path, source = slurm.slurm_switch_path(environ), "Slurm's topology address"
    if path is None:
        path, source = cray.cray_node_path(root) or cray.cray_host_path(host), "Cray's names of nodes"
    if path is None:
        path, source = ("switch", host), "names of hosts; one switch assumed"
    gathered = comm.allgather((path, host, source))
    sources = sorted({name for _, _, name in gathered})
    if len(sources) > 1:
        raise ConfigError(f"ranks know their places by {' and by '.join(sources)}", mend="use a file")
    network, nodes = fat_tree_from_paths([path for path, _, _ in gathered])
    return TopologyManager(network, nodes, hosts=[host for _, host, _ in gathered], source=source)


def detect_node_layout(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> NodeLayout:
    """Return the packages and cores of this node, from ``HWLOC_XMLFILE`` if set, else from ``/sys``."""
    path = environ.get("HWLOC_XMLFILE")
    return read_hwloc(Path(path)) if path else read_sysfs(root)
