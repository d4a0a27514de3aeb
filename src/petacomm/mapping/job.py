"""A job to be mapped, from a TOML file: how many ranks, who sends how much to whom, on which machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from petacomm.base.errors import ConfigError, UserError, did_you_mean
from petacomm.base.toml import Lines, parse
from petacomm.base.typing import FloatArray
from petacomm.mapping.comparison import AUTO, Task
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.job_graphs import Communication, GraphKind, graph_kinds
from petacomm.mapping.launchers import Target, format_of
from petacomm.mapping.strategies import Site, check_room, strategy
from petacomm.network.bluegene_wires import network_number
from petacomm.topology import (
    Allocation,
    CliqueHierarchy,
    Machine,
    Network,
    load_machine,
    network_of,
    parse_shape,
)

_SHAPES = ("shape", "children", "parents", "sizes")
_MACHINE = ("name", "nodes", "hosts", "wrap", "groups", "routers", "nodes_per_router", "supernodes", *_SHAPES)
_MAP = ("strategy", "refine", "seed")
_OUT = ("format", "cores_per_rank", "cores_per_package")
_TOP = ("ranks", "ranks_per_node", "graph", "machine", "map", "out")

Overrides: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """A job, judged: everything in it fits.

    Attributes
    ----------
    graph : CommunicationGraph
        All phases together.
    title : str
        What the graph is.
    phases : mapping of str to CommunicationGraph
        Its parts, one or more.
    machine : Machine
    site : Site
    capacity : float64 (n_links,) or None
        Bytes a second of each link, where the machine's file says it.
    strategy : str
    refine : bool
    seed : int
    format : str or None
        Of the launcher's file.
    target : Target
    """

    graph: CommunicationGraph
    title: str
    phases: Mapping[str, CommunicationGraph]
    machine: Machine
    site: Site
    capacity: FloatArray | None
    strategy: str
    refine: bool
    seed: int
    format: str | None
    target: Target

    @property
    def task(self) -> Task:
        """What strategies are given."""
        return Task(self.graph, self.site, self.capacity, self.seed)


def load_job(path: str | Path, overrides: Overrides | None = None) -> Job:
    """Read a job.

    Parameters
    ----------
    path : path
        A TOML file; docs/mapping.md has its keys.
    overrides : mapping, optional
        Values that come before those of the file: `machine`, `shape`, `strategy`, `refine`, `format`.

    Raises
    ------
    ConfigError
        If the file cannot be read, a key is unknown, missing or wrong, or things do not fit: one error, with
        the line.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"cannot be read: {reason}", where=str(file), mend="give a job as TOML") from None
    tree, lines = parse(text, str(file))
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    return _Reader(file, tree, lines, graph_kinds()).job(given)


class Table:
    """A table of the file: values by key, of the type that is asked for, and errors with the line."""

    def __init__(self, file: Path, path: tuple[str, ...], tree: Any, lines: Lines) -> None:
        self.file = file
        self.path = path
        self.lines = lines
        if not isinstance(tree, dict):
            raise self.error("", f"'{'.'.join(path)}' must be a table", f"write [{'.'.join(path)}]")
        self.tree = tree

    def error(self, key: str, what: str, mend: str | None = None) -> ConfigError:
        """Return an error at a key, or at the table where it is not there."""
        whole = (*self.path, key)
        line = next((self.lines[whole[:n]] for n in range(len(whole), 0, -1) if whole[:n] in self.lines), 1)
        return ConfigError(what, where=f"{self.file}:{line}", mend=mend)

    def check(self, known: Sequence[str]) -> None:
        """Raise unless all keys are known."""
        for key in self.tree:
            if key not in known:
                name = ".".join((*self.path, key))
                raise self.error(key, f"unknown key '{name}'", did_you_mean(key, list(known)))

    def get(self, key: str, kinds: type | tuple[type, ...], default: Any = None) -> Any:
        """Return a value of one of the types, or the default; true and false are no numbers."""
        value = self.tree.get(key, default)
        allowed = kinds if isinstance(kinds, tuple) else (kinds,)
        if value is None or (isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool))):
            return value
        names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", list: "a list"}
        wanted = " or ".join(dict.fromkeys(names[kind] for kind in allowed))
        raise self.error(key, f"'{'.'.join((*self.path, key))}' must be {wanted}")

    def count(self, key: str, default: int | None = None) -> int:
        """Return a whole number, 1 or more."""
        value = self.get(key, int, default)
        if value is None:
            raise self.error(key, f"'{'.'.join((*self.path, key))}' is missing", f"write {key} = 64")
        if value < 1:
            raise self.error(key, f"'{'.'.join((*self.path, key))}' must be 1 or more")
        return int(value)

    def shape(self, key: str) -> list[int] | None:
        """Return whole numbers, as a list or like "8x8x8"."""
        value = self.get(key, (list, str))
        if isinstance(value, str):
            try:
                return list(parse_shape(value))
            except ConfigError as error:
                raise self.error(key, error.what, error.mend) from None
        if value is not None and not (value and all(type(item) is int and item > 0 for item in value)):
            raise self.error(key, f"'{'.'.join((*self.path, key))}' must be whole numbers, 1 or more")
        return value

    def near(self, name: str) -> Path:
        """Return the path of a file that is named relative to this one."""
        return self.file.parent / name


class _Reader:
    """Makes a `Job` of a TOML tree, or says which line is wrong."""

    def __init__(
        self, file: Path, tree: dict[str, Any], lines: Lines, kinds: Mapping[str, GraphKind]
    ) -> None:
        self.top = Table(file, (), tree, lines)
        self.kinds = kinds
        self.top.check(_TOP)

    def table(self, name: str) -> Table:
        return Table(self.top.file, (name,), self.top.tree.get(name, {}), self.top.lines)

    def job(self, given: dict[str, Any]) -> Job:
        n_ranks = self.top.count("ranks")
        ranks_per_node = self.top.count("ranks_per_node", 1)
        chosen = self._map(given)
        machine, network, hosts = self._machine(given)
        out_format, target = self._out(given, network, ranks_per_node, hosts)
        site: Site = self._within("ranks_per_node", lambda: Site(network, ranks_per_node))
        self._within("ranks", lambda: check_room(n_ranks, site))
        communication = self._graph(n_ranks)
        graph = communication.graph
        if graph.n_ranks != n_ranks:
            raise self.top.error("ranks", f"{n_ranks} ranks, and the graph has {graph.n_ranks}")
        capacity = capacity_of(machine, network)
        title, phases = communication.title, communication.phases
        return Job(graph, title, phases, machine, site, capacity, *chosen, out_format, target)

    def _within(self, key: str, action: Callable[[], Any], table: Table | None = None) -> Any:
        """Do something whose errors are those of a key."""
        try:
            return action()
        except UserError as error:
            if error.where is not None:
                raise
            raise (table or self.top).error(key, error.what, error.mend) from None

    def _map(self, given: dict[str, Any]) -> tuple[str, bool, int]:
        table = self.table("map")
        table.check(_MAP)
        name = given.get("strategy", table.get("strategy", str, AUTO))
        if name != AUTO:
            self._within("strategy", lambda: strategy(name), table)
        seed = table.get("seed", int, 0)
        if not 0 <= seed < 2**32:
            raise table.error("seed", f"a seed of {seed}", "give one from 0 to 4,294,967,295")
        return name, given.get("refine", table.get("refine", bool, True)), seed

    def _machine(self, given: dict[str, Any]) -> tuple[Machine, Network, list[str] | None]:
        table = self.table("machine")
        table.check(_MACHINE)
        name = given.get("machine", table.get("name", str))
        if name is None:
            raise table.error(
                "name", "no machine", 'write name = "bluegene-l" in [machine], or give --machine'
            )
        machine = self._within("name", lambda: load_machine(str(name)), table)
        numbers = {key: table.shape(key) for key in _SHAPES} | {
            key: table.get(key, int) for key in ("groups", "routers", "nodes_per_router", "supernodes")
        }
        numbers["wrap"] = table.get("wrap", (bool, list))
        if "shape" in given:
            numbers["shape"] = list(parse_shape(given["shape"]))
        said = {key: value for key, value in numbers.items() if value is not None}
        network = self._within("shape", lambda: network_of(machine, **said), table)
        nodes = table.get("nodes", str)
        if nodes is not None:
            network = self._within("nodes", lambda: Allocation(network, _node_list(nodes)), table)
        return machine, network, self._hosts(table)

    def _hosts(self, table: Table) -> list[str] | None:
        hosts: Any = table.get("hosts", (list, str))
        if isinstance(hosts, str):
            path = table.near(hosts)
            try:
                return path.read_text(encoding="utf-8").split()
            except (OSError, UnicodeDecodeError):
                raise table.error("hosts", f"{path} cannot be read", "name a file of hosts") from None
        if hosts is not None and not all(isinstance(host, str) for host in hosts):
            raise table.error("hosts", "'machine.hosts' must be names", "or the file that has them")
        return None if hosts is None else list(hosts)

    def _out(
        self, given: dict[str, Any], network: Network, ranks_per_node: int, hosts: list[str] | None
    ) -> tuple[str | None, Target]:
        table = self.table("out")
        table.check(_OUT)
        name = given.get("format", table.get("format", str))
        if name is not None:
            self._within("format", lambda: format_of(name), table)
        cores, package = table.count("cores_per_rank", 1), table.get("cores_per_package", int)

        def target() -> Target:
            return Target(network, ranks_per_node, hosts, cores, package)

        return name, self._within("cores_per_rank", target, table)

    def _graph(self, n_ranks: int) -> Communication:
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
        found: Communication = self._within(kinds[0], lambda: source.make(table, n_ranks), table)
        return found


def _node_list(text: str) -> Any:
    """Read "0-15,32-47"."""
    from petacomm.network.query import read_nodes

    return read_nodes(text)


def capacity_of(machine: Machine, network: Network) -> FloatArray | None:
    """Return the bytes a second of each link, float64 (n_links,), or None where the file does not say it.

    `link_bandwidth` is that of all links; of cliques `level_bandwidths` are those of each level, from the
    smallest cliques up.
    """
    whole = network
    while isinstance(whole, Allocation):
        whole = whole.network
    levels = machine.network.get("level_bandwidths")
    if isinstance(whole, CliqueHierarchy) and isinstance(levels, list) and len(levels) == len(whole.levels):
        numbers = []
        for level in levels:
            part = dataclasses.replace(machine, network={"level_bandwidths": level})
            numbers.append(network_number(part, "level_bandwidths", "bandwidth"))
        return np.array(numbers)[whole.link_levels()]
    if "link_bandwidth" not in machine.network:
        return None
    return np.full(network.n_links, network_number(machine, "link_bandwidth", "bandwidth"))
