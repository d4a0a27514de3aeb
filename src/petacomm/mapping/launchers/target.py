"""What a launcher's file is about: the nodes of a network, and what the launcher calls them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from petacomm.base.errors import ConfigError, printable
from petacomm.mapping.placement import Placement
from petacomm.topology import Network, in_turn


@dataclass(frozen=True)
class Target:
    """Where a file's ranks go.

    Attributes
    ----------
    network : Network
    ranks_per_node : int
        Places of a node.
    hosts : sequence of str, optional
        The name of each node of the network, in the order of its numbers.
    cores_per_rank : int
        Consecutive cores that a rank is bound to, where a format says it.
    cores_per_package : int, optional
        Where given, cores are counted package by package.
    """

    network: Network
    ranks_per_node: int = 1
    hosts: Sequence[str] | None = None
    cores_per_rank: int = 1
    cores_per_package: int | None = None
    numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = list(self.hosts or [])
        if self.hosts is not None and len(names) != self.network.n_nodes:
            raise ConfigError(
                f"{len(names)} hosts for the {self.network.n_nodes} nodes of the network", mend="name each"
            )
        wrong = [name for name in names if not name or any(letter in " \t,=#\n" for letter in name)]
        if wrong:
            raise ConfigError(f"'{printable(wrong[0])}' is no name of a host", mend=None)
        numbers = {name: node for node, name in enumerate(names)}
        if len(numbers) < len(names):
            again = next(name for node, name in enumerate(names) if numbers[name] != node)
            raise ConfigError(f"host '{again}' is named twice", mend="name each node once")
        object.__setattr__(self, "numbers", numbers)
        package = self.cores_per_package
        if self.cores_per_rank < 1 or (package is not None and package % self.cores_per_rank):
            raise ConfigError(
                f"{self.cores_per_rank} cores a rank do not fit packages of {package}",
                mend="give a number that divides the cores of a package",
            )

    def host(self, node: int) -> str:
        """Return the name of a node."""
        if self.hosts is None:
            raise ConfigError("this file names hosts, and none are given", mend="give a name for each node")
        return self.hosts[node]

    def node(self, host: str, where: str) -> int:
        """Return the node of a name, or say that there is none."""
        if self.hosts is None:
            raise ConfigError("names hosts, and those of the job are not given", where=where)
        if host not in self.numbers:
            raise ConfigError(f"host '{printable(host)}' is not one of the job", where=where)
        return self.numbers[host]


class LauncherFile(Protocol):
    """A format that a launcher reads.

    Attributes
    ----------
    title : str
        Whose it is.
    usage : str
        How it is used; ``{file}`` is its path.
    """

    title: str
    usage: str

    def text(self, placement: Placement, target: Target) -> str:
        """Return the file's text, or raise a ConfigError where the format cannot say it."""
        ...

    def parse(self, text: str, target: Target, file: str) -> Placement:
        """Return the placement of a text, or raise a ConfigError that names the line."""
        ...

    def warnings(self, text: str) -> list[str]:
        """Return what is known to go wrong with a text that the format allows."""
        ...


def lines_of(text: str, file: str) -> list[tuple[str, str]]:
    """Return the lines of a text that say something, stripped, each with its place."""
    stripped = [(line.split("#")[0].strip(), number) for number, line in enumerate(text.splitlines(), 1)]
    return [(line, f"{file}:{number}") for line, number in stripped if line]


def refuse_slots_out_of_turn(placement: Placement, title: str) -> None:
    """Raise an error unless the ranks of each node take its first slots in their order."""
    slots = in_turn(placement.nodes)
    wrong = np.flatnonzero(slots != placement.slots)
    if len(wrong):
        rank = int(wrong[0])
        raise ConfigError(
            f"{title} gives ranks of a node its slots in turn, not slot {placement.slots[rank]}",
            where=f"rank {rank}",
            mend="use a format that names slots, like openmpi, or Placement.from_nodes",
        )


def by_rank(found: dict[int, int], target: Target, file: str) -> Placement:
    """Return the placement of a place (node * ranks_per_node + slot) for each rank, none left out."""
    missing = next((rank for rank in range(len(found)) if rank not in found), None)
    if missing is not None or not found:
        raise ConfigError(f"rank {missing or 0} has no place", where=file, mend="give each rank a line")
    places = [found[rank] for rank in range(len(found))]
    return Placement.from_places(places, target.network, target.ranks_per_node)
