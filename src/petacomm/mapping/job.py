"""Job files: TOML descriptions of a job's ranks, communication, machine and mapping options."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from petacomm.base.errors import STOPS, ConfigError, UserError, did_you_mean
from petacomm.base.files import read_text, require_file
from petacomm.base.progress import Progress, SilentProgress
from petacomm.base.toml import KeyLines, parse_toml
from petacomm.base.typing import FloatArray
from petacomm.mapping.comparison import AUTO, MappingTask
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.job_graphs import GraphKind, JobCommunication, graph_kinds
from petacomm.mapping.launchers import LaunchTarget, get_format
from petacomm.mapping.placement import check_capacity
from petacomm.mapping.strategies import Resources, get_strategy
from petacomm.network import Traffic, routed_link_loads
from petacomm.network.query import parse_node_ranges
from petacomm.network.routing import job_capacities, network_routing
from petacomm.topology import (
    Allocation,
    Machine,
    Network,
    TopologyManager,
    Torus,
    load_machine,
    make_network,
    parse_shape,
)
from petacomm.topology.detect import detect_allocation
from petacomm.topology.networks import describes_switches

_SHAPES = ("shape", "children", "parents", "sizes")
_NUMBERS = ("groups", "nodes_per_router", "cables", "supernodes", "q", "leaves", "spines")
# What is a number of some networks and the numbers of each dimension of others.
_EITHER = ("routers",)
_PARTS = ("nodes", "hosts", "wrap", *_NUMBERS, *_EITHER, *_SHAPES)
_MACHINE = ("name", "detect", *_PARTS)
_ANY = "one-node"  # what is not known of a machine that is detected
_MAP = ("strategy", "refine", "seed")
_OUT = ("format", "cores_per_rank", "cores_per_package")
_TOP = ("ranks", "ranks_per_node", "graph", "machine", "map", "out")

Overrides: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class MappingJob:
    """A validated job to be mapped.

    Attributes
    ----------
    graph : CommunicationGraph
        Sum of all phases.
    title : str
        Description of the graph.
    phases : mapping of str to CommunicationGraph
        Graph of each phase.
    machine : Machine
    resources : Site
    capacity : float64 (n_links,) or (n_links + 2 n_nodes,), or None
        Bandwidth of each link in bytes per second, if the machine's file has it, as in `job_capacities`.
    strategy : str
    refine : bool
    seed : int
    routing : str
        Routing by which link loads are measured.
    format : str or None
        Format of the launcher's file.
    target : Target
    """

    graph: CommunicationGraph
    title: str
    phases: Mapping[str, CommunicationGraph]
    machine: Machine
    resources: Resources
    capacity: FloatArray | None
    strategy: str
    refine: bool
    seed: int
    routing: str
    format: str | None
    target: LaunchTarget

    @property
    def task(self) -> MappingTask:
        """Input of the mapping strategies."""
        return MappingTask(self.graph, self.resources, self.capacity, self.seed, self.routing)


def load_mapping_job(
    path: str | Path, overrides: Overrides | None = None, progress: Progress | None = None
) -> MappingJob:
    """Read a job file.

    Parameters
    ----------
    path : path
        A TOML file; docs/petacomm/mapping.md describes its keys.
    overrides : mapping, optional
        Values that replace those of the file: `machine`, `shape`, `strategy`, `refine`, `format`.
    progress : Progress, optional
        Is told of what had to be assumed of a profile or a trace.

    Raises
    ------
    ConfigError
        If the file cannot be read, a key is unknown, missing or wrong, or values are inconsistent; the error
        names the line.
    """
    file = Path(path)
    tree, lines = parse_toml(read_text(file, "give a job as TOML"), str(file))
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    reader = _Reader(file, tree, lines, graph_kinds())
    reader.progress = progress or SilentProgress()
    return reader.job(given)


class JobTable:
    """A table of a job file, with type-checked access to its values and errors that name the line."""

    def __init__(self, file: Path, path: tuple[str, ...], tree: Any, lines: KeyLines) -> None:
        self.file = file
        self.path = path
        self.lines = lines
        if not isinstance(tree, dict):
            raise self.error("", f"'{'.'.join(path)}' must be a table", f"write [{'.'.join(path)}]")
        self.tree = tree
        self.progress: Progress = SilentProgress()  # told of warnings

    def error(self, key: str, what: str, mend: str | None = None) -> ConfigError:
        """Return a ConfigError with the line of a key, or of the table if it has no such key."""
        full = (*self.path, key)
        line = next((self.lines[full[:n]] for n in range(len(full), 0, -1) if full[:n] in self.lines), 1)
        return ConfigError(what, where=f"{self.file}:{line}", mend=mend)

    def check(self, known: Sequence[str]) -> None:
        """Raise a ConfigError unless all keys of the table are known."""
        for key in self.tree:
            if key not in known:
                name = ".".join((*self.path, key))
                raise self.error(key, f"unknown key '{name}'", did_you_mean(key, list(known)))

    def get(self, key: str, kinds: type | tuple[type, ...], default: Any = None) -> Any:
        """Return a value of one of the types, or the default; booleans do not count as numbers."""
        value = self.tree.get(key, default)
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        if value is None or (isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool))):
            return value
        names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
        names |= {list: "a list", dict: "a table"}
        wanted = " or ".join(dict.fromkeys(names[kind] for kind in allowed))
        raise self.error(key, f"'{'.'.join((*self.path, key))}' must be {wanted}")

    def count(self, key: str, default: int | None = None) -> int:
        """Return an integer of 1 or more; raise a ConfigError if it is missing."""
        value = self.get(key, int, default)
        if value is None:
            raise self.error(key, f"'{'.'.join((*self.path, key))}' is missing", f"write {key} = 64")
        if value < 1:
            raise self.error(key, f"'{'.'.join((*self.path, key))}' must be 1 or more")
        return int(value)

    def shape(self, key: str) -> list[int] | None:
        """Return a list of positive integers, written as such or as text like "8x8x8"."""
        value = self.get(key, (list, str))
        if isinstance(value, str):
            try:
                return list(parse_shape(value))
            except ConfigError as error:
                raise self.error(key, error.what, error.mend) from None
        if value is not None and not (value and all(type(item) is int and item > 0 for item in value)):
            raise self.error(key, f"'{'.'.join((*self.path, key))}' must be whole numbers, 1 or more")
        return value

    def resolve_path(self, name: str) -> Path:
        """Return the path of a file named relative to the job file."""
        return self.file.parent / name


class _Reader:
    """Reader of a `MappingJob` from a TOML tree, with errors that name the line."""

    def __init__(
        self, file: Path, tree: dict[str, Any], lines: KeyLines, kinds: Mapping[str, GraphKind]
    ) -> None:
        self.top = JobTable(file, (), tree, lines)
        self.progress: Progress = SilentProgress()
        self.kinds = kinds
        self.top.check(_TOP)

    def table(self, name: str, known: Sequence[str] = ()) -> JobTable:
        """Return a table; if keys are given, check that it has no others."""
        table = JobTable(self.top.file, (name,), self.top.tree.get(name, {}), self.top.lines)
        if known:
            table.check(known)
        return table

    def job(self, given: dict[str, Any]) -> MappingJob:
        found = self._allocation(given)
        n_ranks = self.top.count("ranks", found.n_ranks if found else None)
        ranks_per_node = self.top.count("ranks_per_node", found.ranks_per_node if found else 1)
        chosen = self._map(given)
        machine, network, hosts = self._detected(found) if found else self._machine(given)
        out_format, target = self._out(given, network, ranks_per_node, hosts)
        if out_format is not None and get_format(out_format).fills_nodes:
            target = _first_nodes(target, n_ranks)
            network = target.network
        resources: Resources = self._within("ranks_per_node", lambda: Resources(network, ranks_per_node))
        self._within("ranks", lambda: check_capacity(n_ranks, network, ranks_per_node))
        communication = self._graph(n_ranks)
        graph = communication.graph
        if graph.n_ranks != n_ranks:
            what = f"{n_ranks} ranks, and the graph has {graph.n_ranks}"
            raise self.top.error("ranks", what, f"write ranks = {graph.n_ranks}")
        capacity = job_capacities(machine, network)
        title, phases = communication.title, communication.phases
        routing = self._within("name", lambda: _routing(machine, network), self.table("machine"))
        return MappingJob(
            graph, title, phases, machine, resources, capacity, *chosen, routing, out_format, target
        )

    def _within(self, key: str, action: Callable[[], Any], table: JobTable | None = None) -> Any:
        """Return the result of an action; its errors are reported at the line of a key."""
        try:
            return action()
        except STOPS:
            raise
        except UserError as error:
            if error.where is not None:
                raise
            raise (table or self.top).error(key, error.what, error.mend) from None

    def _map(self, given: dict[str, Any]) -> tuple[str, bool, int]:
        table = self.table("map", _MAP)
        name = given.get("strategy", table.get("strategy", str, AUTO))
        if name != AUTO:
            self._within("strategy", lambda: get_strategy(name), table)
        seed = table.get("seed", int, 0)
        if not 0 <= seed < 2**32:
            raise table.error("seed", f"a seed of {seed}", "give one from 0 to 4,294,967,295")
        return name, given.get("refine", table.get("refine", bool, True)), seed

    def _allocation(self, given: dict[str, Any]) -> TopologyManager | None:
        """Return where the job runs that this process is part of, if that is to be found out."""
        table = self.table("machine", _MACHINE)
        if not table.get("detect", bool, False):
            return None
        told = [f"machine.{key}" for key in _PARTS if key in table.tree]
        told += [f"--{key}" for key in ("machine", "shape") if key in given]
        if told:
            raise table.error("detect", f"'machine.detect' and '{told[0]}'", "give one of them")
        found: TopologyManager = self._within("detect", detect_allocation, table)
        return found

    def _detected(self, found: TopologyManager) -> tuple[Machine, Network, list[str] | None]:
        """Return machine, nodes in the order of ranks, and their hosts."""
        name = self.table("machine").get("name", str)
        if name is None:
            title = f"this job, by {found.source}"
            machine = dataclasses.replace(load_machine(_ANY), name="detected", title=title, network={})
        else:
            machine = self._within("name", lambda: load_machine(name), self.table("machine"))
            if not _describes(machine, found.network):
                machine = dataclasses.replace(machine, network={})
        firsts = np.sort(np.unique(found.nodes, return_index=True)[1])
        hosts = None if found.hosts is None else [found.hosts[rank] for rank in firsts.tolist()]
        return machine, Allocation(found.network, found.nodes[firsts]), hosts

    def _machine(self, given: dict[str, Any]) -> tuple[Machine, Network, list[str] | None]:
        table = self.table("machine", _MACHINE)
        name = given.get("machine", table.get("name", str))
        if name is None:
            raise table.error(
                "name", "no machine", 'write name = "bluegene-l" in [machine], or give --machine'
            )
        machine = self._within("name", lambda: load_machine(str(name)), table)
        numbers = {key: table.shape(key) for key in _SHAPES} | {key: table.get(key, int) for key in _NUMBERS}
        numbers |= {key: table.get(key, (int, list)) for key in _EITHER}
        numbers["wrap"] = table.get("wrap", (bool, list))
        if "shape" in given:
            numbers["shape"] = list(parse_shape(given["shape"]))
        overrides = {key: value for key, value in numbers.items() if value is not None}
        key = "shape" if "shape" in overrides else next(iter(overrides), "name")
        network = self._within(key, lambda: make_network(machine, **overrides), table)
        nodes = table.get("nodes", str)
        if nodes is not None:
            network = self._within("nodes", lambda: Allocation(network, parse_node_ranges(nodes)), table)
        return machine, network, self._hosts(table)

    def _hosts(self, table: JobTable) -> list[str] | None:
        hosts: Any = table.get("hosts", (list, str))
        if isinstance(hosts, str):
            path = table.resolve_path(hosts)
            try:
                return require_file(path).read_text(encoding="utf-8").split()
            except (OSError, UnicodeDecodeError):
                raise table.error("hosts", f"{path} cannot be read", "name a file of hosts") from None
        if hosts is not None and not all(isinstance(host, str) for host in hosts):
            raise table.error("hosts", "'machine.hosts' must be names", "or the file that has them")
        return None if hosts is None else list(hosts)

    def _out(
        self, given: dict[str, Any], network: Network, ranks_per_node: int, hosts: list[str] | None
    ) -> tuple[str | None, LaunchTarget]:
        table = self.table("out", _OUT)
        name = given.get("format", table.get("format", str))
        if name is not None:
            launcher = self._within("format", lambda: get_format(name), table)
            if launcher.needs_hosts and hosts is None:
                what = f"the file of '{name}' names hosts, and none are given"
                raise table.error("format", what, "write hosts or detect = true in [machine]")
        cores, package = table.count("cores_per_rank", 1), table.get("cores_per_package", int)
        machine = self.table("machine")
        self._within("hosts", lambda: LaunchTarget(network, ranks_per_node, hosts), machine)

        def target() -> LaunchTarget:
            return LaunchTarget(network, ranks_per_node, hosts, cores, package)

        return name, self._within("cores_per_rank", target, table)

    def _graph(self, n_ranks: int) -> JobCommunication:
        table = self.table("graph")
        kinds = [key for key in table.tree if key in self.kinds]
        if not kinds:
            table.check(list(self.kinds))
        if len(kinds) != 1:
            what = f"'{kinds[0]}' and '{kinds[1]}' in [graph]" if kinds else "no graph"
            raise table.error(
                kinds[-1] if kinds else "", what, f"give one of: {', '.join(sorted(self.kinds))}"
            )
        source = self.kinds[kinds[0]]
        table.check([kinds[0], *source.options])
        table.progress = self.progress
        communication: JobCommunication = self._within(kinds[0], lambda: source.build(table, n_ranks), table)
        return communication


def _first_nodes(target: LaunchTarget, n_ranks: int) -> LaunchTarget:
    """Return the nodes that a job of some ranks fills, in their order."""
    n_nodes = -(-n_ranks // target.ranks_per_node)
    if n_nodes >= target.network.n_nodes:
        return target
    hosts = None if target.hosts is None else target.hosts[:n_nodes]
    return dataclasses.replace(target, network=Allocation(target.network, np.arange(n_nodes)), hosts=hosts)


def _describes(machine: Machine, network: Network) -> bool:
    """Return whether the links of a machine's file are of the kind of a network that was detected."""
    if isinstance(network, Torus):
        return machine.network.get("kind") in ("torus", "mesh")
    return describes_switches(machine) and type(make_network(machine)) is type(network)


def _routing(machine: Machine, network: Network) -> str:
    """Return the routing of a machine's file; raise a ConfigError if it has no meaning on the network."""
    routing = network_routing(machine, network)
    routed_link_loads(network, Traffic([], [], []), routing)
    return routing
