"""Hypothesis strategies of grids, and schedules of all algorithms."""

import numpy as np
from hypothesis import strategies as st

from petacomm.schedule import CollectiveCall, flat_messages, list_algorithms
from petacomm.schedule.algorithms.hamiltonian import hamiltonian_cycle
from petacomm.topology import Torus

COLLECTIVES = ("broadcast", "reduce", "allreduce", "alltoall", "barrier")
# Grids of so many ranks.
SHAPES = {1: (1,), 2: (2,), 3: (3,), 4: (2, 2), 6: (3, 2), 8: (2, 2, 2), 12: (3, 4)}


def grids(largest):
    """Return a strategy of tori, meshes and mixtures of 1 to 4 dimensions with at most `largest` nodes."""

    def with_wraps(shape):
        wraps = st.one_of(st.booleans(), st.tuples(*[st.booleans()] * len(shape)))
        return wraps.map(lambda wrap: Torus(shape, wrap))

    sizes = st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 7, 8, 16, 31, 64]), min_size=1, max_size=4)
    return sizes.filter(lambda shape: np.prod(shape) <= largest).map(tuple).flatmap(with_wraps)


def all_schedules(n_ranks, n_elements, grid=None, root=0, counts=None):
    """Iterate over the schedules of all algorithms that can be used on `n_ranks` ranks."""
    for collective in COLLECTIVES:
        call = CollectiveCall(
            collective,
            n_ranks,
            n_elements,
            integer=True,
            root=root,
            grid=grid,
            has_tree=True,
            has_interrupts=True,
            counts=counts if collective == "alltoall" else None,
        )
        for algorithm in list_algorithms(collective):
            if not algorithm.unmet_preconditions(call):
                yield algorithm.build(call)


def pair_schedules(grid, n_elements=11, root=0):
    """Iterate over those of messages between two ranks."""
    for schedule in all_schedules(grid.n_nodes, n_elements, grid, root):
        if schedule.network == "torus" and not flat_messages(schedule, 8).deposit.any():
            yield schedule


def algorithm_names(collective, n_ranks, grid):
    """Return the names of the algorithms that can be used."""
    left_out = {"cycle"} if hamiltonian_cycle(grid) is None else set()
    left_out |= {"scatter-doubling"} if n_ranks & (n_ranks - 1) else set()
    return [of.name for of in list_algorithms(collective) if of.name not in left_out]
