"""Loads of plans against the traffic of calls and explicit counts."""

import numpy as np
from mpi import run_ranks

from petacomm.costs import rank_counts as counting
from petacomm.costs.algorithm_loads import SendVolume, SharingCounts, dense_loads, loads_from_counts
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.rank_counts import count_ranks
from petacomm.mpi import SerialCommunicator
from petacomm.network import predict_seconds
from petacomm.reduction import ALGORITHMS, ReductionPlan
from petacomm.sharing import IndexMap
from petacomm.sharing.sharing_graph import SharingGraph
from petacomm.topology import load_machine


def keys_of(rank):
    """Runs that overlap with the next two ranks, and some keys that all ranks hold."""
    return np.union1d(np.arange(1000 * rank, 1000 * rank + 2500), np.arange(0, 20_000, 97))


def rows_sent(comm, plan):
    values = np.ones((plan.index_map.n_keys, 3))
    plan.allreduce(values)  # ranks agree in the first call, which is not counted
    before = comm.bytes_sent
    plan.allreduce(values)
    return (comm.bytes_sent - before) // 24


def loads(comm):
    index_map = IndexMap(comm, keys_of(comm.rank))
    for name in ALGORITHMS:
        # no dense keys in a hybrid: the traffic of MPI all-reduces is unknown
        plan = ReductionPlan(index_map, algorithm=name, buffer_keys=5000, theta=2, checks="first")
        load = plan.load()
        assert comm.allgather(load) == [load] * comm.size, "the load differs between ranks"
        assert predict_seconds(load, load_machine("one-node"), comm.size, 3, 8) > 0
        sent = comm.allgather(rows_sent(comm, plan))
        if name == "dense":  # the traffic of MPI is unknown, its arguments are not
            assert sent == [plan.n_global] * comm.size
            continue
        by_nodes = np.bincount(comm.node_of, sent)
        assert by_nodes.max() <= sum(phase.node_rows for phase in load) <= sum(sent), name
        assert max(sent) <= sum(phase.rows for phase in load) <= sum(sent), name
        partners = comm.allgather(len(plan.partners))
        classes = 2 if name == "hybrid" else 1  # each sends its own messages
        assert max(phase.messages for phase in load) <= classes * max(partners), name
        leaves = [phase.off_node_rows > 0 for phase in load]
        assert any(leaves) == (comm.node_of[-1] > 0), "what leaves a node"


def test_loads_equal_the_traffic_of_calls(monkeypatch):
    run_ranks(loads, 3)
    run_ranks(loads, 5)
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", "2")
    run_ranks(loads, 5)


def dense_between_nodes(comm):
    plan = ReductionPlan(IndexMap(comm, np.arange(900)), algorithm="hybrid")
    first, dense, *_ = plan.load()
    # Three nodes of 2, 2 and 1 ranks: one stripe, of which each node sends two thirds of 900 rows twice.
    assert first.messages == 0 and dense.messages == 4 and dense.barriers == 3
    assert dense.rows == dense.off_node_rows == dense.node_rows == 1200
    before = comm.traffic["allreduce"].bytes
    plan.allreduce(np.ones((900, 2)))
    plan.allreduce(np.ones((900, 2)))
    given = comm.traffic["allreduce"].bytes - before
    assert given >= 2 * 900 * 16 if comm.node().rank == 0 else given < 900


def test_a_hybrid_all_reduces_keys_of_all_nodes_densely(monkeypatch):
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", "2")
    run_ranks(dense_between_nodes, 5)


def dense_in_halves(comm):
    plan = ReductionPlan(
        IndexMap(comm, keys_of(comm.rank)), algorithm="dense", buffer_keys=5000, checks="first"
    )
    values = np.ones((plan.index_map.n_keys, 3))

    def bytes_given():
        plan.reduce(values)
        plan.broadcast(values)
        return {name: traffic.bytes for name, traffic in comm.traffic.items()}

    before, after = bytes_given(), bytes_given()
    given_bytes = {name: after[name] - before[name] for name in after if after[name] > before[name]}
    assert given_bytes == {"reduce_scatter": plan.n_global * 24, "allgather": int(plan.owned.sum()) * 24}


def test_dense_reduces_by_reduce_scatter_and_all_gather():
    run_ranks(dense_in_halves, 3)


def test_a_plan_of_one_rank_sends_nothing():
    comm = SerialCommunicator()
    for name in ALGORITHMS:
        load = ReductionPlan(IndexMap(comm, np.arange(10)), algorithm=name).load()
        assert all(phase.messages == 0 and phase.rows == 0 for phase in load)


def loads_on_one_node(comm):
    keys = keys_of(comm.rank)
    plan = ReductionPlan(IndexMap(comm, keys), algorithm="hierarchical")
    sharing = SharingCounts.from_graph(comm, keys, plan.graph)
    loads = loads_from_counts(sharing, plan.n_global, 5000, comm.node_of, comm.rank)["hierarchical"]
    shares = np.array(comm.allgather(loads))
    for phase, share in zip(plan.load(), shares.transpose(1, 2, 0), strict=True):
        assert phase.node_moved == share[3].sum() and phase.barriers == share[4].max()
        assert phase.messages == share[0].max() == 0


def test_loads_on_one_node_follow_from_counts():
    run_ranks(loads_on_one_node, 3)


def test_volumes_count_messages_rows_and_rows_off_node():
    node_of = np.array([0, 0, 1, 1], np.int32)
    assert SendVolume.from_counts(np.array([0, 5, 7, 0]), 0, node_of) == (2, 12, 7, 0)
    assert SendVolume.from_counts(np.array([0, 5, 7, 0]), 3, node_of, 4.0) == (2, 12, 5, 4)


def test_runs_end_at_gaps_other_multiplicities_and_multiples_of_64():
    keys = np.array([0, 1, 2, 5, 6, 7, 62, 63, 64, 65])
    holders = np.array([2, 2, 3, 3, 1, 2, 2, 2, 2, 2])
    graph = SharingGraph(np.zeros(10, np.int32), holders, 10)
    assert graph.n_runs(keys) == 6  # 0-1, 2, 5, 7, 62-63, 64-65
    assert SharingGraph.single_rank(10).n_runs(np.arange(10)) == 0


def test_runs_from_occupancy_equal_those_of_graphs(monkeypatch):
    rng = np.random.default_rng(4)
    parts = [np.flatnonzero(np.repeat(rng.random(300) < 0.6, rng.integers(1, 40, 300))) for _ in range(5)]
    occupancy, node_of = Occupancy.from_rank_keys(parts), np.zeros(5, np.int32)
    counts = count_ranks(occupancy, node_of)
    expected = []
    for keys in parts:
        holders = occupancy.multiplicity[np.searchsorted(occupancy.keys, keys)]
        expected.append(SharingGraph(np.zeros(len(keys), np.int32), holders, 0).n_runs(keys))
    np.testing.assert_array_equal(counts.n_runs[0], expected)
    monkeypatch.setattr(counting, "_PIECE", 100)
    np.testing.assert_allclose(
        count_ranks(occupancy, node_of), counts, rtol=1e-13
    )  # equal parts are fractions


def test_rows_off_node_of_recursive_halving():
    # 8 ranks on 2 nodes: after two halvings a rank holds a quarter of its node, and sends half of that
    node_of = np.repeat(np.arange(2, dtype=np.int32), 4)
    (share,) = dense_loads(100, 800, 1000, node_of)
    assert share.messages == 6 and share.rows == 2 * 800 * 7 / 8
    np.testing.assert_allclose(share.off_node_rows, 2 * 800 / 8)
    (single_node,) = dense_loads(100, 800, 100, np.zeros(8, np.int32))
    assert single_node.messages == 8 * 6 and not np.any(single_node.off_node_rows)
    (one_rank_a_node,) = dense_loads(100, 800, 1000, np.arange(8, dtype=np.int32), rank=3)
    assert one_rank_a_node.off_node_rows == one_rank_a_node.rows
