"""Interface of networks, and the network of a machine made from its description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from petacomm.base.arguments import require_instance
from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.typing import Int64Array
from petacomm.topology.machine import Machine
from petacomm.topology.router_networks import DragonflyPlus, HyperX, RouterNetwork, SlimFly
from petacomm.topology.switched import CliqueHierarchy, CliqueLevel, FatTree, dragonfly, percs
from petacomm.topology.torus import Torus


class Network(Protocol):
    """Interface of all networks: numbered nodes and directed links, hops and routes."""

    n_nodes: int
    n_links: int

    def hops(self, a: npt.ArrayLike, b: npt.ArrayLike) -> Int64Array:
        """Return the number of links between nodes: int64."""

    def route(self, a: int, b: int) -> Int64Array:
        """Return the links from one node to another, in order: int64 (hops,)."""


def require_network(network: Network, name: str = "network") -> None:
    """Raise a ConfigError unless an argument is a network."""
    if not (hasattr(network, "n_nodes") and hasattr(network, "n_links")):
        what = f"must be a network, not {type(network).__name__}"
        raise ConfigError(what, where=name, mend="give a Torus, or one of make_network(load_machine(...))")


def network_shape(network: Network) -> tuple[int, ...]:
    """Return the dimensions of a network in the order of its node numbers, the last one running fastest.

    Those of a switched network are the members of each level, from the top.
    """
    if isinstance(network, Torus | RouterNetwork):
        return network.shape
    if isinstance(network, FatTree):
        return network.children[::-1]
    if isinstance(network, CliqueHierarchy):
        sizes = tuple(level.size for level in reversed(network.levels))
        return (*sizes, network.nodes_per_vertex) if network.nodes_per_vertex > 1 else sizes
    return (network.n_nodes,)


_MACHINE = "give one of load_machine"
_KINDS = {
    "torus": ("shape",),
    "mesh": ("shape",),
    "fat tree": ("children", "parents"),
    "dragonfly": ("groups", "routers", "nodes_per_router"),
    "percs": ("supernodes",),
    "cliques": ("sizes",),
    "hyperx": ("routers", "nodes_per_router"),
    "slim fly": ("q",),
    "dragonfly+": ("groups", "leaves", "spines", "nodes_per_router"),
}
_WITHOUT_MAP = ("none", "hypercube")
# More that some of these can be given.
_OPTIONAL = {
    "torus": ("wrap",),
    "mesh": ("wrap",),
    "dragonfly": ("cables", "arrangement"),
    "hyperx": ("cables",),
    "slim fly": ("nodes_per_router",),
    "dragonfly+": ("cables",),
}


def describes_switches(machine: Machine) -> bool:
    """Return whether a machine's file describes all links of a network of switches."""
    kind = machine.network.get("kind")
    if kind in ("torus", "mesh") or kind not in _KINDS:
        return False
    return all(key in machine.network for key in _KINDS[str(kind)])


def machine_torus(machine: Machine, shape: Sequence[int], wrap: bool | Sequence[bool] | None = None) -> Torus:
    """Return the grid that nodes of a machine form: a torus, a mesh, or a mixture of both.

    Parameters
    ----------
    machine : Machine
        Its table `network` says which dimensions are rings. With `torus_unit`, all are if the shape consists
        of whole units, else none. With `wrap`, those that it says: true, false or one of these for each
        dimension, which counts for shapes of as many dimensions; or "whole", those of which the shape has all
        nodes of the machine. Else all of a torus, and none of a mesh.
    shape : sequence of int
        Nodes in each dimension.
    wrap : bool or sequence of bool, optional
        Which dimensions are rings, whatever the file says.

    Returns
    -------
    Torus

    Raises
    ------
    ConfigError
        If the shape does not fit the dimensions of the file, or `wrap` is none of these.
    """
    if wrap is not None:
        return Torus(shape, wrap)
    unit, wraps = machine.network.get("torus_unit"), machine.network.get("wrap")
    if unit is not None:
        _require_dimensions(machine, shape, unit)
        return Torus(shape, all(size % block == 0 for size, block in zip(shape, unit, strict=True)))
    if wraps == "whole":
        full = machine.network.get("shape", ())
        _require_dimensions(machine, shape, full)
        return Torus(shape, [size == whole for size, whole in zip(shape, full, strict=True)])
    if isinstance(wraps, bool) or (isinstance(wraps, list) and len(wraps) == len(shape)):
        return Torus(shape, wraps)
    if not isinstance(wraps, list | None):
        what = f"'network.wrap' of machine '{machine.name}' is {wraps!r}"
        raise ConfigError(what, mend='write true, false, [true, false, true] or "whole"')
    return Torus(shape, machine.network.get("kind") == "torus")


def _require_dimensions(machine: Machine, shape: Sequence[int], known: Any) -> None:
    """Raise a ConfigError unless a shape has as many dimensions as a list of the machine's file."""
    if not isinstance(known, list) or len(known) != len(shape):
        has = len(known) if isinstance(known, list) else "unknown ones"
        raise ConfigError(f"a partition of {len(shape)} dimensions", mend=f"{machine.name} has {has}")


def make_network(machine: Machine, **overrides: Any) -> Network:
    """Return the network of a machine.

    Parameters
    ----------
    machine : Machine
        Its table `network` has a `kind`: torus or mesh with `shape`, whose rings are those of
        `machine_torus`; fat tree with `children` and `parents`;
        dragonfly with `groups`, `routers` and `nodes_per_router`, `cables` of each pair of groups and their
        `arrangement`; percs with `supernodes`; cliques with `sizes`, from the smallest up.
    **overrides
        Entries that replace those of the file, e.g. the shape of a part of the machine.

    Returns
    -------
    Network

    Raises
    ------
    ConfigError
        If the kind is not among these, or a number is missing or wrong, or one is given that such a network
        does not have.

    Examples
    --------
    >>> import petacomm
    >>> network = petacomm.make_network(petacomm.load_machine("bluegene-l"), shape=[8, 8, 8])
    >>> network.n_nodes
    512
    """
    require_instance(machine, "machine", Machine, _MACHINE)
    table = {**machine.network, **overrides}
    kind = table.get("kind")
    if kind not in _KINDS:
        raise ConfigError(
            f"machine '{machine.name}' has a network of kind '{kind}', which has no map of its links",
            mend=f"choose a machine with one: {', '.join(_KINDS)}"
            if kind in _WITHOUT_MAP
            else did_you_mean(str(kind), list(_KINDS)),
        )
    _require_entries(machine, kind, overrides)
    numbers = [_number(machine, table, key) for key in _KINDS[kind]]
    if kind in ("torus", "mesh"):
        wrap = overrides.get("wrap", kind == "torus" if "kind" in overrides else None)
        return machine_torus(machine, numbers[0], wrap)
    given = [key for key in ("cables", "nodes_per_router") if key in table]
    optional: dict[str, Any] = {key: _number(machine, table, key) for key in given}
    return _MAKERS[kind](numbers, table, optional)


def _require_entries(machine: Machine, kind: str, given: Mapping[str, Any]) -> None:
    """Raise a ConfigError if one of the given entries says nothing of networks of a kind."""
    known = [*_KINDS[kind], *_OPTIONAL.get(kind, ())]
    for key in given:
        if key not in (*known, "kind"):
            what = f"'{key}' says nothing of the {kind} of machine '{machine.name}'"
            parts = ", ".join(one for one in known if one != "arrangement")
            raise ConfigError(what, mend=f"leave it away; of a part of it say {parts}")


def _make_dragonfly(numbers: Any, table: Mapping[str, Any], optional: Mapping[str, Any]) -> Network:
    groups, routers, nodes_per_router = numbers
    arrangement = table.get("arrangement", "round-robin")
    return dragonfly(groups, routers, nodes_per_router, optional.get("cables", 1), arrangement)


def _chosen(optional: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {key: optional[key]} if key in optional else {}


# Networks of switches by their kind: functions of the required numbers, the table of the file, and the
# optional numbers.
_MAKERS: dict[str, Callable[[Any, Mapping[str, Any], Mapping[str, Any]], Network]] = {
    "fat tree": lambda numbers, *_: FatTree(*numbers),
    "dragonfly": _make_dragonfly,
    "percs": lambda numbers, *_: percs(*numbers),
    "cliques": lambda numbers, *_: CliqueHierarchy([CliqueLevel(size, True) for size in numbers[0]]),
    "hyperx": lambda numbers, _, optional: HyperX(*numbers, **_chosen(optional, "cables")),
    "slim fly": lambda numbers, _, optional: SlimFly(*numbers, **_chosen(optional, "nodes_per_router")),
    "dragonfly+": lambda numbers, _, optional: DragonflyPlus(*numbers, **_chosen(optional, "cables")),
}


def _number(machine: Machine, table: dict[str, Any], key: str) -> Any:
    value = table.get(key)
    is_list = key in ("shape", "children", "parents", "sizes") or (
        table.get("kind") == "hyperx" and (key == "routers" or isinstance(value, list | tuple))
    )
    items: Sequence[Any] = value if isinstance(value, list | tuple) and is_list else [value]
    if isinstance(value, list | tuple) != is_list or not all(
        type(item) is int and item > 0 for item in items
    ):
        example = "[8, 8, 8]" if is_list else "8"
        raise ConfigError(
            f"'network.{key}' of machine '{machine.name}' is missing"
            if key not in table
            else f"'network.{key}' of machine '{machine.name}' must be whole numbers, 1 or more",
            mend=f"write {key} = {example}",
        )
    return value
