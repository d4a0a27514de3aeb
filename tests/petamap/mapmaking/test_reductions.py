"""The reduction that a run asks for is the one that its solver makes, counted message by message."""

import tempfile

import numpy as np
import pytest
from mpi import run_ranks
from small_runs import noisy_scans, run_on
from small_systems import make_system

from petamap.mapmaking.vectors import stack
from petamap.sky.healpix import Healpix

OFF = dict.fromkeys(("hits", "covariance", "rcond", "residual", "binned", "maps"), False)


def pairs_of(rows):
    """Return the ranks with which this one shares keys, and the keys that they share, by NumPy."""
    everyone = rows.comm.allgather(rows.plan.index_map.keys)
    own = everyone.pop(rows.comm.rank)
    shared = np.array([len(np.intersect1d(own, other)) for other in everyone])
    return np.count_nonzero(shared), int(shared.sum())


def sent_by(system, width=2):
    """Return the messages and bytes that this rank sends to single others when A is applied once."""
    operator, comm = system.operator(), system.comm
    vectors = stack([system.shared.zeros(3)] * width)
    operator.apply(vectors)
    messages, n_bytes = comm.messages_sent, comm.traffic["alltoallv"].bytes
    operator.apply(vectors)
    return comm.messages_sent - messages, comm.traffic["alltoallv"].bytes - n_bytes


def solver_exchanges(comm):
    made, grid = noisy_scans(3000, 2), Healpix(8, nest=True)
    for reduction in ("owner", "pairwise", "butterfly", "hierarchical", "hybrid"):
        system = make_system(made, grid, comm, n_lag=64, rcond_min=1e-2, reduction=reduction)
        pixels, gaps = system.shared.pixels, system.shared.gaps
        assert pixels.plan.chosen == reduction
        messages, n_bytes = sent_by(system)
        assert n_bytes == pixels.plan.bytes_per_call(6, 8) + gaps.plan.bytes_per_call(2, 8)
        if reduction == "pairwise":
            ranks, rows = zip(pairs_of(pixels), pairs_of(gaps), strict=True)
            assert messages == sum(ranks) and n_bytes == 8 * 2 * (3 * rows[0] + rows[1])
            published = comm.allgather(messages)
    done = run_on(
        made, comm.bcast(tempfile.mkdtemp()), comm, products=OFF,
        solver={"max_iterations": 3, "rcond_min": 1e-2},
        comm={"reduction": "pairwise", "distribution": "streams"},
    )  # fmt: skip
    (phase,) = [phase for phase in done.phases if phase.name == "iterations"]
    # A is applied once more to compute the residual anew.
    assert done.solver.iterations == 3
    assert (phase.messages.min, phase.messages.max) == (4 * min(published), 4 * max(published))


@pytest.mark.parametrize("n_ranks", [3])
def test_the_solver_makes_the_exchanges_that_are_asked_for(n_ranks):
    run_ranks(solver_exchanges, n_ranks)
