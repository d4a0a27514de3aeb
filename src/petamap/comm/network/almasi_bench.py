"""The micro-benchmarks of Almasi et al. 2005 on the model: one collective on one partition at a time."""

from __future__ import annotations

from functools import lru_cache

from petamap.comm.network.hardware import hardware_of
from petamap.comm.network.loaded import round_time
from petamap.comm.network.outlook import Scene, closed_form, simulate
from petamap.comm.network.packets import PacketSimulator, Run
from petamap.comm.network.wires import network_number
from petamap.comm.schedule import Call, call_on, make
from petamap.comm.schedule.schedule import Collective
from petamap.comm.topology import Partition, load_machine, parse_shape, partition

MIDDLE = "8x8x8"  # the partition of Tables 3 and 4
# MPICH2's broadcast and all-reduce change algorithms here (Thakur, Rabenseifner and Gropp 2005).
_SHORT_BROADCAST, _SHORT_ALLREDUCE = 12288, 2048


class Bench:
    """Seconds of collectives on partitions of BlueGene/L."""

    def __init__(self) -> None:
        machine = load_machine("bluegene-l")
        self.hardware = hardware_of(machine)
        self.link = network_number(machine, "link_bandwidth", "bandwidth")
        self.scene = Scene(machine, self.hardware, self.link)
        self.simulated = lru_cache(None)(self._simulated)
        self.mpich2 = lru_cache(None)(self._mpich2)

    def partition(self, shape: str = MIDDLE) -> Partition:
        """Return a partition by its shape, as in "8x8x8"."""
        return partition(self.scene.machine, parse_shape(shape))

    def call(self, collective: Collective, n_bytes: int, integer: bool = False, shape: str = MIDDLE) -> Call:
        """Return a call of all nodes of a partition; elements are bytes."""
        return call_on(self.partition(shape), collective, n_bytes, itemsize=1, integer=integer)

    def all_to_all(self, shape: str, n_bytes: int) -> Run:
        """Simulate the all-to-all in random order."""
        return PacketSimulator(self.partition(shape).grid, self.hardware).all_to_all(n_bytes)

    def _simulated(self, collective: Collective, name: str, n_bytes: int, shape: str = MIDDLE) -> float:
        """Return the seconds of a collective of the message layer, packet by packet."""
        return simulate(self.call(collective, n_bytes, shape=shape), self.scene, name).seconds

    def _mpich2(self, collective: Collective, n_bytes: int, shape: str = MIDDLE) -> float:
        """Return the seconds of MPICH2's algorithm, whose rounds wait for their busiest link."""
        name = {
            "broadcast": "binomial" if n_bytes <= _SHORT_BROADCAST else "scatter-allgather",
            "allreduce": "recursive-doubling" if n_bytes <= _SHORT_ALLREDUCE else "rabenseifner",
            "alltoall": "pairwise",
            "barrier": "dissemination",
        }[collective]
        call = self.call(collective, n_bytes, shape=shape)
        schedule = make(call, name)
        return round_time(schedule, call.rectangle, 1, self.scene.machine.latency, self.link)

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

    def decision(self) -> float:
        """Return the seconds in which all nodes agree on an optimized broadcast.

        A round of short all-reduce (section 5.1), the source does not say which: MPICH2's, for its 42.3 us
        and the tree's few make the 45.2 us of a broadcast on the tree.
        """
        return self.mpich2("allreduce", 16)

    def torus_broadcast(self, n_bytes: int) -> float:
        """Return the seconds of the optimized broadcast: decision, barrier (section 2.3), and streams."""
        barrier = self.simulated("barrier", "lines", 0)
        return self.decision() + barrier + self.simulated("broadcast", "streams", n_bytes)
