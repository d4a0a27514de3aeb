"""All algorithms by name, with what each needs, and the choice between them.

The choice is a function of a `Call` alone: ranks that agree on the call choose the same algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import did_you_mean
from petacomm.schedule.algorithms import (
    binomial,
    bruck,
    dissemination,
    hamiltonian,
    pairwise,
    rabenseifner,
    random_order,
    recursive_doubling,
    ring,
    scatter_allgather,
)
from petacomm.schedule.algorithms import (
    combining_tree as tree,
)
from petacomm.schedule.algorithms import (
    edge_disjoint as streams,
)
from petacomm.schedule.algorithms import (
    global_interrupt as interrupt,
)
from petacomm.schedule.algorithms import (
    rectangle_lines as lines,
)
from petacomm.schedule.schedule import (
    Blocks,
    Collective,
    Schedule,
    ScheduleError,
    check_ranks,
    on_ranks,
)
from petacomm.topology import Partition, Torus, find_rectangle

PACKET = 240  # bytes that a packet of BlueGene/L carries (Almasi et al. 2005, 3.1)


@dataclass(frozen=True)
class Call:
    """One call of a collective, as all its ranks see it.

    Attributes
    ----------
    collective : str
    n_ranks : int
    n_elements : int
        Of the vector; of an all-to-all, from each rank to each.
    itemsize : int
        Bytes of an element.
    integer : bool
        Whether elements are integers.
    root : int
    grid : Torus, optional
        The ranks as a rectangle of a torus or mesh.
    ranks : int64 (n_ranks,), optional
        The rank at each node of the grid. By default the node's number.
    counts : int64 (n_ranks, n_ranks), optional
        Elements from rank to rank, of an all-to-all in which they differ.
    tree, interrupts : bool
        Whether there are such wires: on BlueGene/L, for all ranks of a partition together.

    Raises
    ------
    ScheduleError
        If there cannot be such a call.
    """

    collective: Collective
    n_ranks: int
    n_elements: int = 0
    itemsize: int = 8
    integer: bool = False
    root: int = 0
    grid: Torus | None = None
    ranks: npt.NDArray[np.int64] | None = None
    counts: npt.NDArray[np.int64] | None = None
    tree: bool = False
    interrupts: bool = False

    def __post_init__(self) -> None:
        check_ranks(self.n_ranks)
        if self.grid is not None and self.grid.n_nodes != self.n_ranks:
            shape = "x".join(map(str, self.grid.shape))
            raise ScheduleError(
                f"a grid of {shape} has {self.grid.n_nodes} nodes, and there are {self.n_ranks} ranks",
                mend="give a shape whose product is the number of ranks",
            )
        if self.ranks is not None and not np.array_equal(np.sort(self.ranks), np.arange(self.n_ranks)):
            raise ScheduleError(
                f"the ranks at the nodes of the grid are not each of 0 to {self.n_ranks - 1} once",
                mend="take them from `on_machine`",
            )
        if self.itemsize < 1 or self.n_elements < 0:
            raise ScheduleError(f"{self.n_elements} elements of {self.itemsize} bytes", mend="count from 1")
        if not 0 <= self.root < self.n_ranks:
            raise ScheduleError(
                f"there is no rank {self.root} among {self.n_ranks}", mend="the root is one of the ranks"
            )
        if self.counts is not None and (self.counts.shape != (self.n_ranks,) * 2 or np.any(self.counts < 0)):
            raise ScheduleError(
                "counts of an all-to-all do not fit",
                mend=f"give {self.n_ranks} x {self.n_ranks} of 0 or more",
            )

    @property
    def n_bytes(self) -> int:
        """Bytes of the vector; of an all-to-all, from each rank to each, the mean where they differ."""
        if self.counts is not None:
            return int(self.counts.sum()) * self.itemsize // self.n_ranks**2
        return self.n_elements * self.itemsize

    @property
    def blocks(self) -> Blocks:
        """What an all-to-all exchanges."""
        return Blocks(self.n_ranks, self.n_elements, self.counts)

    @property
    def rectangle(self) -> Torus:
        """The grid of a call that has one."""
        assert self.grid is not None
        return self.grid


@dataclass(frozen=True)
class Precondition:
    """What an algorithm needs of a call, in words and as a test."""

    text: str
    holds: Callable[[Call], bool]


RECTANGLE = Precondition("ranks fill a rectangle of a torus or mesh", lambda call: call.grid is not None)

CYCLE = Precondition(
    "a way leads through all nodes and back",
    lambda call: call.grid is None or hamiltonian.cycle(call.grid) is not None,
)
TREE = Precondition("the tree network serves these ranks", lambda call: call.tree)
INTEGER = Precondition("elements are integers", lambda call: call.integer)
INTERRUPTS = Precondition("interrupt wires serve these ranks", lambda call: call.interrupts)
EQUAL = Precondition("all blocks have one length", lambda call: call.counts is None)
POWER_OF_TWO = Precondition(
    "the number of ranks is a power of two", lambda call: call.n_ranks & (call.n_ranks - 1) == 0
)
SHORT = Precondition("vectors have at most 8 KB", lambda call: call.n_bytes <= 8192)


@dataclass(frozen=True)
class Algorithm:
    """A way to do a collective.

    Attributes
    ----------
    collective, name : str
    summary : str
        What it does, in a few words.
    build : callable
        Makes the schedule of a call that meets all that is required.
    requires : tuple of Precondition
    """

    collective: Collective
    name: str
    summary: str
    build: Callable[[Call], Schedule]
    requires: tuple[Precondition, ...] = ()

    def unmet(self, call: Call) -> list[str]:
        """Return what the call lacks."""
        return [needed.text for needed in self.requires if not needed.holds(call)]


def _packet(call: Call) -> int:
    return max(1, PACKET // call.itemsize)


_ALL = (
    Algorithm(
        "broadcast",
        "streams",
        "spanning trees that share no link, straight runs with the deposit bit",
        lambda call: streams.broadcast(call.rectangle, call.n_elements, _node_of_root(call)),
        (RECTANGLE,),
    ),
    Algorithm(
        "broadcast",
        "binomial",
        "all that hold the vector send it on; short vectors",
        lambda call: binomial.broadcast(call.n_ranks, call.n_elements, call.root),
    ),
    Algorithm(
        "broadcast",
        "scatter-allgather",
        "a part to each rank, then round a ring; long vectors",
        lambda call: scatter_allgather.broadcast(call.n_ranks, call.n_elements, call.root),
    ),
    Algorithm(
        "broadcast",
        "scatter-doubling",
        "a part to each rank, then ever more exchanged; medium vectors",
        lambda call: scatter_allgather.broadcast_by_doubling(call.n_ranks, call.n_elements, call.root),
        (POWER_OF_TWO,),
    ),
    Algorithm(
        "broadcast",
        "tree",
        "up the tree network, and down to all",
        lambda call: tree.broadcast(call.n_ranks, call.n_elements, call.root),
        (TREE,),
    ),
    Algorithm(
        "reduce",
        "streams",
        "the broadcast's trees in reverse",
        lambda call: streams.reduce(call.rectangle, call.n_elements, _node_of_root(call)),
        (RECTANGLE,),
    ),
    Algorithm(
        "reduce",
        "hamiltonian",
        "along a path or both ways round a cycle: one neighbour each",
        lambda call: hamiltonian.reduce(call.rectangle, call.n_elements, _node_of_root(call)),
        (RECTANGLE,),
    ),
    Algorithm(
        "reduce",
        "binomial",
        "the binomial tree in reverse",
        lambda call: binomial.reduce(call.n_ranks, call.n_elements, call.root),
    ),
    Algorithm(
        "allreduce",
        "streams",
        "a reduce and a broadcast along the same trees",
        lambda call: streams.allreduce(call.rectangle, call.n_elements),
        (RECTANGLE,),
    ),
    Algorithm(
        "allreduce",
        "hamiltonian",
        "along a path to its end, and back",
        lambda call: hamiltonian.allreduce(call.rectangle, call.n_elements),
        (RECTANGLE,),
    ),
    Algorithm(
        "allreduce",
        "cycle",
        "both ways round a cycle, half of the vector each, and back",
        lambda call: hamiltonian.allreduce_both_ways(call.rectangle, call.n_elements),
        (RECTANGLE, CYCLE),
    ),
    Algorithm(
        "allreduce",
        "lines",
        "all tell their line, and add in the same order; short vectors",
        lambda call: lines.allreduce(call.rectangle, call.n_elements),
        (RECTANGLE, SHORT),
    ),
    Algorithm(
        "allreduce",
        "tree",
        "combine on the way up, broadcast on the way down",
        lambda call: tree.allreduce(call.n_ranks, call.n_elements),
        (TREE, INTEGER),
    ),
    Algorithm(
        "allreduce",
        "recursive-doubling",
        "whole vectors with ranks 1, 2, 4, ... away; short vectors",
        lambda call: recursive_doubling.allreduce(call.n_ranks, call.n_elements),
    ),
    Algorithm(
        "allreduce",
        "rabenseifner",
        "reduce-scatter by halving, all-gather by doubling; long vectors",
        lambda call: rabenseifner.allreduce(call.n_ranks, call.n_elements),
    ),
    Algorithm(
        "allreduce",
        "ring",
        "parts twice round a ring; any number of ranks",
        lambda call: ring.allreduce(call.n_ranks, call.n_elements),
    ),
    Algorithm(
        "alltoall",
        "random-order",
        "a few packets to each rank in one random order, each from another place",
        lambda call: random_order.alltoall(call.blocks, _packet(call)),
    ),
    Algorithm(
        "alltoall",
        "bruck",
        "store and forward, a binary digit a round; short blocks",
        lambda call: bruck.alltoall(call.blocks),
        (EQUAL,),
    ),
    Algorithm("alltoall", "all-post", "all at once", lambda call: pairwise.all_post(call.blocks)),
    Algorithm(
        "alltoall",
        "pairwise",
        "one partner after the other; long blocks",
        lambda call: pairwise.pairwise(call.blocks),
    ),
    Algorithm(
        "barrier",
        "lines",
        "a token to the whole line, one dimension after the other",
        lambda call: lines.barrier(call.rectangle),
        (RECTANGLE,),
    ),
    Algorithm("barrier", "tree", "one packet up and down", lambda call: tree.barrier(call.n_ranks), (TREE,)),
    Algorithm(
        "barrier", "interrupt", "an OR of wires", lambda call: interrupt.barrier(call.n_ranks), (INTERRUPTS,)
    ),
    Algorithm(
        "barrier",
        "recursive-doubling",
        "an all-reduce of one token",
        lambda call: recursive_doubling.barrier(call.n_ranks),
    ),
    Algorithm(
        "barrier",
        "dissemination",
        "tell the ranks 1, 2, 4, ... above",
        lambda call: dissemination.barrier(call.n_ranks),
    ),
)

ALGORITHMS: dict[tuple[Collective, str], Algorithm] = {(of.collective, of.name): of for of in _ALL}


def algorithms(collective: Collective) -> list[Algorithm]:
    """Return the algorithms of a collective."""
    return [algorithm for algorithm in _ALL if algorithm.collective == collective]


def make(call: Call, name: str = "auto") -> Schedule:
    """Return the schedule of a call.

    Parameters
    ----------
    call : Call
    name : str
        Of an algorithm. "auto": what `choose` says.

    Raises
    ------
    ScheduleError
        If there is no such algorithm, or the call does not meet its preconditions.
    """
    name = choose(call) if name == "auto" else name
    algorithm = ALGORITHMS.get((call.collective, name))
    if algorithm is None:
        known = [found.name for found in algorithms(call.collective)]
        raise ScheduleError(f"there is no {call.collective} '{name}'", mend=did_you_mean(name, known))
    unmet = algorithm.unmet(call)
    if unmet:
        raise ScheduleError(
            f"{call.collective} '{name}' cannot be used: it needs that {'; '.join(unmet)}",
            mend=f"'{choose(call)}' can",
        )
    schedule = algorithm.build(call)
    if call.ranks is None or RECTANGLE not in algorithm.requires:
        return schedule
    return on_ranks(schedule, call.ranks)


# Bytes from which algorithms change: BlueGene/L's broadcast at 2 KB (Almasi et al. 2005, 5.1), MPICH2's
# all-to-all at 256 bytes and 32 KB (5.3), MPICH's short all-reduce up to 2 KB and broadcast up to 12 KB
# and from 512 KB (Thakur, Rabenseifner and Gropp 2005).
LONG_ON_GRID = 2048
BRUCK, ALL_POST = 256, 32768
SHORT_ALLREDUCE, SHORT_BROADCAST, LONG_BROADCAST = 2048, 12288, 524288


def choose(call: Call) -> str:
    """Return the algorithm that suits a call: a function of the call alone, which all ranks share.

    Special wires come first, then the grid, then what works on any ranks.
    """
    return {
        "broadcast": _broadcast,
        "reduce": lambda call: "hamiltonian" if _long_on_grid(call) else "binomial",
        "allreduce": _allreduce,
        "alltoall": _alltoall,
        "barrier": _barrier,
    }[call.collective](call)


def _long_on_grid(call: Call) -> bool:
    return call.grid is not None and call.n_bytes >= LONG_ON_GRID


def _broadcast(call: Call) -> str:
    if call.tree and call.n_bytes >= LONG_ON_GRID:
        return "tree"
    if _long_on_grid(call):
        return "streams"
    return default_broadcast(call)


def default_broadcast(call: Call) -> str:
    """Return the algorithm by which MPICH broadcasts, which needs neither a grid nor wires."""
    if call.n_bytes <= SHORT_BROADCAST:
        return "binomial"
    medium = call.n_bytes < LONG_BROADCAST and POWER_OF_TWO.holds(call)
    return "scatter-doubling" if medium else "scatter-allgather"


def _allreduce(call: Call) -> str:
    if call.tree and call.integer:
        return "tree"
    if call.grid is not None:
        return "lines" if call.n_bytes <= LONG_ON_GRID else "hamiltonian"
    if call.n_bytes <= SHORT_ALLREDUCE or call.n_elements < call.n_ranks:
        return "recursive-doubling"
    return "rabenseifner"


def _alltoall(call: Call) -> str:
    if call.grid is not None:
        return "random-order"
    if call.n_bytes <= BRUCK and EQUAL.holds(call):
        return "bruck"
    return "all-post" if call.n_bytes <= ALL_POST else "pairwise"


def _barrier(call: Call) -> str:
    if call.interrupts:
        return "interrupt"
    if call.tree:
        return "tree"
    return "dissemination" if call.grid is None else "lines"


def call_on(partition: Partition, collective: Collective, n_elements: int = 0, **given: Any) -> Call:
    """Return a call of all ranks of a partition of BlueGene/L, with the wires that it has.

    Parameters
    ----------
    partition : Partition
    collective : str
    n_elements : int
    **given
        `itemsize`, `integer`, `root` and `counts` of `Call`.
    """
    return Call(
        collective,
        partition.n_ranks,
        n_elements,
        grid=partition.rank_grid,
        tree=partition.has_tree(partition.n_ranks),
        interrupts=partition.has_interrupts,
        **given,
    )


def on_machine(machine: Torus, nodes: npt.ArrayLike) -> tuple[Torus, npt.NDArray[np.int64] | None]:
    """Return the grid of a sub-communicator, and the rank at each of its nodes: None where rank r is node r.

    Parameters
    ----------
    machine : Torus
    nodes : int (n_ranks,)
        The machine's node of each rank, in the order of the ranks.

    Raises
    ------
    ScheduleError
        If the nodes do not fill a rectangle.
    """
    place = np.asarray(nodes, np.int64)
    found = find_rectangle(machine, place)
    if found is None:
        raise ScheduleError(
            f"{len(place)} nodes do not fill a rectangle of {machine}",
            mend="choose an algorithm without a grid, or other nodes",
        )
    order = np.argsort(place)
    ranks = order[np.searchsorted(place[order], found.nodes)]
    return found.grid, None if np.array_equal(ranks, np.arange(len(ranks))) else ranks


def _node_of_root(call: Call) -> int:
    if call.ranks is None:
        return call.root
    return int(np.flatnonzero(call.ranks == call.root)[0])
