"""Placement of an application's processes from the file that HPE's PALS writes for them (Polaris, Aurora).

PALS starts what ``mpiexec`` or ``aprun`` is given in a job of PBS, and tells each process the file's path in
``PALS_APINFO``. Slurm and Flux write the same file for Cray MPICH. It is the memory of C structures: a header
with size, offset and number of the members of each table, and the tables. HPE's pals.h (2018-2023) describes
version 5, Flux versions 1 and 5; what is read here is the same in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError, printable
from petacomm.base.files import require_file
from petacomm.base.typing import AnyArray, Int64Array
from petacomm.topology.detect.cray import host_paths
from petacomm.topology.detect.pbs import HOST_NAME
from petacomm.topology.detect.switch_tree import fat_tree_from_paths
from petacomm.topology.manager import TopologyManager

_VERSIONS = (1, 5)
_MOST = {"process": 2**24, "node": 1_000_000}
# Structures as 64-bit compilers lay them out; the header's other members stand between these.
_TABLE = [("size", "<u8"), ("offset", "<u8"), ("count", "<i4"), ("", "<i4")]
_HEADER = np.dtype(
    {"names": ["version", "process", "node"], "formats": ["<i4", _TABLE, _TABLE], "offsets": [0, 64, 88]}
)
_MEMBERS: dict[str, npt.DTypeLike] = {
    "process": [("local_rank", "<i4"), ("command", "<i4"), ("node", "<i4")],
    "node": [("number", "<i4"), ("host", "S64")],
}
_MEND = "ask the running ranks: gather_allocation(comm), or write a file of coordinates"


def pals_allocation(environ: Mapping[str, str]) -> TopologyManager:
    """Return the allocation of the application that this process is part of.

    Parameters
    ----------
    environ : mapping
        ``PALS_APINFO``, the path of a file that has node and local rank of each rank, and the nodes' hosts.
        Hosts that are named by their place, as those of Cray EX, are put in its cabinets; others are under
        one switch.

    Raises
    ------
    ConfigError
        If the file cannot be read or is damaged, of another version, or contradicts itself.
    """
    hosts, nodes, slots = _read_apinfo(environ["PALS_APINFO"])
    paths, how = host_paths(hosts)
    network, positions = fat_tree_from_paths(paths)
    names = [hosts[node] for node in nodes.tolist()]
    source = f"PALS_APINFO; {how}"
    return TopologyManager(network, positions[nodes], slots, hosts=names, source=source)


def _read_apinfo(name: str) -> tuple[list[str], Int64Array, Int64Array]:
    """Return the nodes' hosts, and the node and local rank of each rank."""
    path = printable(name)
    try:
        content = require_file(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        mend = f"unset it, or {_MEND}"
        raise ConfigError(f"PALS_APINFO cannot be read: {reason}", where=path, mend=mend) from None
    if len(content) < _HEADER.itemsize:
        raise _damaged(path, f"{len(content)} bytes, fewer than its header has")
    header = np.frombuffer(content, _HEADER, 1)[0]
    if header["version"] not in _VERSIONS:
        known = " and ".join(map(str, _VERSIONS))
        raise ConfigError(f"is of version {header['version']}, not {known}", where=path, mend=_MEND)
    processes, nodes = (_table(path, content, header, name) for name in ("process", "node"))
    hosts = [_host(path, index, name) for index, name in enumerate(nodes["host"].tolist())]
    _check_places(path, hosts, processes)
    return hosts, processes["node"].astype(np.int64), processes["local_rank"].astype(np.int64)


def _table(path: str, content: bytes, header: Any, name: str) -> AnyArray:
    member = np.dtype(_MEMBERS[name])
    size, offset, count = (int(header[name][key]) for key in ("size", "offset", "count"))
    if not (0 < count <= _MOST[name] and member.itemsize <= size and offset + size * count <= len(content)):
        what = f"{count} {name} entries of {size} bytes from byte {offset} on"
        raise _damaged(path, f"{what}, in {len(content)} bytes")
    whole = np.dtype({"names": [name], "formats": [member], "itemsize": size})
    return np.asarray(np.frombuffer(content, whole, count, offset)[name])


def _host(path: str, index: int, name: bytes) -> str:
    text = name.decode("latin-1")
    if not HOST_NAME.fullmatch(text):
        raise _damaged(path, f"node {index} is '{printable(text)}', no name of a host")
    return text


def _check_places(path: str, hosts: list[str], processes: AnyArray) -> None:
    last = {host: index for index, host in enumerate(hosts)}
    if len(last) < len(hosts):
        again = next(host for index, host in enumerate(hosts) if last[host] != index)
        raise _damaged(path, f"host '{again}' is two nodes")
    node, local_rank = processes["node"], processes["local_rank"]
    wrong = np.flatnonzero((node < 0) | (node >= len(hosts)) | (local_rank < 0))
    if len(wrong):
        rank = int(wrong[0])
        what = f"rank {rank} is process {local_rank[rank]} of node {node[rank]}, of {len(hosts)} nodes"
        raise _damaged(path, what)
    if len(np.unique(node.astype(np.int64) * 2**31 + local_rank)) < len(processes):
        raise _damaged(path, "two ranks are one process of a node")


def _damaged(path: str, what: str) -> ConfigError:
    return ConfigError(f"is not what PALS writes: {what}", where=path, mend=_MEND)
