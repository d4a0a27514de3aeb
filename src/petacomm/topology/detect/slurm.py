"""Allocation of a job from Slurm's variables, its host lists, and the switches of ``topology.conf``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, located, printable
from petacomm.base.files import read_text
from petacomm.base.typing import Int64Array
from petacomm.topology.detect.switch_tree import fat_tree_from_paths
from petacomm.topology.manager import TopologyManager, local_ranks

_MAX_HOSTS = 1_000_000
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)|(,)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def expand_hosts(text: str) -> list[str]:
    """Return the hosts of a list such as ``n[001-003,7],gpu[1-2]x[0-1],login``, in the order of the list.

    Raises
    ------
    ConfigError
        If it is not a host list, or has more than a million hosts.
    """
    hosts: list[str] = []
    parts: list[list[str]] = []
    end = 0
    for match in _PIECE.finditer(text.strip() + ","):
        if match.start() != end or (match[3] and not parts):
            raise _not_a_list(text)
        end = match.end()
        if match[1] is not None:
            parts.append(_expand_range(match[1], text))
        elif match[2]:
            parts.append([match[2].strip()])
        else:
            if np.prod([len(part) for part in parts], dtype=float) + len(hosts) > _MAX_HOSTS:
                raise _not_a_list(text)
            hosts.extend("".join(names) for names in product(*parts))
            parts = []
    if end != len(text.strip()) + 1:
        raise _not_a_list(text)
    return hosts


def _expand_range(text: str, host_list: str) -> list[str]:
    names: list[str] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if not match:
            raise _not_a_list(host_list)
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < _MAX_HOSTS:
            raise _not_a_list(host_list)
        names.extend(str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return names


def _not_a_list(text: str) -> ConfigError:
    return ConfigError(f"'{printable(text[:100])}' is not a list of hosts", mend="e.g. n[001-003,7],login")


def expand_tasks(text: str) -> list[int]:
    """Return the number of tasks of each node, from a text such as ``2(x3),1``.

    Raises
    ------
    ConfigError
        If the text has another form.
    """
    counts: list[int] = []
    for item in text.split(","):
        match = _TASKS.fullmatch(item.strip())
        repeat = int(match[2] or 1) if match else 0
        if not match or len(counts) + repeat > _MAX_HOSTS:
            raise ConfigError(f"'{printable(text[:100])}' are not tasks of nodes", mend="e.g. 2(x3),1")
        counts.extend([int(match[1])] * repeat)
    return counts


def slurm_switch_path(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the switches above this node and its name, topmost first; None if Slurm reports no switch.

    They are read from ``SLURM_TOPOLOGY_ADDR``, e.g. ``sh04.sh04-isw-16.sh04-16n05``, which has as many parts
    as ``SLURM_TOPOLOGY_ADDR_PATTERN``, ``switch.switch.node``; the name of the node may contain dots.
    """
    pattern = environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", "").split(".")
    parts = environ.get("SLURM_TOPOLOGY_ADDR", "").split(".", len(pattern) - 1)
    return tuple(parts) if len(parts) == len(pattern) > 1 and all(parts) else None


def slurm_allocation(environ: Mapping[str, str], topology: SwitchTopology | None = None) -> TopologyManager:
    """Return the allocation of a job or step from Slurm's variables.

    Parameters
    ----------
    environ : mapping
        ``SLURM_JOB_NODELIST`` and ``SLURM_TASKS_PER_NODE``, in a step ``SLURM_STEP_NODELIST`` and
        ``SLURM_STEP_TASKS_PER_NODE``; ``SLURM_DISTRIBUTION``, block or cyclic, by default block.
    topology : SwitchTopology, optional
        By default all nodes are under one switch.

    Raises
    ------
    ConfigError
        If a variable is missing or wrong, they contradict each other, the distribution of ranks is one that
        the variables do not describe, or the job is heterogeneous: they then describe a component of it.
    """
    _refuse_components(environ)
    kind = "STEP" if environ.get("SLURM_STEP_ID") and environ.get("SLURM_STEP_TASKS_PER_NODE") else "JOB"
    tasks_name = "SLURM_STEP_TASKS_PER_NODE" if kind == "STEP" else "SLURM_TASKS_PER_NODE"
    hosts = expand_hosts(_variable(environ, f"SLURM_{kind}_NODELIST"))
    tasks = expand_tasks(_variable(environ, tasks_name))
    if len(hosts) != len(tasks):
        raise ConfigError(
            f"SLURM_{kind}_NODELIST names {len(hosts)} nodes and {tasks_name} {len(tasks)}",
            mend="start it in a job's shell",
        )
    host_of_rank = _distribute(tasks, environ.get("SLURM_DISTRIBUTION", "block").lower())
    paths = topology.paths(hosts) if topology else [("switch", host) for host in hosts]
    network, nodes = fat_tree_from_paths(paths)
    names = [hosts[index] for index in host_of_rank]
    source = "Slurm's variables" + (" and topology.conf" if topology else "; one switch assumed")
    return TopologyManager(network, nodes[host_of_rank], hosts=names, source=source)


def _refuse_components(environ: Mapping[str, str]) -> None:
    """Raise a ConfigError in a heterogeneous job of several components."""
    size = environ.get("SLURM_HET_SIZE", "")
    if size.isdecimal() and int(size) > 1:
        raise ConfigError(
            f"a heterogeneous job of {int(size)} components, one of which Slurm's variables describe",
            mend="ask the running ranks: gather_allocation(comm)",
        )


def _variable(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    if not value:
        raise ConfigError(f"{name} is not set", mend="start it in a job of Slurm")
    return value


def _distribute(tasks: list[int], distribution: str) -> Int64Array:
    """Return the node of each rank in a block or cyclic distribution."""
    block = np.repeat(np.arange(len(tasks)), tasks)
    method = distribution.split(":")[0].split(",")[0]
    if method in ("", "*", "block"):
        return block
    if method == "cyclic":
        return block[np.lexsort((block, local_ranks(block)))]
    raise ConfigError(
        f"Slurm deals ranks by '{printable(distribution)}', which its variables do not tell",
        mend="ask the running ranks: gather_allocation(comm)",
    )


@dataclass
class SwitchTopology:
    """The switches or blocks of a ``topology.conf``.

    Attributes
    ----------
    file : str
        Path of the file, for error messages.
    parents : dict of str to list of str
        The switches directly above each switch or node.
    """

    file: str
    parents: dict[str, list[str]] = field(default_factory=dict)

    def paths(self, hosts: list[str]) -> list[tuple[str, ...]]:
        """Return the switches above each host and its name, topmost first.

        Switches with the same members below them, as spines have, count as one.

        Raises
        ------
        ConfigError
            If a host is under no switch, or the switches form a cycle.
        """
        return [self._path(host) for host in hosts]

    def _path(self, host: str) -> tuple[str, ...]:
        if host not in self.parents:
            raise ConfigError(f"node '{printable(host)}' is under no switch", where=self.file)
        path, level = [host], [host]
        while level := sorted({up for name in level for up in self.parents.get(name, [])}):
            if len(path) > len(self.parents):
                raise ConfigError(f"switch '{printable(level[0])}' is above itself", where=self.file)
            path.append(",".join(level))
        return tuple(reversed(path))


def read_topology_conf(path: Path) -> SwitchTopology:
    """Read a ``topology.conf``.

    Its lines are ``SwitchName=... Switches=...|Nodes=...``, or ``BlockName=... Nodes=...``.

    Raises
    ------
    ConfigError
        If it cannot be read, or a line has another form; the error names the line.
    """
    switches = SwitchTopology(str(path))
    for number, line in enumerate(read_text(path).replace("\\\n", " ").splitlines(), 1):
        words = line.split("#")[0].split()
        pairs = {name.lower(): value for name, _, value in (word.partition("=") for word in words)}
        if not pairs or "blocksizes" in pairs:
            continue
        name = pairs.get("switchname") or pairs.get("blockname")
        below = pairs.get("nodes") or pairs.get("switches")
        if not name or not below:
            mend = (
                "write SwitchName=s0 Nodes=n[0-15], SwitchName=top Switches=s[0-3] or BlockName=b0 Nodes=..."
            )
            raise ConfigError("names no switch and what is below it", where=f"{path}:{number}", mend=mend)
        with located(f"{path}:{number}"):
            children = expand_hosts(below)
        for child in children:
            switches.parents.setdefault(child, []).append(name)
    return switches
