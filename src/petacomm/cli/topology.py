"""``petacomm topology``: list machines, and show where the ranks of a job run."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
from typing import TYPE_CHECKING, Any

from petacomm.base.errors import ConfigError

if TYPE_CHECKING:
    from petacomm.topology import Machine

_EPILOG = """\
examples:
  petacomm topology                        list the machines of the package
  petacomm topology perlmutter             its numbers, each with its source
  mpiexec -n 4 petacomm topology detect    where the ranks of this job run
"""


def add_commands(commands: Any) -> None:
    """Add ``topology`` to the subparsers."""
    parser = commands.add_parser(
        "topology",
        help="show machines, and where the ranks of a job run",
        description="List the machines of the package; show the numbers of one, or of a machine file, each "
        "with its source; or, with 'detect' under a launcher, print the node and coordinates of each rank.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="petacomm topology [MACHINE|detect] [--json]",
    )
    parser.add_argument("words", metavar="MACHINE", nargs="*", help="a machine, a machine file, or 'detect'")
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
    parser.set_defaults(handler=_topology)


def _topology(arguments: argparse.Namespace) -> int:
    if len(arguments.words) > 1:
        raise ConfigError(f"unknown argument '{arguments.words[1]}'", mend="see petacomm topology --help")
    if not arguments.words:
        _list_machines(arguments.json)
    elif arguments.words == ["detect"]:
        _detect(arguments.json)
    else:
        _show_machine(arguments.words[0], arguments.json)
    return 0


def _list_machines(as_json: bool) -> None:
    from petacomm.topology import load_machine, machine_names

    machines = [load_machine(name) for name in machine_names()]
    if as_json:
        keys = ("name", "title", "nodes", "cores")
        print(json.dumps([{key: getattr(machine, key) for key in keys} for machine in machines], indent=2))
        return
    for machine in machines:
        print(machine_summary(machine))


def machine_summary(machine: Machine) -> str:
    """Return a one-line summary of a machine: name, nodes, cores of a node, title."""
    return f"{machine.name:<12} {machine.nodes:>7,} nodes of {machine.cores:>3} cores  {machine.title}"


def _show_machine(name: str, as_json: bool) -> None:
    from petacomm.topology import load_machine

    machine = load_machine(name)
    if as_json:
        print(json.dumps(dataclasses.asdict(machine), indent=2))
        return
    print(machine_summary(machine))
    for key, source in machine.sources.items():
        value = getattr(machine, key)
        print(f"  {key:<24} {value if isinstance(value, int) else format(value, '.6g'):<12} {source}")
    for key, value in machine.network.items():
        print(f"  network.{key:<16} {value!s:<12} {machine.network_sources.get(key, '')}".rstrip())
    print("seconds, and bytes a second")


def _detect(as_json: bool) -> None:
    from petacomm.mpi import collective_errors, world
    from petacomm.mpi.errors import show_error
    from petacomm.topology.detect import gather_allocation

    comm = world()
    with collective_errors(comm, functools.partial(show_error, program="petacomm")):
        manager = gather_allocation(comm)
        if comm.rank != 0:
            return
        if as_json:
            data = {"source": manager.source, "hosts": manager.hosts, "nodes": manager.nodes.tolist()}
            print(json.dumps(data, indent=2))
        else:
            manager.print_allocation()
