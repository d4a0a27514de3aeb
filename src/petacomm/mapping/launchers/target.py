"""Interface of launchers' files, and the nodes and host names that they refer to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.mapping.placement import Placement
from petacomm.topology import Network, local_ranks


@dataclass(frozen=True)
class LaunchTarget:
    """The nodes to which a launcher's file refers.

    Attributes
    ----------
    network : Network
    ranks_per_node : int
        Number of slots of a node.
    hosts : sequence of str, optional
        Host name of each node of the network, in order of the node numbers.
    cores_per_rank : int
        Number of consecutive cores to which a rank is bound, for formats with binding.
    cores_per_package : int, optional
        If given, cores are numbered package by package.
    node_numbers : dict of str to int
        Node of each host.
    """

    network: Network
    ranks_per_node: int = 1
    hosts: Sequence[str] | None = None
    cores_per_rank: int = 1
    cores_per_package: int | None = None
    node_numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = list(self.hosts or [])
        wrong = [name for name in names if not name or any(letter in " \t,=#\n" for letter in name)]
        if wrong:
            mend = "give names alone, without slots or comments"
            raise ConfigError(f"'{printable(wrong[0])}' is no name of a host", mend=mend)
        if self.hosts is not None and len(names) != self.network.n_nodes:
            raise ConfigError(
                f"{len(names)} hosts for the {self.network.n_nodes} nodes of the network", mend="name each"
            )
        numbers = {name: node for node, name in enumerate(names)}
        if len(numbers) < len(names):
            again = next(name for node, name in enumerate(names) if numbers[name] != node)
            raise ConfigError(f"host '{again}' is named twice", mend="name each node once")
        object.__setattr__(self, "node_numbers", numbers)
        package = self.cores_per_package
        if self.cores_per_rank < 1 or (package is not None and package % self.cores_per_rank):
            raise ConfigError(
                f"{self.cores_per_rank} cores a rank do not fit packages of {package}",
                mend="give a number that divides the cores of a package",
            )

    def host(self, node: int) -> str:
        """Return the host name of a node."""
        if self.hosts is None:
            raise ConfigError("this file names hosts, and none are given", mend="give a name for each node")
        return self.hosts[node]

    def node(self, host: str, where: str) -> int:
        """Return the node of a host name; raise a ConfigError if there is none."""
        if self.hosts is None:
            raise ConfigError("names hosts, and those of the job are not given", where=where)
        if host not in self.node_numbers:
            raise ConfigError(f"host '{printable(host)}' is not one of the job", where=where)
        return self.node_numbers[host]


class LauncherFile(Protocol):
    """Interface of a launcher's file format.

    Attributes
    ----------
    title : str
        Name of the launcher.
    usage : str
        Command line or variables that use the file; ``{file}`` is its path, ``{ranks}`` their number.
    needs_hosts : bool
        Whether it cannot be written without the names of hosts.
    fills_nodes : bool
        Whether ranks can only be given an order, in which nodes are filled one after the other.
    """

    title: str
    usage: str
    needs_hosts: bool = False
    fills_nodes: bool = False

    def format(self, placement: Placement, target: LaunchTarget) -> str:
        """Return the text of the file; raise a ConfigError if the format cannot express the placement."""

    def parse(self, text: str, target: LaunchTarget, file: str) -> Placement:
        """Return the placement of a file's text; raise a ConfigError that names the line if it is wrong."""

    def warnings(self, text: str) -> list[str]:
        """Return warnings of known problems with the text of a file; by default none."""
        return []


def content_lines(text: str, file: str) -> list[tuple[str, str]]:
    """Return the non-empty lines of a text without comments, each with its position "file:number"."""
    stripped = [(line.split("#")[0].strip(), number) for number, line in enumerate(text.splitlines(), 1)]
    return [(line, f"{file}:{number}") for line, number in stripped if line]


def require_slots_in_order(placement: Placement, title: str) -> None:
    """Raise a ConfigError unless the ranks of each node have its first slots in order."""
    slots = local_ranks(placement.nodes)
    wrong = np.flatnonzero(slots != placement.slots)
    if len(wrong):
        rank = int(wrong[0])
        raise ConfigError(
            f"{title} gives ranks of a node its slots in turn, not slot {placement.slots[rank]}",
            where=f"rank {rank}",
            mend="use a format that names slots, like openmpi, or Placement.from_nodes",
        )


def placement_from_slots(
    slot_numbers: dict[int, int], target: LaunchTarget, file: str, mend: str = "give each rank a line"
) -> Placement:
    """Return the placement of the slot numbers of all ranks; raise a ConfigError if a rank is missing."""
    n = len(slot_numbers)
    missing = next((rank for rank in range(n) if rank not in slot_numbers), None)
    if missing is not None or not n:
        raise ConfigError(f"rank {missing or 0} has no place", where=file, mend=mend)
    ordered = [slot_numbers[rank] for rank in range(n)]
    return Placement.from_slot_numbers(ordered, target.network, target.ranks_per_node)
