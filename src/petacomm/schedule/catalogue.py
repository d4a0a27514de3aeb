"""Catalogue of the algorithms, their preconditions, and the published choice of one for a call.

That choice is a function of the `CollectiveCall` alone: ranks that agree on the call choose the same
algorithm. Where a machine is known, `petacomm.network.predictions.choose_algorithm` predicts the times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from petacomm.base.arguments import require_instance, require_text
from petacomm.base.errors import did_you_mean
from petacomm.schedule.algorithms.binomial import binomial_broadcast, binomial_reduce
from petacomm.schedule.algorithms.bruck import bruck_alltoall
from petacomm.schedule.algorithms.combining_tree import tree_allreduce, tree_barrier, tree_broadcast
from petacomm.schedule.algorithms.dissemination import dissemination_barrier
from petacomm.schedule.algorithms.edge_disjoint import (
    edge_disjoint_allreduce,
    edge_disjoint_broadcast,
    edge_disjoint_reduce,
)
from petacomm.schedule.algorithms.global_interrupt import interrupt_barrier
from petacomm.schedule.algorithms.hamiltonian import (
    hamiltonian_allreduce,
    hamiltonian_cycle,
    hamiltonian_cycle_allreduce,
    hamiltonian_reduce,
)
from petacomm.schedule.algorithms.pairwise import all_post_alltoall, pairwise_alltoall
from petacomm.schedule.algorithms.rabenseifner import rabenseifner_allreduce
from petacomm.schedule.algorithms.random_order import random_order_alltoall
from petacomm.schedule.algorithms.rectangle_lines import lines_allreduce, lines_barrier
from petacomm.schedule.algorithms.recursive_doubling import (
    recursive_doubling_allreduce,
    recursive_doubling_barrier,
)
from petacomm.schedule.algorithms.ring import ring_allreduce
from petacomm.schedule.algorithms.scatter_allgather import (
    scatter_allgather_broadcast,
    scatter_doubling_broadcast,
)
from petacomm.schedule.collective_call import CollectiveCall
from petacomm.schedule.schedule import Collective, Schedule, ScheduleError, permute_ranks

PUBLISHED = "published"  # the policy of `published_algorithm`, where the name of an algorithm is asked
PACKET_PAYLOAD = 240  # bytes, of a full packet of BlueGene/L (Almasi et al. 2005, 3.1)


@dataclass(frozen=True)
class Precondition:
    """Precondition of an algorithm: a text that describes it, and a predicate of calls."""

    text: str
    holds: Callable[[CollectiveCall], bool]


RECTANGLE = Precondition("ranks fill a rectangle of a torus or mesh", lambda call: call.grid is not None)

CYCLE = Precondition(
    "the grid has a Hamiltonian cycle",
    lambda call: call.grid is None or hamiltonian_cycle(call.grid) is not None,
)
TREE = Precondition("the tree network serves these ranks", lambda call: call.has_tree)
INTEGER = Precondition("elements are integers", lambda call: call.integer)
INTERRUPTS = Precondition("interrupt wires serve these ranks", lambda call: call.has_interrupts)
EQUAL = Precondition("all blocks have one length", lambda call: call.counts is None)
POWER_OF_TWO = Precondition(
    "the number of ranks is a power of two", lambda call: call.n_ranks & (call.n_ranks - 1) == 0
)
SHORT = Precondition("vectors have at most 8 KB", lambda call: call.n_bytes <= 8192)


@dataclass(frozen=True)
class CollectiveAlgorithm:
    """An algorithm of a collective.

    Attributes
    ----------
    collective, name : str
    summary : str
        Description in a few words.
    build : callable
        Returns the schedule of a call that meets all preconditions.
    requires : tuple of Precondition
    """

    collective: Collective
    name: str
    summary: str
    build: Callable[[CollectiveCall], Schedule]
    requires: tuple[Precondition, ...] = ()

    def unmet_preconditions(self, call: CollectiveCall) -> list[str]:
        """Return the texts of the preconditions that a call does not meet."""
        return [needed.text for needed in self.requires if not needed.holds(call)]


def _packet_elements(call: CollectiveCall) -> int:
    return max(1, PACKET_PAYLOAD // call.itemsize)


_ALL = (
    CollectiveAlgorithm(
        "broadcast",
        "streams",
        "spanning trees that share no link, straight runs with the deposit bit",
        lambda call: edge_disjoint_broadcast(call.required_grid, call.n_elements, call.root_node),
        (RECTANGLE,),
    ),
    CollectiveAlgorithm(
        "broadcast",
        "binomial",
        "all that hold the vector send it on; short vectors",
        lambda call: binomial_broadcast(call.n_ranks, call.n_elements, call.root),
    ),
    CollectiveAlgorithm(
        "broadcast",
        "scatter-allgather",
        "a part to each rank, then round a ring; long vectors",
        lambda call: scatter_allgather_broadcast(call.n_ranks, call.n_elements, call.root),
    ),
    CollectiveAlgorithm(
        "broadcast",
        "scatter-doubling",
        "a part to each rank, then ever more exchanged; medium vectors",
        lambda call: scatter_doubling_broadcast(call.n_ranks, call.n_elements, call.root),
        (POWER_OF_TWO,),
    ),
    CollectiveAlgorithm(
        "broadcast",
        "tree",
        "up the tree network, and down to all",
        lambda call: tree_broadcast(call.n_ranks, call.n_elements, call.root),
        (TREE,),
    ),
    CollectiveAlgorithm(
        "reduce",
        "streams",
        "the broadcast's trees in reverse",
        lambda call: edge_disjoint_reduce(call.required_grid, call.n_elements, call.root_node),
        (RECTANGLE,),
    ),
    CollectiveAlgorithm(
        "reduce",
        "hamiltonian",
        "along a path or both ways round a cycle: one neighbour each",
        lambda call: hamiltonian_reduce(call.required_grid, call.n_elements, call.root_node),
        (RECTANGLE,),
    ),
    CollectiveAlgorithm(
        "reduce",
        "binomial",
        "the binomial tree in reverse",
        lambda call: binomial_reduce(call.n_ranks, call.n_elements, call.root),
    ),
    CollectiveAlgorithm(
        "allreduce",
        "streams",
        "a reduce and a broadcast along the same trees",
        lambda call: edge_disjoint_allreduce(call.required_grid, call.n_elements),
        (RECTANGLE,),
    ),
    CollectiveAlgorithm(
        "allreduce",
        "hamiltonian",
        "along a path to its end, and back",
        lambda call: hamiltonian_allreduce(call.required_grid, call.n_elements),
        (RECTANGLE,),
    ),
    CollectiveAlgorithm(
        "allreduce",
        "cycle",
        "both ways round a cycle, half of the vector each, and back",
        lambda call: hamiltonian_cycle_allreduce(call.required_grid, call.n_elements),
        (RECTANGLE, CYCLE),
    ),
    CollectiveAlgorithm(
        "allreduce",
        "lines",
        "each rank broadcasts to its line, all add in the same order; short vectors",
        lambda call: lines_allreduce(call.required_grid, call.n_elements),
        (RECTANGLE, SHORT),
    ),
    CollectiveAlgorithm(
        "allreduce",
        "tree",
        "combine on the way up, broadcast on the way down",
        lambda call: tree_allreduce(call.n_ranks, call.n_elements),
        (TREE, INTEGER),
    ),
    CollectiveAlgorithm(
        "allreduce",
        "recursive-doubling",
        "whole vectors with ranks 1, 2, 4, ... away; short vectors",
        lambda call: recursive_doubling_allreduce(call.n_ranks, call.n_elements),
    ),
    CollectiveAlgorithm(
        "allreduce",
        "rabenseifner",
        "reduce-scatter by halving, all-gather by doubling; long vectors",
        lambda call: rabenseifner_allreduce(call.n_ranks, call.n_elements),
    ),
    CollectiveAlgorithm(
        "allreduce",
        "ring",
        "parts twice round a ring; any number of ranks",
        lambda call: ring_allreduce(call.n_ranks, call.n_elements),
    ),
    CollectiveAlgorithm(
        "alltoall",
        "random-order",
        "a few packets to each rank in one random order, each from another place",
        lambda call: random_order_alltoall(call.blocks, _packet_elements(call)),
    ),
    CollectiveAlgorithm(
        "alltoall",
        "bruck",
        "store and forward, a binary digit a round; short blocks",
        lambda call: bruck_alltoall(call.blocks),
        (EQUAL,),
    ),
    CollectiveAlgorithm("alltoall", "all-post", "all at once", lambda call: all_post_alltoall(call.blocks)),
    CollectiveAlgorithm(
        "alltoall",
        "pairwise",
        "one partner after the other; long blocks",
        lambda call: pairwise_alltoall(call.blocks),
    ),
    CollectiveAlgorithm(
        "barrier",
        "lines",
        "a token to the whole line, one dimension after the other",
        lambda call: lines_barrier(call.required_grid),
        (RECTANGLE,),
    ),
    CollectiveAlgorithm(
        "barrier", "tree", "one packet up and down", lambda call: tree_barrier(call.n_ranks), (TREE,)
    ),
    CollectiveAlgorithm(
        "barrier", "interrupt", "an OR of wires", lambda call: interrupt_barrier(call.n_ranks), (INTERRUPTS,)
    ),
    CollectiveAlgorithm(
        "barrier",
        "recursive-doubling",
        "an all-reduce of one token",
        lambda call: recursive_doubling_barrier(call.n_ranks),
    ),
    CollectiveAlgorithm(
        "barrier",
        "dissemination",
        "signal the ranks 1, 2, 4, ... above",
        lambda call: dissemination_barrier(call.n_ranks),
    ),
)

ALGORITHMS: dict[tuple[Collective, str], CollectiveAlgorithm] = {
    (algorithm.collective, algorithm.name): algorithm for algorithm in _ALL
}


def list_algorithms(collective: Collective) -> list[CollectiveAlgorithm]:
    """Return the algorithms of a collective."""
    return [algorithm for algorithm in _ALL if algorithm.collective == collective]


def make_schedule(call: CollectiveCall, name: str = PUBLISHED) -> Schedule:
    """Return the schedule of a call.

    Parameters
    ----------
    call : CollectiveCall
    name : str
        Name of an algorithm, or "published" for that of `published_algorithm`.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If there is no such algorithm, or the call does not meet its preconditions.

    Examples
    --------
    >>> import petacomm
    >>> schedule = petacomm.make_schedule(petacomm.CollectiveCall("allreduce", 8, 100), "ring")
    >>> schedule.algorithm
    'ring'
    """
    require_instance(call, "call", CollectiveCall, "make one: CollectiveCall('allreduce', 8, 100)")
    require_text(name, "name")
    name = published_algorithm(call) if name == PUBLISHED else name
    algorithm = ALGORITHMS.get((call.collective, name))
    if algorithm is None:
        known = [PUBLISHED, *(other.name for other in list_algorithms(call.collective))]
        raise ScheduleError(f"there is no {call.collective} '{name}'", mend=did_you_mean(name, known))
    unmet = algorithm.unmet_preconditions(call)
    if unmet:
        raise ScheduleError(
            f"{call.collective} '{name}' cannot be used: it needs that {'; '.join(unmet)}",
            mend=f"'{published_algorithm(call)}' can",
        )
    schedule = algorithm.build(call)
    if call.ranks is None or RECTANGLE not in algorithm.requires:
        return schedule
    return permute_ranks(schedule, call.ranks)


# Switching points in bytes: BlueGene/L's broadcast at 2 KB (Almasi et al. 2005, 5.1), MPICH2's all-to-all at
# 256 bytes and 32 KB (5.3), MPICH's all-reduce at 2 KB and broadcast at 12 KB and 512 KB (Thakur,
# Rabenseifner and Gropp 2005).
LONG_ON_GRID = 2048
MAX_BRUCK, MAX_ALL_POST = 256, 32768
SHORT_ALLREDUCE, SHORT_BROADCAST, LONG_BROADCAST = 2048, 12288, 524288
_FEW_RANKS = 8  # fewer broadcast along a tree, whatever the size (MPICH)


def published_algorithm(call: CollectiveCall) -> str:
    """Return the name of the algorithm that is chosen by the published switching points, on any machine.

    Algorithms for special networks come first, then those for grids, then those for any ranks.
    """
    return {
        "broadcast": _broadcast,
        "reduce": lambda call: "hamiltonian" if _long_on_grid(call) else "binomial",
        "allreduce": _allreduce,
        "alltoall": _alltoall,
        "barrier": _barrier,
    }[call.collective](call)


def _long_on_grid(call: CollectiveCall) -> bool:
    return call.grid is not None and call.n_bytes >= LONG_ON_GRID


def _broadcast(call: CollectiveCall) -> str:
    if call.has_tree and call.n_bytes >= LONG_ON_GRID:
        return "tree"
    if _long_on_grid(call):
        return "streams"
    return mpich_broadcast(call)


def mpich_broadcast(call: CollectiveCall) -> str:
    """Return the name of MPICH's broadcast algorithm, which needs neither a grid nor a special network."""
    if call.n_bytes < SHORT_BROADCAST or call.n_ranks < _FEW_RANKS:
        return "binomial"
    medium = call.n_bytes < LONG_BROADCAST and POWER_OF_TWO.holds(call)
    return "scatter-doubling" if medium else "scatter-allgather"


def _allreduce(call: CollectiveCall) -> str:
    if call.has_tree and call.integer:
        return "tree"
    if call.grid is not None:
        return "lines" if call.n_bytes <= LONG_ON_GRID else "hamiltonian"
    if call.n_bytes <= SHORT_ALLREDUCE or call.n_elements < call.n_ranks:
        return "recursive-doubling"
    return "rabenseifner"


def _alltoall(call: CollectiveCall) -> str:
    if call.grid is not None:
        return "random-order"
    if call.n_bytes <= MAX_BRUCK and EQUAL.holds(call):
        return "bruck"
    return "all-post" if call.n_bytes <= MAX_ALL_POST else "pairwise"


def _barrier(call: CollectiveCall) -> str:
    if call.has_interrupts:
        return "interrupt"
    if call.has_tree:
        return "tree"
    return "dissemination" if call.grid is None else "lines"
