"""Slurm: what its variables say of a job, its lists of hosts, and the switches of ``topology.conf``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.base.typing import Int64Array
from petacomm.topology.detect.switch_tree import tree_of
from petacomm.topology.manager import TopologyManager

_MOST_HOSTS = 1_000_000
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)|(,)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def expand_hosts(text: str) -> list[str]:
    """Return the hosts of a list such as ``n[001-003,7],gpu[1-2]x[0-1],login``, in its order.

    Raises
    ------
    ConfigError
        If it is not such a list, or names more than a million hosts.
    """
    hosts: list[str] = []
    parts: list[list[str]] = []
    end = 0
    for match in _PIECE.finditer(text.strip() + ","):
        if match.start() != end or (match[3] and not parts):
            raise _no_list(text)
        end = match.end()
        if match[1] is not None:
            parts.append(_range(match[1], text))
        elif match[2]:
            parts.append([match[2].strip()])
        else:
            if np.prod([len(part) for part in parts], dtype=float) + len(hosts) > _MOST_HOSTS:
                raise _no_list(text)
            hosts.extend("".join(names) for names in product(*parts))
            parts = []
    if end != len(text.strip()) + 1:
        raise _no_list(text)
    return hosts


def _range(text: str, whole: str) -> list[str]:
    names: list[str] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if not match:
            raise _no_list(whole)
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < _MOST_HOSTS:
            raise _no_list(whole)
        names.extend(str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return names


def _no_list(text: str) -> ConfigError:
    return ConfigError(f"'{printable(text[:100])}' is not a list of hosts", mend="e.g. n[001-003,7],login")


def expand_tasks(text: str) -> list[int]:
    """Return the tasks of each node, of a text such as ``2(x3),1``.

    Raises
    ------
    ConfigError
        If it is not such a text.
    """
    counts: list[int] = []
    for item in text.split(","):
        match = _TASKS.fullmatch(item.strip())
        repeat = int(match[2] or 1) if match else 0
        if not match or len(counts) + repeat > _MOST_HOSTS:
            raise ConfigError(f"'{printable(text[:100])}' are not tasks of nodes", mend="e.g. 2(x3),1")
        counts.extend([int(match[1])] * repeat)
    return counts


def address(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the switches above this node and its name, from the top; None where Slurm tells no switch.

    From ``SLURM_TOPOLOGY_ADDR``, e.g. ``sh04.sh04-isw-16.sh04-16n05``, of as many parts as
    ``SLURM_TOPOLOGY_ADDR_PATTERN``, ``switch.switch.node``, has; the node may have points in its name.
    """
    pattern = environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", "").split(".")
    parts = environ.get("SLURM_TOPOLOGY_ADDR", "").split(".", len(pattern) - 1)
    return tuple(parts) if len(parts) == len(pattern) > 1 and all(parts) else None


def job(environ: Mapping[str, str], topology: Switches | None = None) -> TopologyManager:
    """Return the ranks of a job or step from Slurm's variables.

    Parameters
    ----------
    environ : mapping
        ``SLURM_JOB_NODELIST`` and ``SLURM_TASKS_PER_NODE``, in a step ``SLURM_STEP_NODELIST`` and
        ``SLURM_STEP_TASKS_PER_NODE``; ``SLURM_DISTRIBUTION`` is block unless it says cyclic.
    topology : Switches, optional
        By default all nodes hang from one switch.

    Raises
    ------
    ConfigError
        If a variable is missing or wrong, they contradict each other, or ranks are dealt in a way that
        they do not tell.
    """
    kind = "STEP" if environ.get("SLURM_STEP_ID") and environ.get("SLURM_STEP_TASKS_PER_NODE") else "JOB"
    tasks_name = "SLURM_STEP_TASKS_PER_NODE" if kind == "STEP" else "SLURM_TASKS_PER_NODE"
    hosts = expand_hosts(_variable(environ, f"SLURM_{kind}_NODELIST"))
    tasks = expand_tasks(_variable(environ, tasks_name))
    if len(hosts) != len(tasks):
        raise ConfigError(
            f"SLURM_{kind}_NODELIST names {len(hosts)} nodes and {tasks_name} {len(tasks)}",
            mend="start it in a job's shell",
        )
    of_rank = _deal(tasks, environ.get("SLURM_DISTRIBUTION", "block").lower())
    paths = topology.paths(hosts) if topology else [("switch", host) for host in hosts]
    network, nodes = tree_of(paths)
    names = [hosts[index] for index in of_rank]
    source = "Slurm's variables" + (" and topology.conf" if topology else "; one switch assumed")
    return TopologyManager(network, nodes[of_rank], hosts=names, source=source)


def _variable(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    if not value:
        raise ConfigError(f"{name} is not set", mend="start it in a job of Slurm")
    return value


def _deal(tasks: list[int], distribution: str) -> Int64Array:
    """Return the node of each rank: node by node, or one a node in turns."""
    counts = np.array(tasks)
    by_node = np.repeat(np.arange(len(tasks)), counts)
    way = distribution.split(":")[0].split(",")[0]
    if way in ("", "*", "block"):
        return by_node
    if way == "cyclic":
        turn = np.arange(len(by_node)) - np.repeat(np.cumsum(counts) - counts, counts)
        return by_node[np.lexsort((by_node, turn))]
    raise ConfigError(
        f"Slurm deals ranks by '{printable(distribution)}', which its variables do not tell",
        mend="ask the running ranks: gather_allocation(comm)",
    )


@dataclass
class Switches:
    """The switches of a ``topology.conf``, or its blocks.

    Attributes
    ----------
    parents : dict of str to list of str
        The switches right above each switch or node.
    """

    file: str
    parents: dict[str, list[str]] = field(default_factory=dict)

    def paths(self, hosts: list[str]) -> list[tuple[str, ...]]:
        """Return the switches above each host and its name, from the top.

        Switches that have the same members below them, as spines do, count as one.

        Raises
        ------
        ConfigError
            If a host is under no switch, or switches are above each other in a circle.
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


def read_topology_conf(path: Path) -> Switches:
    """Read a ``topology.conf``.

    Its lines are ``SwitchName=... Switches=...|Nodes=...``, or ``BlockName=... Nodes=...``.

    Raises
    ------
    ConfigError
        If it cannot be read, or a line is neither of these: it names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"cannot be read: {reason}", where=str(path)) from None
    switches = Switches(str(path))
    for number, line in enumerate(text.replace("\\\n", " ").splitlines(), 1):
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
        for child in expand_hosts(below):
            switches.parents.setdefault(child, []).append(name)
    return switches
