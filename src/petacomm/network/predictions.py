"""A call of a collective on a machine: what each algorithm would take, by closed forms, links and packets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.progress import Progress, Silent
from petacomm.network import closed_forms as forms
from petacomm.network.bluegene_wires import interrupt_seconds, network_number, tree_seconds
from petacomm.network.hardware import Hardware
from petacomm.network.link_load import link_loads
from petacomm.network.packets import PacketSimulator, Policy, Run
from petacomm.network.schedule_links import busiest_link, round_time
from petacomm.network.schedule_packets import packet_messages
from petacomm.schedule import Call, Schedule, algorithms, choose, make
from petacomm.schedule.algorithms import rectangle_lines as lines
from petacomm.topology import Machine, Torus

# Messages that are put on links, and packets that are simulated, in some minutes at most.
MOST_MESSAGES, MOST_HOPS = 8_000_000, 3_000_000_000
# Collectives of BlueGene/L's message layer: they send packets, not messages of MPI.
_BY_PACKETS = ("streams", "hamiltonian", "cycle", "lines", "random-order")


@dataclass(frozen=True)
class Scene:
    """Where a call takes place.

    Attributes
    ----------
    machine : Machine
    hardware : Hardware, optional
        Of a call on a grid.
    link_bandwidth : float
        Bytes a second of a link, one way.
    """

    machine: Machine
    hardware: Hardware | None
    link_bandwidth: float

    def round_time(self, schedule: Schedule, grid: Torus, itemsize: int) -> float:
        """Return the seconds of what MPI sends, round after round."""
        machine, asks = self.machine, math.inf
        if "rendezvous" in machine.network:
            asks = network_number(machine, "rendezvous", "bytes")
        return round_time(schedule, grid, itemsize, machine.latency, self.link_bandwidth, asks)

    def for_call(self, call: Call) -> Hardware:
        """Return the hardware as a call meets it: to add integers takes cycles of its own."""
        assert self.hardware is not None
        key = "integer_combine_cycles"
        if call.integer and call.collective != "barrier" and key in self.machine.network:
            cycles = network_number(self.machine, key, "")
            return dataclasses.replace(self.hardware, combine_cycles=cycles)
        return self.hardware


@dataclass(frozen=True)
class Prospect:
    """What an algorithm would take.

    Attributes
    ----------
    algorithm, summary : str
    chosen : bool
        Whether the selector takes it.
    unmet : list of str
        What the call lacks, so that it cannot be used.
    closed, loaded : float or None
        Seconds by the closed form, and by loads of links.
    busiest : float or None
        Bytes of the busiest link.
    why : str
        Why a number is not there.
    """

    algorithm: str
    summary: str
    chosen: bool
    unmet: list[str]
    closed: float | None = None
    loaded: float | None = None
    busiest: float | None = None
    why: str = ""


def outlook(call: Call, scene: Scene, progress: Progress | None = None) -> list[Prospect]:
    """Return what all algorithms of a call would take, those that do not apply with the reason.

    Raises
    ------
    ConfigError
        If the machine's file lacks a number that is needed.
    """
    listener = progress or Silent()
    every, chosen = algorithms(call.collective), choose(call)
    for name in ("tree", "interrupt"):
        if any(algorithm.name == name and not algorithm.unmet(call) for algorithm in every):
            closed_form(call, name, scene)  # says what the machine's file lacks before any work
    listener.begin("loads of links", len(every), "algorithms")
    found = []
    for algorithm in every:
        prospect = Prospect(
            algorithm.name, algorithm.summary, algorithm.name == chosen, algorithm.unmet(call)
        )
        if not prospect.unmet:
            prospect = _priced(prospect, call, scene)
        found.append(prospect)
        listener.advance(1, algorithm.name)
    listener.end()
    return found


def _priced(prospect: Prospect, call: Call, scene: Scene) -> Prospect:
    name = prospect.algorithm
    if name in ("tree", "interrupt"):
        return dataclasses.replace(prospect, closed=closed_form(call, name, scene), why="not on the torus")
    closed = closed_form(call, name, scene)
    if call.grid is None:
        return dataclasses.replace(prospect, closed=closed, why="no shape, so no links")
    if name == "random-order" and call.counts is None:
        busiest = float(link_loads(call.grid, float(call.n_bytes)).max(initial=0))
        loaded = busiest / scene.link_bandwidth
        return dataclasses.replace(prospect, closed=closed, loaded=loaded, busiest=busiest)
    schedule = make(call, name)
    if schedule.n_rounds * call.n_ranks > MOST_MESSAGES:
        why = f"{schedule.n_rounds:,} rounds of {call.n_ranks:,} ranks are too many to put on links"
        return dataclasses.replace(prospect, closed=closed, why=why)
    busiest = busiest_link(schedule, call.grid, call.itemsize)
    if name in _BY_PACKETS:
        loaded = busiest / scene.link_bandwidth
    else:
        loaded = scene.round_time(schedule, call.grid, call.itemsize)
    return dataclasses.replace(prospect, closed=closed, loaded=loaded, busiest=busiest)


def closed_form(call: Call, name: str, scene: Scene) -> float | None:
    """Return the seconds of the closed form of an algorithm that applies; None where there is none."""
    if forms.has_cost(call.collective, name):
        n_bytes = 1 if call.collective == "barrier" else call.n_bytes
        cost = forms.cost(call.collective, name, call.n_ranks, n_bytes)
        return cost.time(scene.machine.latency, 1 / scene.machine.bandwidth)
    if name == "interrupt":
        return interrupt_seconds(scene.machine, call.n_ranks)
    if name == "tree" and scene.hardware is not None:
        return tree_seconds(scene.machine, scene.hardware, call.n_bytes)
    if call.grid is None or scene.hardware is None:
        return None
    return _FORMS[name](call, scene)


def packet_seconds(hardware: Hardware, n_bytes: float) -> tuple[float, float]:
    """Return the seconds in which a processor reads and writes a packet with so many bytes."""
    part = min(n_bytes, hardware.payload) / hardware.payload
    read, write = (
        cycles * part + hardware.packet_cycles for cycles in (hardware.read_cycles, hardware.write_cycles)
    )
    return read / hardware.clock, write / hardware.clock


def _lines(call: Call, scene: Scene) -> float:
    """Section 3.2 of Almasi et al.: S is a packet written and on its way, T one read and combined."""
    hardware = scene.for_call(call)
    n_bytes = 1 if call.collective == "barrier" else call.n_bytes
    n_packets = math.ceil(n_bytes / hardware.payload)
    read, write = packet_seconds(hardware, n_bytes)
    read += hardware.combine_cycles / hardware.clock
    wire = hardware.wire_time(min(n_bytes, hardware.payload))
    overhead = hardware.message_cycles / hardware.clock + n_packets * write + wire + hardware.hop_latency
    group = None if call.collective == "barrier" else lines.GROUP
    return forms.short_latency(call.rectangle.shape, overhead, n_packets * wire, 1.0, n_packets * read, group)


def _streamed(call: Call, scene: Scene, name: str) -> float:
    """The slower of the busiest link and the busiest processor; before it, a packet's way through all rounds.

    A processor reads each packet that comes to it, combines it if it is to be reduced, and writes those that
    it sends: one for all of a line.
    """
    hardware = scene.for_call(call)
    schedule = make(call, name)
    read, write = packet_seconds(hardware, call.n_bytes)
    combine = hardware.combine_cycles / hardware.clock
    busy = np.zeros(call.n_ranks)
    for part in schedule.rounds():
        packets = np.ceil(part.length * call.itemsize / hardware.payload)
        first = np.append(True, (part.line[1:] != part.line[:-1]) | (part.line[1:] < 0))[: len(part)]
        busy += np.bincount(part.destination, packets * (read + combine * part.reduce), call.n_ranks)
        busy += np.bincount(part.source, packets * write * first, call.n_ranks)
    links = busiest_link(schedule, call.rectangle, call.itemsize) / scene.link_bandwidth
    wire = hardware.wire_time(min(call.n_bytes, hardware.payload))
    return max(float(busy.max()), links) + (schedule.n_rounds - 1) * (read + write + wire)


def _random_order(call: Call, scene: Scene) -> float:
    return call.n_ranks * call.n_bytes / forms.alltoall_peak(call.rectangle, scene.link_bandwidth)


_FORMS: dict[str, Callable[[Call, Scene], float]] = {
    "lines": _lines,
    "streams": partial(_streamed, name="streams"),
    "hamiltonian": partial(_streamed, name="hamiltonian"),
    "cycle": partial(_streamed, name="cycle"),
    "random-order": _random_order,
}


@dataclass(frozen=True)
class Simulated:
    """What a simulation of a call found.

    Attributes
    ----------
    algorithm : str
    seconds : float
    run : Run or None
        None on wires other than the torus, which have a closed form alone.
    note : str
        What the number is, where it is not of packets.
    """

    algorithm: str
    seconds: float
    run: Run | None = None
    note: str = ""


def simulate(
    call: Call,
    scene: Scene,
    name: str = "auto",
    policy: Policy | None = None,
    seed: int = 1,
    progress: Progress | None = None,
) -> Simulated:
    """Simulate a call packet by packet.

    Raises
    ------
    ConfigError
        If the algorithm does not apply, there is no grid, or there would be too many packets.
    """
    name = choose(call) if name == "auto" else name
    if name in ("tree", "interrupt"):
        make(call, name)  # says what the call lacks
        seconds = closed_form(call, name, scene)
        assert seconds is not None
        return Simulated(name, seconds, note="the closed form: these wires have no packets that wait")
    if call.grid is None or scene.hardware is None:
        raise ConfigError("packets need a torus or mesh", mend="give --shape, on a machine that is one")
    schedule = make(call, name)
    hops = _check_hops(call, schedule, scene.hardware)
    listener = progress or Silent()
    listener.begin("packets", None, f"of about {hops:,.0f} hops")
    run = _run(call, schedule, scene, policy or Policy(tie="plus"), seed)
    listener.end(f"{run.hops / max(run.wall_seconds, 1e-9) / 1e6:.3g} Mhops/s")
    return Simulated(name, run.seconds, run)


def _run(call: Call, schedule: Schedule, scene: Scene, policy: Policy, seed: int) -> Run:
    assert scene.hardware is not None
    simulator = PacketSimulator(call.rectangle, scene.for_call(call), policy, seed)
    if schedule.algorithm == "random-order":
        return simulator.all_to_all(call.n_bytes)
    return simulator.messages(packet_messages(schedule, call.itemsize, call.rectangle))


def _check_hops(call: Call, schedule: Schedule, hardware: Hardware) -> float:
    """Return about how many links packets would cross, unless these are too many."""
    grid: Torus = call.rectangle
    mean = sum(
        (size / 4 if ring else size / 3) for size, ring in zip(grid.shape, grid.wrap, strict=True) if size > 1
    )
    packets = max(1, math.ceil(call.n_bytes / hardware.payload))
    if call.collective == "alltoall":
        hops = call.n_ranks * (call.n_ranks - 1) * packets * mean
    elif schedule.pipelined:
        hops = 2.0 * call.n_ranks * packets
    else:
        hops = float(schedule.n_rounds) * call.n_ranks * min(packets, 4) * mean
    if hops > MOST_HOPS:
        raise ConfigError(
            f"packets would cross about {hops:.2g} links, more than {MOST_HOPS:.0e}",
            mend="give fewer bytes or a smaller shape, or see petamap net predict",
        )
    too_many = schedule.n_rounds * call.n_ranks > MOST_MESSAGES and schedule.algorithm != "random-order"
    if too_many and not schedule.pipelined:
        raise ConfigError(
            f"'{schedule.algorithm}' has {schedule.n_rounds:,} rounds of {call.n_ranks:,} ranks",
            mend="choose another algorithm or a smaller shape",
        )
    return hops
