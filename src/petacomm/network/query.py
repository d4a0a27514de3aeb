"""Queries about a collective on a machine, as given on the command line, and their validation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from petacomm.base.arguments import require_integer, require_text
from petacomm.base.errors import ConfigError, require_known
from petacomm.base.typing import Int64Array
from petacomm.base.units import parse_quantity
from petacomm.network.bluegene_wires import network_number
from petacomm.network.hardware import make_hardware
from petacomm.network.predictions import AUTO, NetworkModel
from petacomm.schedule import CollectiveCall, communicator_grid, list_algorithms, partition_call
from petacomm.schedule.catalogue import PUBLISHED
from petacomm.schedule.schedule import Collective, check_n_ranks
from petacomm.topology import (
    Allocation,
    BlueGenePartition,
    Machine,
    Network,
    NodeMode,
    bluegene_partition,
    describes_switches,
    load_machine,
    machine_torus,
    make_network,
    parse_shape,
)

COLLECTIVES = ("broadcast", "reduce", "allreduce", "alltoall", "barrier")
_ITEM_SIZES = {"double": 8, "int": 4}
_LONGEST = 40  # characters of a number without a unit


@dataclass(frozen=True)
class CollectiveQuery:
    """A query about a collective on a machine, with the options of the command line.

    Parameters
    ----------
    collective, machine : str
    shape : str, optional
        Shape of the partition, like "8x8x8".
    ranks : int, optional
        Number of ranks of a call without a shape, each on a node; with a shape, it must be equal to their
        number.
    n_bytes : int, optional
        Bytes of the vector; in an all-to-all, from each rank to each. None for a barrier.
    element_type : str
        Type of the elements that are reduced: ``double`` or ``int``.
    root : int
    nodes : str, optional
        Nodes of a sub-communicator, like "0-15,32-47".
    mode : str
        Mode of BlueGene/L's nodes: ``coprocessor``, ``virtual-node`` or ``heater``.
    algorithm : str
        Name of an algorithm; ``auto``, for the lowest predicted time; or ``published``, for the published
        switching points.

    Examples
    --------
    >>> import petacomm
    >>> call, model = petacomm.CollectiveQuery("barrier", "bluegene-l", shape="4x4x4").resolve()
    >>> call.n_ranks
    64
    """

    collective: str
    machine: str
    shape: str | None = None
    ranks: int | None = None
    n_bytes: int | None = None
    element_type: str = "double"
    root: int = 0
    nodes: str | None = None
    mode: str = NodeMode.COPROCESSOR.value
    algorithm: str = AUTO

    def resolve(self) -> tuple[CollectiveCall, NetworkModel]:
        """Return the call, and the model of the network on which it runs.

        Returns
        -------
        call : CollectiveCall
        model : NetworkModel

        Raises
        ------
        ConfigError
            If the options are wrong or inconsistent.
        """
        collective = self._collective()
        n_elements, itemsize = self._elements()
        self._check_types()
        if self.ranks is not None:
            check_n_ranks(self.ranks)
        machine = load_machine(self.machine)
        given = {"itemsize": itemsize, "integer": self.element_type == "int", "root": self.root}
        if self.shape is None:
            return self._without_shape(collective, machine, n_elements, given)
        partition = _make_partition(machine, parse_shape(self.shape), self.mode)
        # Where nothing is said of packets, times are those of latencies and links.
        hardware = make_hardware(machine) if "packet" in machine.network else None
        if self.nodes is not None:
            # Ranks are in the order of the rectangle: rank r is its node r.
            grid, _ = communicator_grid(partition.grid, parse_node_ranges(self.nodes))
            call = CollectiveCall(collective, grid.n_nodes, n_elements, grid=grid, **given)  # type: ignore[arg-type]
        else:
            call = partition_call(partition, collective, n_elements, **given)
            if "tree_bandwidth" not in machine.network:
                call = CollectiveCall(collective, call.n_ranks, n_elements, grid=call.grid, **given)  # type: ignore[arg-type]
        if self.ranks not in (None, call.n_ranks):
            raise ConfigError(
                f"{self.nodes or self.shape} has {call.n_ranks} ranks, and --ranks says {self.ranks}",
                mend="give a shape whose product is the number of ranks",
            )
        return call, NetworkModel(machine, hardware, network_number(machine, "link_bandwidth", "bandwidth"))

    def _check_types(self) -> None:
        require_integer(self.root, "root", 0)
        if self.ranks is not None:
            require_integer(self.ranks, "ranks", 1)
        if self.shape is not None:
            require_text(self.shape, "shape", 'write it like "8x8x8"')
        if self.nodes is not None:
            require_text(self.nodes, "nodes", 'write them like "0-15,32-47"')

    def _without_shape(
        self, collective: Collective, machine: Machine, n_elements: int, given: dict[str, int]
    ) -> tuple[CollectiveCall, NetworkModel]:
        if self.nodes is not None:
            raise ConfigError("--nodes without --shape", mend="say of which shape they are nodes")
        if self.ranks is None:
            raise ConfigError("neither --shape nor --ranks", mend="give --shape 8x8x8, or --ranks 512")
        _require_nodes(machine, self.ranks)
        _require_plain_mode(machine, self.mode)
        call = CollectiveCall(collective, self.ranks, n_elements, **given)  # type: ignore[arg-type]
        network = _switched_part(machine, self.ranks)
        return call, NetworkModel(machine, None, machine.bandwidth, network)

    def _collective(self) -> Collective:
        require_known("unknown collective", self.collective, COLLECTIVES)
        collective = cast(Collective, self.collective)
        algorithms = [AUTO, PUBLISHED, *(algorithm.name for algorithm in list_algorithms(collective))]
        require_known(f"there is no {collective}", self.algorithm, algorithms)
        require_known("unknown type", self.element_type, _ITEM_SIZES)
        require_known("unknown mode", self.mode, [mode.value for mode in NodeMode])
        return collective

    def _elements(self) -> tuple[int, int]:
        """Return the number of elements of the call and the bytes of each."""
        if self.collective == "barrier":
            if self.n_bytes is not None:
                raise ConfigError("a barrier carries no bytes", mend="leave them out")
            return 0, 1
        if self.n_bytes is None:
            raise ConfigError("--bytes is missing", mend="give --bytes 1024")
        if require_integer(self.n_bytes, "n_bytes", -(2**63), 2**80) < 1:
            raise ConfigError(f"{self.collective} of {self.n_bytes} bytes", mend="give 1 or more")
        itemsize = _ITEM_SIZES[self.element_type] if self.collective in ("reduce", "allreduce") else 1
        if self.n_bytes % itemsize:
            raise ConfigError(
                f"{self.n_bytes} bytes are not whole elements of {itemsize} bytes",
                mend=f"give a multiple of {itemsize}, or another --type",
            )
        return self.n_bytes // itemsize, itemsize


def parse_bytes(text: str) -> int:
    """Return the number of bytes in a text such as "1024", "64 kB" or "1 MiB"."""
    if text.strip().lstrip("-").isdecimal() and len(text) < _LONGEST:
        return int(text)
    number = parse_quantity(text, "bytes")
    if not math.isfinite(number):
        raise ConfigError(f"'{text}' are no bytes", mend="give a finite number")
    return round(number)


def _require_nodes(machine: Machine, n_ranks: int) -> None:
    """Raise a ConfigError if a machine with a network has no node for each rank."""
    if n_ranks > machine.nodes and machine.network.get("kind", "none") != "none":
        raise ConfigError(
            f"{n_ranks:,} ranks, each on a node of its own, and {machine.name} has {machine.nodes:,} nodes",
            mend=f"give --ranks {machine.nodes} or fewer, or a file of a larger machine",
        )


def _require_plain_mode(machine: Machine, mode: str) -> None:
    """Raise a ConfigError for a mode of BlueGene's nodes where there are none, or each rank has a node."""
    if mode != NodeMode.COPROCESSOR.value:
        raise ConfigError(
            f"mode '{mode}' says nothing of {machine.name}", mend="give it with a --shape of BlueGene's nodes"
        )


def _switched_part(machine: Machine, n_ranks: int) -> Network | None:
    """Return the first nodes of a machine's network of switches, one a rank; None where it has no map."""
    if not describes_switches(machine):
        return None
    network = make_network(machine)
    if n_ranks == network.n_nodes:
        return network
    return Allocation(network, np.arange(n_ranks)) if n_ranks < network.n_nodes else None


def _make_partition(machine: Machine, shape: tuple[int, ...], mode: str) -> BlueGenePartition:
    if "torus_unit" in machine.network:
        return bluegene_partition(machine, shape, NodeMode(mode))
    kind = machine.network.get("kind")
    if kind not in ("torus", "mesh"):
        raise ConfigError(f"machine '{machine.name}' is a {kind}, not a torus", mend="give --ranks instead")
    _require_plain_mode(machine, mode)
    grid = machine_torus(machine, shape)
    if grid.n_nodes > machine.nodes:
        raise ConfigError(f"a shape of {grid.n_nodes} nodes", mend=f"{machine.name} has {machine.nodes}")
    return BlueGenePartition(grid)


def parse_node_ranges(text: str) -> Int64Array:
    """Return the numbers in a text such as "0-15,32-47": int64."""
    chosen = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first + last) > 18:
            raise ConfigError(f"'{part}' is not a range of nodes", mend='write them like "0-15,32-47"')
        end = int(last) if dash else int(first)
        if end < int(first):
            raise ConfigError(f"'{part}' ends before it begins", mend='write it like "0-15"')
        if end - int(first) > 1 << 24:
            raise ConfigError(f"'{part}' are more than 2^24 nodes", mend="give fewer")
        chosen.append(np.arange(int(first), end + 1))
    return np.concatenate(chosen)
