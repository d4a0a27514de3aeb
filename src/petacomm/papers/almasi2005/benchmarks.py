"""The micro-benchmarks of Almasi et al. 2005 on the model: one collective on one partition at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from petacomm.network.bluegene_wires import network_number, tree_doubles_seconds
from petacomm.network.hardware import hardware_of
from petacomm.network.packets import POLICIES, PacketSimulator, Policy, Run
from petacomm.network.predictions import Scene, closed_form, packet_seconds, simulate
from petacomm.network.schedule_links import busiest_link
from petacomm.network.schedule_packets import packet_messages
from petacomm.schedule import Call, call_on, make
from petacomm.schedule.algorithms import edge_disjoint as streams
from petacomm.schedule.catalogue import SHORT_ALLREDUCE, SHORT_BROADCAST, default_broadcast
from petacomm.schedule.schedule import Collective
from petacomm.topology import Partition, load_machine, parse_shape, partition

MIDDLE = "8x8x8"  # the partition of Tables 3 and 4
# For all shapes and sizes: of those named, the one that brings all plateaus nearest together.
ALL_TO_ALL_POLICY = "throttled"


class Bench:
    """Seconds of collectives on partitions of BlueGene/L."""

    def __init__(self) -> None:
        machine = load_machine("bluegene-l")
        self.hardware = hardware_of(machine)
        self.link = network_number(machine, "link_bandwidth", "bandwidth")
        self.scene = Scene(machine, self.hardware, self.link)
        self.simulated = lru_cache(None)(self._simulated)
        self.mpich2 = lru_cache(None)(self._mpich2)
        self.streams = lru_cache(None)(self._streams)
        self.default_broadcast = lru_cache(None)(self._default_broadcast)

    def partition(self, shape: str = MIDDLE) -> Partition:
        """Return a partition by its shape, as in "8x8x8"."""
        return partition(self.scene.machine, parse_shape(shape))

    def call(self, collective: Collective, n_bytes: int, integer: bool = False, shape: str = MIDDLE) -> Call:
        """Return a call of all nodes of a partition; elements are bytes."""
        return call_on(self.partition(shape), collective, n_bytes, itemsize=1, integer=integer)

    def all_to_all(self, shape: str, n_bytes: int, slice_of_long: bool = False) -> Run:
        """Simulate the all-to-all in random order.

        A slice of long messages leaves out what the processor takes to begin one.
        """
        hardware = self.hardware
        if slice_of_long:
            hardware = replace(hardware, all_to_all_cycles=0.0, all_to_all_miss_cycles=0.0)
        policy = POLICIES[ALL_TO_ALL_POLICY]
        return PacketSimulator(self.partition(shape).grid, hardware, policy).all_to_all(n_bytes)

    def _simulated(
        self, collective: Collective, name: str, n_bytes: int, integer: bool = False, shape: str = MIDDLE
    ) -> float:
        """Return the seconds of a collective of the message layer, packet by packet."""
        return simulate(self.call(collective, n_bytes, integer, shape), self.scene, name).seconds

    def _streams(self, n_bytes: int) -> float:
        """Return the seconds of the six streams of a broadcast, packet by packet.

        With lines of half a ring at most: whether the source's went further is not said.
        """
        grid = self.partition().grid
        schedule = streams.broadcast(grid, n_bytes, half_rings=True)
        simulator = PacketSimulator(grid, self.hardware, Policy(tie="plus"))
        return simulator.messages(packet_messages(schedule, 1, grid)).seconds

    def _mpich2(self, collective: Collective, n_bytes: int, shape: str = MIDDLE) -> float:
        """Return the seconds of MPICH2's algorithm, whose rounds wait for their busiest link."""
        name = {
            "broadcast": default_broadcast(self.call("broadcast", n_bytes, shape=shape)),
            "allreduce": "recursive-doubling" if n_bytes <= SHORT_ALLREDUCE else "rabenseifner",
            "alltoall": "pairwise",
            "barrier": "dissemination",
        }[collective]
        call = self.call(collective, n_bytes, shape=shape)
        return self.scene.round_time(make(call, name), call.rectangle, 1)

    def _default_broadcast(self, n_bytes: int) -> float:
        """Return the seconds from one of MPICH2's broadcasts to the next, where they follow each other.

        Those along a binomial tree overlap, for nobody waits for the end of the last one: the root, which
        sends most, begins the next when it has sent all. A message takes it half of the software's part of
        the latency, and the cycles of its packets; a link carries all that goes over it. Messages so long
        that they ask first are waited for.
        """
        asks = network_number(self.scene.machine, "rendezvous", "bytes")
        if n_bytes > min(asks, SHORT_BROADCAST):
            return self.mpich2("broadcast", n_bytes)
        call = self.call("broadcast", n_bytes)
        schedule = make(call, "binomial")
        hardware, latency = self.hardware, self.scene.machine.latency
        read, write = packet_seconds(hardware, 1)
        software = latency - read - write - hardware.wire_time(1) - hardware.hop_latency
        full, rest = divmod(n_bytes, hardware.payload)
        writes = full * packet_seconds(hardware, hardware.payload)[1]
        writes += packet_seconds(hardware, rest)[1] if rest else 0.0
        links = busiest_link(schedule, call.rectangle, 1) / self.link
        return max(schedule.n_rounds * (software / 2 + writes), links)

    def closed(
        self,
        collective: Collective,
        name: str,
        n_bytes: int = 0,
        integer: bool = False,
        shape: str = MIDDLE,
    ) -> float:
        """Return the seconds of a closed form."""
        seconds = closed_form(self.call(collective, n_bytes, integer, shape), name, self.scene)
        assert seconds is not None
        return seconds

    def tree(self, collective: Collective, n_bytes: int = 0, shape: str = MIDDLE) -> float:
        """Return the seconds on the tree, integers where anything is added."""
        return self.closed(collective, "tree", n_bytes, True, shape)

    def tree_doubles(self, n_bytes: int) -> float:
        """Return the least seconds of an all-reduce of doubles on the tree."""
        return tree_doubles_seconds(self.scene.machine, self.hardware, n_bytes)

    def decision(self) -> float:
        """Return the seconds in which all nodes agree on an optimized broadcast.

        A round of short all-reduce (section 5.1), the source does not say which: MPICH2's, for its 42.3 us
        and the tree's few make the 45.2 us of a broadcast on the tree.
        """
        return self.mpich2("allreduce", 16)

    def torus_broadcast(self, n_bytes: int) -> float:
        """Return the seconds of the optimized broadcast: decision, barrier (section 2.3), and streams."""
        barrier = self.simulated("barrier", "lines", 0)
        return self.decision() + barrier + self.streams(n_bytes)


def half_bytes(seconds: Callable[[int], float], best: float) -> float:
    """Return the bytes of the message that reaches half of the `best` bytes a second.

    Between two powers of two, along a straight line in the logarithm of the bytes.
    """
    n, rate, before = 16, 16 / seconds(16), 0.0
    while rate < best / 2:
        n, before = 2 * n, rate
        rate = n / seconds(n)
    if n == 16:
        return float(n)
    return n / 2 * math.exp2((best / 2 - before) / (rate - before))
