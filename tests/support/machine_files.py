"""Machine files written from machines, which `load_machine` reads back to the same numbers."""

import json
from typing import Any

from petacomm.topology import Machine

_UNITS = {
    "nodes": "", "sockets_per_node": "", "cores_per_socket": "", "latency": "s", "local_latency": "s",
    "row_time": "s", "run_time": "s", "synchronisation": "s", "bandwidth": "B/s", "node_bandwidth": "B/s",
    "local_bandwidth": "B/s", "memory_bandwidth": "B/s", "core_memory_bandwidth": "B/s",
    "node_memory": "B",
}  # fmt: skip


def write_machine(machine: Machine) -> str:
    """Return the text of the machine's TOML file."""
    lines = [f"title = {_quoted(machine.title)}", ""]
    for key, unit in _UNITS.items():
        value = getattr(machine, key)
        if not value:
            continue  # not known
        text = f'"{value!r} {unit}"' if unit else str(value)
        source = _quoted(machine.sources.get(key, "unknown"))
        lines.append(f"{key} = {{ value = {text}, source = {source} }}")
    if machine.network:
        lines += ["", "[network]", *(_network_line(machine, key) for key in machine.network)]
    return "\n".join(lines) + "\n"


def _network_line(machine: Machine, key: str) -> str:
    value: Any = machine.network[key]
    if key in machine.network_sources:
        value = {"value": value, "source": machine.network_sources[key]}
    return f"{key} = {_toml_value(value)}"


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    # TOML's basic strings use the escapes of JSON, and must escape DEL too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
