"""Allocation of a job of PBS, from its file of hosts, and of what PALS' ``mpiexec`` will start there."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.base.files import read_text
from petacomm.topology.detect.cray import host_paths
from petacomm.topology.detect.switch_tree import fat_tree_from_paths
from petacomm.topology.manager import TopologyManager

_MOST_RANKS = 2**24
HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")


def pbs_allocation(environ: Mapping[str, str]) -> TopologyManager:
    """Return the allocation of a job of PBS Professional, OpenPBS or Torque.

    Parameters
    ----------
    environ : mapping
        ``PBS_NODEFILE``, the path of a file with a host a line: a rank a line, in their order. With
        ``PALS_PPN``, the default of ``mpiexec -ppn``, each host has that many ranks, in blocks, up to
        ``PALS_NRANKS`` where that is set. Hosts that are named by their place, as those of Cray EX, are put
        in its cabinets; others are under one switch.

    Raises
    ------
    ConfigError
        If the file cannot be read, a line is no host, or a number is wrong.
    """
    lines = _read_hosts(environ["PBS_NODEFILE"])
    source = "PBS_NODEFILE"
    per_node = _number(environ, "PALS_PPN")
    if per_node:
        lines = _in_blocks(list(dict.fromkeys(lines)), per_node, _number(environ, "PALS_NRANKS"))
        source += " and PALS_PPN"
    hosts = list(dict.fromkeys(lines))
    numbers = {host: index for index, host in enumerate(hosts)}
    paths, how = host_paths(hosts)
    network, nodes = fat_tree_from_paths(paths)
    of_rank = nodes[np.array([numbers[host] for host in lines])]
    return TopologyManager(network, of_rank, hosts=lines, source=f"{source}; {how}")


def _read_hosts(path: str) -> list[str]:
    mend = "PBS writes it on the job's first node; ask the running ranks of others: gather_allocation(comm)"
    if "\0" in path:
        raise ConfigError(f"PBS_NODEFILE is '{printable(path)}'", mend=mend)
    hosts = []
    for number, line in enumerate(read_text(path, mend).splitlines(), 1):
        host = line.strip()
        if host and not HOST_NAME.fullmatch(host):
            what = f"'{printable(host[:100])}' is no name of a host"
            raise ConfigError(what, where=f"{path}:{number}", mend="PBS_NODEFILE has a host a line")
        hosts += [host] * bool(host)
    if not 0 < len(hosts) <= _MOST_RANKS:
        raise ConfigError(f"names {len(hosts)} hosts", where=path, mend="start it in a job of PBS")
    return hosts


def _in_blocks(hosts: list[str], per_node: int, n_ranks: int) -> list[str]:
    """Return the host of each rank where each has `per_node`, one host after the other."""
    most = len(hosts) * per_node
    if n_ranks > most:
        what = f"PALS_NRANKS is {n_ranks}, and PALS_PPN {per_node}: {most} on {len(hosts)} hosts"
        raise ConfigError(what, mend="make them fit, or unset them")
    if most > _MOST_RANKS:
        raise ConfigError(f"{most} ranks", mend="lower PALS_PPN")
    return [host for host in hosts for _ in range(per_node)][: n_ranks or most]


def _number(environ: Mapping[str, str], name: str) -> int:
    """Return the number in a variable; 0, PALS' own default, if it is not set."""
    value = environ.get(name, "") or "0"
    if not (value.isdecimal() and len(value) < 9):
        raise ConfigError(f"{name} is '{printable(value)}'", mend="it must be a whole number, or unset")
    return int(value)
