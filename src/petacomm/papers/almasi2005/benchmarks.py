"""Model of the micro-benchmarks of Almasi et al. 2005: one collective on one partition at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from petacomm.network.bluegene_wires import network_number, tree_doubles_seconds
from petacomm.network.hardware import make_hardware
from petacomm.network.packet_messages import SimulationResult
from petacomm.network.packets import POLICIES, PacketSimulator, RouterPolicy
from petacomm.network.predictions import NetworkModel, closed_form_seconds, packet_seconds
from petacomm.network.schedule_links import busiest_link_bytes
from petacomm.network.schedule_packets import packet_messages
from petacomm.network.simulations import simulate_collective
from petacomm.schedule import CollectiveCall, make_schedule, partition_call
from petacomm.schedule.algorithms.edge_disjoint import edge_disjoint_broadcast
from petacomm.schedule.catalogue import SHORT_ALLREDUCE, SHORT_BROADCAST, mpich_broadcast
from petacomm.schedule.schedule import Collective
from petacomm.topology import BlueGenePartition, bluegene_partition, load_machine, parse_shape

DEFAULT_SHAPE = "8x8x8"  # the partition of Tables 3 and 4
# For all shapes and sizes; the named policy whose plateaus agree best with the published ones.
ALL_TO_ALL_POLICY = "throttled"


class BlueGeneBenchmarks:
    """Modelled seconds of collectives on partitions of BlueGene/L; the expensive ones are cached."""

    def __init__(self) -> None:
        machine = load_machine("bluegene-l")
        self.hardware = make_hardware(machine)
        self.link = network_number(machine, "link_bandwidth", "bandwidth")
        self.model = NetworkModel(machine, self.hardware, self.link)
        self.simulated = lru_cache(None)(self._simulated)
        self.mpich2 = lru_cache(None)(self._mpich2)
        self.streams = lru_cache(None)(self._streams)
        self.default_broadcast = lru_cache(None)(self._default_broadcast)

    def partition(self, shape: str = DEFAULT_SHAPE) -> BlueGenePartition:
        """Return a partition by its shape, as in "8x8x8"."""
        return bluegene_partition(self.model.machine, parse_shape(shape))

    def call(
        self, collective: Collective, n_bytes: int, integer: bool = False, shape: str = DEFAULT_SHAPE
    ) -> CollectiveCall:
        """Return a call of all nodes of a partition; elements are bytes."""
        return partition_call(self.partition(shape), collective, n_bytes, itemsize=1, integer=integer)

    def simulate_all_to_all(self, shape: str, n_bytes: int, slice_of_long: bool = False) -> SimulationResult:
        """Simulate the all-to-all in random order.

        For a slice of long messages, the processor's cost of beginning a message is left out.
        """
        hardware = self.hardware
        if slice_of_long:
            hardware = replace(hardware, all_to_all_cycles=0.0, all_to_all_miss_cycles=0.0)
        policy = POLICIES[ALL_TO_ALL_POLICY]
        return PacketSimulator(self.partition(shape).grid, hardware, policy).simulate_all_to_all(n_bytes)

    def begin_all_to_all_seconds(self, shape: str, n_bytes: int) -> float:
        """Return the seconds in which a processor begins its messages of an all-to-all."""
        n = self.partition(shape).n_ranks
        return (n - 1) * self.hardware.alltoall_message_cycles(2 * n * n_bytes) / self.hardware.clock

    def _simulated(
        self,
        collective: Collective,
        name: str,
        n_bytes: int,
        integer: bool = False,
        shape: str = DEFAULT_SHAPE,
    ) -> float:
        """Return the seconds of a collective of the message layer, by packet simulation."""
        return simulate_collective(self.call(collective, n_bytes, integer, shape), self.model, name).seconds

    def _streams(self, n_bytes: int) -> float:
        """Return the seconds of the six streams of a broadcast, by packet simulation.

        Lines have at most half a ring; the source does not state the length of its lines.
        """
        grid = self.partition().grid
        schedule = edge_disjoint_broadcast(grid, n_bytes, half_rings=True)
        simulator = PacketSimulator(grid, self.hardware, RouterPolicy(tie="plus"))
        return simulator.simulate(packet_messages(schedule, 1, grid)).seconds

    def _mpich2(self, collective: Collective, n_bytes: int, shape: str = DEFAULT_SHAPE) -> float:
        """Return the seconds of MPICH2's algorithm, with rounds limited by their busiest link."""
        name = {
            "broadcast": mpich_broadcast(self.call("broadcast", n_bytes, shape=shape)),
            "allreduce": "recursive-doubling" if n_bytes <= SHORT_ALLREDUCE else "rabenseifner",
            "alltoall": "pairwise",
            "barrier": "dissemination",
        }[collective]
        call = self.call(collective, n_bytes, shape=shape)
        return self.model.synchronous_rounds_time(make_schedule(call, name), call.required_grid, 1)

    def _default_broadcast(self, n_bytes: int) -> float:
        """Return the seconds per broadcast of MPICH2 in a sequence of broadcasts.

        Broadcasts along a binomial tree overlap, as no rank waits for the end of the previous one: the root,
        which sends the most, begins the next when it has sent all its messages. A message takes half of the
        software part of the latency, plus the cycles of its packets; links are limited by their total load.
        Messages with the rendezvous protocol do not overlap.
        """
        rendezvous = network_number(self.model.machine, "rendezvous", "bytes")
        if n_bytes > min(rendezvous, SHORT_BROADCAST):
            return self.mpich2("broadcast", n_bytes)
        call = self.call("broadcast", n_bytes)
        schedule = make_schedule(call, "binomial")
        hardware, latency = self.hardware, self.model.machine.latency
        read, write = packet_seconds(hardware, 1)
        software = latency - read - write - hardware.wire_time(1) - hardware.hop_latency
        full, rest = divmod(n_bytes, hardware.payload)
        writes = full * packet_seconds(hardware, hardware.payload)[1]
        writes += packet_seconds(hardware, rest)[1] if rest else 0.0
        links = busiest_link_bytes(schedule, call.required_grid, 1) / self.link
        return max(schedule.n_rounds * (software / 2 + writes), links)

    def closed(
        self,
        collective: Collective,
        name: str,
        n_bytes: int = 0,
        integer: bool = False,
        shape: str = DEFAULT_SHAPE,
    ) -> float:
        """Return the seconds of an algorithm by its closed form."""
        seconds = closed_form_seconds(self.call(collective, n_bytes, integer, shape), name, self.model)
        assert seconds is not None
        return seconds

    def tree(self, collective: Collective, n_bytes: int = 0, shape: str = DEFAULT_SHAPE) -> float:
        """Return the seconds of a collective on the tree, of integers if it reduces."""
        return self.closed(collective, "tree", n_bytes, True, shape)

    def tree_doubles(self, n_bytes: int) -> float:
        """Return a lower bound of the seconds of an all-reduce of doubles on the tree."""
        return tree_doubles_seconds(self.model.machine, self.hardware, n_bytes)

    def decision(self) -> float:
        """Return the seconds in which all nodes agree on using an optimized broadcast.

        The source has "a round of short Allreduce" (section 5.1) without naming it. MPICH2's is assumed: its
        42.3 us plus the few of the tree give the 45.2 us of a broadcast on the tree.
        """
        return self.mpich2("allreduce", 16)

    def torus_broadcast(self, n_bytes: int) -> float:
        """Return the seconds of the optimized broadcast: decision, barrier (section 2.3), and streams."""
        barrier = self.simulated("barrier", "lines", 0)
        return self.decision() + barrier + self.streams(n_bytes)


def half_bandwidth_bytes(seconds: Callable[[int], float], best: float) -> float:
    """Return the size of the message that reaches half of the `best` bytes per second (n_1/2).

    It is interpolated linearly in the logarithm of the bytes, between two powers of two.
    """
    n, rate, before = 16, 16 / seconds(16), 0.0
    while rate < best / 2:
        n, before = 2 * n, rate
        rate = n / seconds(n)
    if n == 16:
        return float(n)
    return n / 2 * math.exp2((best / 2 - before) / (rate - before))
