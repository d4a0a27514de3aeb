"""The packet simulator of networks of switches: its speed, published throughput, and SimGrid beside it.

    python benchmarks/switches.py                    # everything, a minute
    python benchmarks/switches.py --only speed       # or throughput, simgrid

Processor time of one thread. The dragonfly is that of Kim et al. 2008, section 4; SimGrid's flows take
the links of the network's routes (apt install libsimgrid-dev).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np

from petacomm.base.host import cpu_model
from petacomm.network import PacketMessages, SimulationResult, SwitchHardware, SwitchSimulator
from petacomm.network.switch_packets import Routing
from petacomm.topology import DragonflyPlus, FatTree, HyperX, SlimFly, dragonfly

PEER = Path(__file__).parent / "peers" / "peer_simgrid_flows.cpp"
LINK, LATENCY = 10e9, 24e-9
HARDWARE = SwitchHardware(256, 240, 32, (LINK,), LINK, LATENCY, 64 * 256)
KIM = dragonfly(33, 8, 4, arrangement="consecutive")
TREE = FatTree((12, 12, 12), (1, 12, 12))
HYPERX, SLIM_FLY, DRAGONFLY_PLUS = HyperX((12, 12), 8), SlimFly(9, 7), DragonflyPlus(17, 8, 8, 8)


def timed(work: Callable[[], SimulationResult]) -> tuple[SimulationResult, float]:
    """Return what a simulation counted and the seconds of processor time that it took."""
    begin = time.process_time()
    run = work()
    return run, time.process_time() - begin


def uniform(n_nodes: int, n: int, n_bytes: int) -> PacketMessages:
    """Return `n` messages from each node to others, drawn evenly."""
    source = np.repeat(np.arange(n_nodes), n)
    there = np.random.default_rng(1).integers(n_nodes - 1, size=len(source))
    return PacketMessages(source, there + (there >= source), np.full(len(source), n_bytes))


def to_next_group(n: int) -> PacketMessages:
    """Return `n` packets from each node of the dragonfly to nodes of the next group."""
    source = np.repeat(np.arange(KIM.n_nodes), n)
    there = (source // 32 + 1) % 33 * 32 + np.random.default_rng(1).integers(32, size=len(source))
    return PacketMessages(source, there, np.full(len(source), 240))


def speed() -> None:
    """Print packet-hops a second: on links between routers, and on all that packets cross."""
    print(f"load of the machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print("speed (bar 3)                      packets       hops  Mhops/s  with nodes' links      s")
    for name, network, routing in (
        ("dragonfly, 1056, minimal", KIM, "minimal"),
        ("dragonfly, 1056, valiant", KIM, "valiant"),
        ("dragonfly, 1056, ugal", KIM, "ugal"),
        ("fat tree, 1728", TREE, "minimal"),
        ("HyperX, 1152, minimal", HYPERX, "minimal"),
        ("HyperX, 1152, ugal", HYPERX, "ugal"),
        ("Slim Fly, 1134, minimal", SLIM_FLY, "minimal"),
        ("Slim Fly, 1134, ugal", SLIM_FLY, "ugal"),
        ("Dragonfly+, 1088, minimal", DRAGONFLY_PLUS, "minimal"),
        ("Dragonfly+, 1088, ugal", DRAGONFLY_PLUS, "ugal"),
    ):
        simulator, messages = SwitchSimulator(network, HARDWARE, routing), uniform(network.n_nodes, 80, 1200)
        run, took = min(
            (timed(partial(simulator.simulate, messages)) for _ in range(3)), key=lambda one: one[1]
        )
        to_nodes = 0 if isinstance(network, FatTree) else 2 * run.packets  # which a fat tree numbers, too
        print(f"{name:30s} {run.packets:11,d} {run.hops:10,d} {run.hops / took / 1e6:8.2f}", end="")
        print(f" {(run.hops + to_nodes) / took / 1e6:18.2f} {took:6.2f}")


def throughput() -> None:
    """Print what the slowest node gets rid of once queues are full, in parts of its bandwidth."""
    print("of the bandwidth, the slowest node (published, next group: minimal 1/32, UGAL about 1/2)")
    print(f"{'offered, to':24s} buffers  " + "  ".join(f"{routing:>9s}" for routing in get_args(Routing)))
    for name, traffic, offered in (
        ("0.50, the next group", to_next_group, 0.5),
        ("1.00, the next group", to_next_group, 1.0),
        ("1.00, all nodes", partial(uniform, KIM.n_nodes, n_bytes=240), 1.0),
    ):
        for channel in (16, 64):
            hardware = dataclasses.replace(
                HARDWARE, channel=channel * 256, message_time=240 / LINK / offered if offered < 1 else 0.0
            )
            rates = [sustained(SwitchSimulator(KIM, hardware, way), traffic) for way in get_args(Routing)]
            print(f"{name:24s} {channel // 4:4d} KB  " + "  ".join(f"{rate:9.3f}" for rate in rates))


def sustained(simulator: SwitchSimulator, traffic: Callable[[int], PacketMessages]) -> float:
    """Return the part of its bandwidth that the slowest node has for its packets 500 to 1000."""
    seconds = [simulator.simulate(traffic(n)).seconds for n in (500, 1000)]
    return 500 * 240 / LINK / (seconds[1] - seconds[0])


def simgrid() -> None:
    """Print the seconds of messages sent at once as packets and as flows, and what each costs to find."""
    print("messages sent at once, us (s of processor time)      packets           SimGrid, flows")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "flows"
        command = ["g++", "-O2", "-std=c++17", "-o", str(program), str(PEER), "-lsimgrid"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            print("SimGrid is left out (apt install libsimgrid-dev)")
            return
        for name, network in (
            ("dragonfly, 72", dragonfly(9, 4, 2)),
            ("fat tree, 64", FatTree((4, 4, 4), (1, 4, 4))),
        ):
            traffic = {
                "uniform": uniform(network.n_nodes, 20, 4800),
                "permutation": permutation(network.n_nodes, 1, 48_000),
                "permutation, 20 messages each": permutation(network.n_nodes, 20, 2400),
            }
            for kind, messages in traffic.items():
                _simgrid_rows(f"{name}, {kind}", network, messages, program)


def permutation(n_nodes: int, n_messages: int, n_bytes: int) -> PacketMessages:
    """Return messages from each node to one other, drawn."""
    there = np.random.default_rng(2).permutation(n_nodes)
    nodes = np.repeat(np.flatnonzero(there != np.arange(n_nodes)), n_messages)
    return PacketMessages(nodes, there[nodes], np.full(len(nodes), n_bytes))


def _simgrid_rows(name: str, network, messages: PacketMessages, program: Path) -> None:
    path = program.with_suffix(".txt")
    path.write_text(_flows(network, messages))
    command = [str(program), str(path), "--log=root.thresh:error"]
    flows = json.loads(
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    )
    kinds = {"": False, ", in order": True} if isinstance(network, FatTree) else {"": False}
    for kind, in_order in kinds.items():
        simulator, sent = SwitchSimulator(network, HARDWARE), dataclasses.replace(messages, in_order=in_order)
        run, took = timed(partial(simulator.simulate, sent))
        print(f"{name + kind:44s} {1e6 * run.seconds:12.1f} ({took:.3f})", end="")
        print(f" {1e6 * flows['seconds']:14.1f} ({flows['cpu']:.3f})")


def _flows(network, messages: PacketMessages) -> str:
    """Return the file of `PEER`; nodes of a dragonfly have a link each way that it does not number."""
    attached = 0 if isinstance(network, FatTree) else network.n_nodes
    n_links = network.n_links + 2 * attached
    lines = [f"{network.n_nodes} {n_links}", *[f"{LINK} {LATENCY}"] * n_links, str(len(messages.source))]
    for a, b, n_bytes in zip(messages.source, messages.destination, messages.n_bytes, strict=True):
        route = network.route(a, b).tolist()
        if attached:
            route = [network.n_links + a, *route, network.n_links + attached + b]
        lines.append(" ".join(map(str, [a, b, n_bytes, len(route), *route])))
    return "\n".join(lines)


PARTS = {"speed": speed, "throughput": throughput, "simgrid": simgrid}


def main() -> None:
    """Print all tables, or one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS)
    only = parser.parse_args().only
    print(f"{cpu_model()}, Python {sys.version.split()[0]}", flush=True)
    for name in [only] if only else PARTS:
        print()
        PARTS[name]()
        sys.stdout.flush()


if __name__ == "__main__":
    main()
