"""Machine descriptions: one TOML file per machine, each number with its unit and its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from petacomm.base.arguments import require_text
from petacomm.base.display import Displayed
from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.files import read_text
from petacomm.base.toml import KeyLines, parse_toml
from petacomm.base.units import parse_quantity

_FOLDER = Path(__file__).parent / "machines"


@dataclass(frozen=True, repr=False)
class Machine(Displayed):
    """Performance parameters of the nodes and the network of a machine.

    Attributes
    ----------
    name, title : str
        Name of the machine's file, and a descriptive title.
    nodes, sockets_per_node, cores_per_socket : int
    latency : float
        Latency of a message between nodes, in seconds.
    bandwidth : float
        Bandwidth of one message between nodes, in bytes per second.
    memory_bandwidth : float
        Bandwidth at which all cores of a node read and write memory at the same time, in bytes per second.
    node_bandwidth : float
        Injection bandwidth of a node, in bytes per second. By default `bandwidth`: its ranks share the
        bandwidth of one message.
    local_latency : float
        Latency of a message within a node, in seconds. By default 0.5 us.
    local_bandwidth : float
        Bandwidth of one message within a node, in bytes per second. By default half of
        `core_memory_bandwidth`: a copy reads and writes.
    core_memory_bandwidth : float
        Bandwidth at which one core reads and writes memory, in bytes per second. By default twice an equal
        share of the node's, because the cores are seldom all busy with memory.
    row_time : float
        Time in which a core finds one row of a vector, whatever its length, in seconds. By default the time
        to read 8 bytes of memory.
    run_time : float
        Time in which a core finds a run of neighbouring rows in memory shared by ranks, in seconds. By
        default `row_time`.
    synchronisation : float
        Time of a synchronisation of the ranks of a node, in seconds per doubling of their number. By default
        `local_latency`.
    node_memory : float
        Memory of a node, in bytes; 0 where it is not known.
    network : mapping
        Description of the network as plain data (`kind`, `shape`, ...), for more detailed models.
    sources : mapping of str to str
        Source of each number, by its name.
    network_sources : mapping of str to str
        Source of each entry of `network` that states one.
    """

    name: str
    title: str
    nodes: int
    sockets_per_node: int
    cores_per_socket: int
    latency: float
    bandwidth: float
    memory_bandwidth: float
    node_bandwidth: float = 0.0
    local_latency: float = 0.0
    local_bandwidth: float = 0.0
    core_memory_bandwidth: float = 0.0
    row_time: float = 0.0
    run_time: float = 0.0
    synchronisation: float = 0.0
    node_memory: float = 0.0
    network: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    network_sources: Mapping[str, str] = field(default_factory=dict)

    def _facts(self) -> dict[str, object]:
        return {
            "name": self.name,
            "title": self.title,
            "nodes": self.nodes,
            "cores_per_node": self.cores,
            "network": self.network.get("kind"),
        }

    def __post_init__(self) -> None:
        share = min(self.memory_bandwidth, 2 * self.memory_bandwidth / self.cores)
        self._default("node_bandwidth", self.bandwidth, "bandwidth")
        self._default("local_latency", 0.5e-6, "0.5 us")
        self._default("core_memory_bandwidth", share, "two equal shares of memory_bandwidth")
        self._default("local_bandwidth", self.core_memory_bandwidth / 2, "half of core_memory_bandwidth")
        self._default("row_time", 8 / self.core_memory_bandwidth, "8 bytes at core_memory_bandwidth")
        self._default("run_time", self.row_time, "row_time")
        self._default("synchronisation", self.local_latency, "local_latency")
        self._default("node_memory", 0.0, "not known")

    def _default(self, name: str, value: float, description: str) -> None:
        if not getattr(self, name):
            object.__setattr__(self, name, value)
            object.__setattr__(self, "sources", {**self.sources, name: f"by default: {description}"})

    @property
    def cores(self) -> int:
        """Number of cores of a node."""
        return self.sockets_per_node * self.cores_per_socket


def machine_names() -> list[str]:
    """Return the names of the machines included in the package, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load_machine(name: str) -> Machine:
    """Read the description of a machine, included in the package or from a file.

    Parameters
    ----------
    name : str
        One of `machine_names()`, or the path of a TOML file (with a ``/`` or ending in ``.toml``).

    Returns
    -------
    Machine

    Raises
    ------
    ConfigError
        If there is no such machine, or its file lacks a number, has an unknown key, or is not TOML.

    Examples
    --------
    >>> import petacomm
    >>> machine = petacomm.load_machine("bluegene-l")
    >>> machine.cores
    2
    """
    known = machine_names()
    by_path = "/" in require_text(name, "machine") or name.endswith(".toml")
    if not by_path and name not in known:
        raise ConfigError(
            f"unknown machine '{name}'", mend=f"{did_you_mean(name, known)}; or give the path of a TOML file"
        )
    path = Path(name) if by_path else _FOLDER / f"{name}.toml"
    text = read_text(path, "see `machine_names()`")
    return _Reader(str(path), *parse_toml(text, str(path))).machine(path.stem)


_COUNTS = ("nodes", "sockets_per_node", "cores_per_socket")
_TIMES = ("latency", "local_latency", "row_time", "run_time", "synchronisation")
_BANDWIDTHS = ("bandwidth", "node_bandwidth", "local_bandwidth", "memory_bandwidth", "core_memory_bandwidth")
_DIMENSIONS = (
    dict.fromkeys(_TIMES, "time") | dict.fromkeys(_BANDWIDTHS, "bandwidth") | {"node_memory": "bytes"}
)
_KEYS = ["title", *_COUNTS, *_DIMENSIONS, "network", "sources"]


class _Reader:
    """Reader of a `Machine` from a TOML tree, with errors that name the line."""

    def __init__(self, file: str, tree: dict[str, Any], lines: KeyLines) -> None:
        self.file = file
        self.tree = tree
        self.lines = lines

    def machine(self, name: str) -> Machine:
        for key in self.tree:
            if key not in _KEYS:
                raise self._error(key, f"unknown key '{key}'", did_you_mean(key, _KEYS))
        citations = self._table("sources")
        numbers: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for item in dataclasses.fields(Machine):
            if item.name in (*_COUNTS, *_DIMENSIONS) and self._is_given(item):
                numbers[item.name], source = self._number(item.name)
                sources[item.name] = str(citations.get(source, source))
        network, network_sources = self._network(citations)
        return Machine(
            name=name,
            title=self._title(),
            network=network,
            sources=sources,
            network_sources=network_sources,
            **numbers,
        )

    def _network(self, citations: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the entries of the table ``[network]``, and the sources of those that state one."""
        network: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for key, entry in self._table("network").items():
            sourced = isinstance(entry, dict) and "source" in entry
            if sourced and ({"value", "source"} != set(entry) or not isinstance(entry["source"], str)):
                line = self.lines.get(("network", key), 1)
                mend = f'write {key} = {{ value = ..., source = "..." }}'
                raise ConfigError(
                    f"'network.{key}' must have a value and a source", where=f"{self.file}:{line}", mend=mend
                )
            network[key] = entry["value"] if sourced else entry
            if sourced:
                sources[key] = str(citations.get(entry["source"], entry["source"]))
        return network, sources

    def _is_given(self, item: dataclasses.Field[Any]) -> bool:
        if item.name not in self.tree and item.default is dataclasses.MISSING:
            raise ConfigError(
                f"'{item.name}' is missing",
                where=self.file,
                mend=f'write {item.name} = {{ value = {_example(item.name)}, source = "..." }}',
            )
        return item.name in self.tree

    def _title(self) -> str:
        title = self.tree.get("title")
        if not isinstance(title, str) or not title:
            raise self._error("title", "'title' must be text", 'write title = "..."')
        return title

    def _table(self, key: str) -> dict[str, Any]:
        table = self.tree.get(key, {})
        if not isinstance(table, dict):
            raise self._error(key, f"'{key}' must be a table", f"write [{key}]")
        return table

    def _number(self, key: str) -> tuple[float | int, str]:
        entry = self.tree[key]
        form = f'write {key} = {{ value = {_example(key)}, source = "..." }}'
        if not isinstance(entry, dict) or not {"value", "source"} == set(entry):
            raise self._error(key, f"'{key}' must have a value and a source", form)
        value, source = entry["value"], entry["source"]
        if not isinstance(source, str) or not source.strip():
            raise self._error(key, f"the source of '{key}' must be text", "say where the number comes from")
        if key in _COUNTS:
            if type(value) is not int or value < 1:
                raise self._error(key, f"'{key}' must be a whole number, 1 or more", form)
            return value, source
        if not isinstance(value, str):
            raise self._error(key, f"'{key}' must be a number with a unit, in quotes", form)
        try:
            number = parse_quantity(value, _DIMENSIONS[key])
        except ConfigError as error:
            raise self._error(key, f"'{key}': {error.what}", error.mend) from None
        if not 0 < number < float("inf"):
            raise self._error(key, f"'{key}' must be positive and finite", form)
        return number, source

    def _error(self, key: str, what: str, mend: str | None) -> ConfigError:
        return ConfigError(what, where=f"{self.file}:{self.lines.get((key,), 1)}", mend=mend)


def _example(key: str) -> str:
    if key in _COUNTS:
        return "2"
    return {"time": '"2 us"', "bandwidth": '"25 GB/s"', "bytes": '"256 GB"'}[_DIMENSIONS[key]]
