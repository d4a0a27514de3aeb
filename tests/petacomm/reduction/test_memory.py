"""Memory of plans: as reported, and below a bound."""

import sys
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks

from petacomm.base.timers import Timers
from petacomm.costs.options import ReductionOptions
from petacomm.mpi import MpiCommunicator, SerialCommunicator
from petacomm.mpi.shared_memory import SharedWindow
from petacomm.reduction import ALGORITHMS, ReductionPlan
from petacomm.reduction.node_exchange import NodeExchange
from petacomm.reduction.node_vectors import NodeVectors
from petacomm.reduction.row_exchange import GrowingBuffer
from petacomm.reduction.striped_allreduce import StripedAllreduce
from petacomm.sharing import IndexMap

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from patterns import full_year, litebird_like, neighbours

del sys.path[0]  # benchmarks and rooms of tests have the same names

MOST_BYTES_A_KEY = 24
PATTERNS = {
    "N": lambda rank, size: neighbours(rank, size, 512),
    "P": lambda rank, size: full_year(rank, size, 128),
    "L": lambda rank, size: litebird_like(rank, size, 64),
}
# Buffers of values, and objects that all ranks share.
LEFT_OUT = (MpiCommunicator, SerialCommunicator, SharedWindow, GrowingBuffer, Timers, ReductionOptions)
SHARED = {
    NodeVectors: {"_owned", "_copies", "_bases"},
    NodeExchange: {"_memory"},
    StripedAllreduce: {"_memory"},
}


def arrays_of(thing, found, seen):
    """Collect all arrays that an object refers to, by address; message slots are views of buffers."""
    if id(thing) in seen or isinstance(thing, LEFT_OUT):
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        found[thing.__array_interface__["data"][0]] = thing.nbytes
    elif isinstance(thing, list | tuple | set | dict):
        for part in thing.values() if isinstance(thing, dict) else thing:
            arrays_of(part, found, seen)
    elif type(thing).__module__.startswith("petacomm") and hasattr(thing, "__dict__"):
        for name, part in vars(thing).items():
            if name not in SHARED.get(type(thing), {"_buffers"}) | {"_buffers"}:
                arrays_of(part, found, seen)


def audit(plan):
    found = {}
    arrays_of(plan, found, set())
    rows = getattr(plan._executor, "_vectors", None)
    own_rows = plan.index_map.n_keys if isinstance(rows, NodeVectors) else 0  # one byte each, of `_owned`
    return sum(found.values()) + own_rows


def memory(comm):
    for name, keys_of in PATTERNS.items():
        index_map = IndexMap(comm, keys_of(comm.rank, comm.size))
        n_keys = index_map.n_keys
        for algorithm in ALGORITHMS:
            plan = ReductionPlan(index_map, algorithm=algorithm)
            values = np.ones((n_keys, 3))
            plan.allreduce(values)
            assert plan.nbytes < MOST_BYTES_A_KEY * n_keys, (name, algorithm, plan.nbytes / n_keys)
            assert abs(plan.nbytes - audit(plan)) < 2000, (
                name,
                algorithm,
            )  # counts that grow with the number of ranks
            assert plan.buffer_bytes > 0 or comm.size == 1
            plan.reduce(values)
            plan.broadcast(values)
            assert plan.nbytes < MOST_BYTES_A_KEY * n_keys, (name, algorithm, "in halves")
            assert abs(plan.nbytes - audit(plan)) < 2000, (name, algorithm, "in halves")
            assert "bytes a key of a rank, its keys included" in plan.report()


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_plans_keep_less_than_24_bytes_a_key(n_ranks):
    run_ranks(memory, n_ranks)


def test_plans_keep_less_than_24_bytes_a_key_on_several_nodes(monkeypatch):
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", "2")
    run_ranks(memory, 5)


def test_a_single_process_keeps_keys_owners_and_multiplicities():
    plan = ReductionPlan(IndexMap(SerialCommunicator(), np.arange(1000)))
    plan.allreduce(np.ones(1000))
    assert 10 * 1000 <= plan.nbytes < 11 * 1000 and plan.buffer_bytes == 0
