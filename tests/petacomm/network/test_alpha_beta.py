"""The alpha-beta model: closed forms against hand computation, loads, and contention within nodes."""

import dataclasses

import numpy as np
import pytest

from petacomm.network import LoadPhase, RankLoad, busiest_load, predict_seconds
from petacomm.network import alpha_beta as model
from petacomm.topology import Machine

MACHINE = Machine(
    name="round",
    title="Round numbers",
    nodes=4,
    sockets_per_node=1,
    cores_per_socket=2,
    latency=1e-6,
    bandwidth=1e9,
    node_bandwidth=2e9,
    local_latency=1e-7,
    local_bandwidth=4e9,
    memory_bandwidth=40e9,
    core_memory_bandwidth=10e9,
    row_time=1e-9,
    synchronisation=1e-5,
)


def test_closed_forms_against_hand_computation():
    alpha, beta = 2.0, 0.5
    assert model.message_seconds(10, alpha, beta) == 7.0
    assert model.allreduce_seconds(8, 80, alpha, beta) == 2 * 3 * 2.0 + 2 * 80 * 7 / 8 * 0.5
    assert model.buffered_allreduce_seconds(8, 80, 30, alpha, beta) == 3 * 2 * 3 * 2.0 + 2 * 80 * 7 / 8 * 0.5
    assert model.buffered_allreduce_seconds(8, 80, 80, alpha, beta) == model.allreduce_seconds(
        8, 80, alpha, beta
    )
    assert model.ring_allgather_seconds(4, 10, alpha, beta) == 3 * 7.0
    assert model.tree_allgather_seconds(4, 10, alpha, beta) == 2 * 2.0 + 3 * 10 * 0.5
    assert model.pairwise_alltoallv_seconds(7, 100, alpha, beta) == 7 * 2.0 + 100 * 0.5
    assert model.gather_setup_seconds(4, 100, 50, alpha, beta) == 2 * 2 * 2.0 + 3 * 100 * 0.5


def test_the_busiest_rank_and_the_busiest_node_are_found_count_by_count():
    node_of = np.array([0, 1, 0, 1], np.int32)
    share = RankLoad(messages=3.0, rows=np.array([5, 1, 2, 9]), off_node_rows=np.array([1, 1, 1, 0]), moved=2)
    (phase,) = busiest_load([share], node_of)
    assert (phase.messages, phase.node_messages) == (3.0, 6.0)
    assert (phase.rows, phase.node_rows, phase.off_node_rows) == (9.0, 10.0, 2.0)
    assert (phase.moved, phase.node_moved, phase.barriers) == (2.0, 4.0, 0.0)


def seconds(ranks_per_node=1, **counts):
    return predict_seconds((LoadPhase(**counts),), MACHINE, ranks_per_node, k=3, itemsize=8)


def test_a_phase_costs_its_messages_bytes_moves_and_waits():
    assert seconds(messages=5, node_messages=5) == pytest.approx(5e-7 + 1e-5)
    assert seconds(rows=1000, node_rows=1000) == pytest.approx(24000 / 4e9)
    assert seconds(moved=1000, node_moved=1000) == pytest.approx(1000 * (1e-9 + 48 / 10e9))
    assert seconds(ranks_per_node=2, barriers=2) == pytest.approx(2e-5)
    both = (LoadPhase(messages=5, node_messages=5), LoadPhase(moved=1000, node_moved=1000))
    assert predict_seconds(both, MACHINE, 1, 3, 8) == pytest.approx(5e-7 + 1e-5 + 1000 * (1e-9 + 48 / 10e9))


def test_ranks_of_a_node_share_its_bandwidth():
    alone = seconds(rows=1000, off_node_rows=1000)
    assert alone == pytest.approx(24000 / 1e9)
    assert seconds(2, rows=1000, off_node_rows=2000) == pytest.approx(alone)  # the node has room for two
    assert seconds(8, rows=1000, off_node_rows=8000) == pytest.approx(4 * alone)
    assert seconds(messages=5, node_messages=5, off_node_rows=1e-9) == pytest.approx(5e-6 + 1e-5)


def test_ranks_beyond_the_cores_take_turns():
    one = seconds(moved=1000, node_moved=1000)
    assert seconds(2, moved=1000, node_moved=1000) == pytest.approx(one)
    assert seconds(8, moved=1000, node_moved=8000) == pytest.approx(4 * one)
    assert seconds(8, messages=1, node_messages=8) == pytest.approx(4e-7 + 12e-5)
    assert seconds(8, rows=1, node_rows=8) == pytest.approx(4 * seconds(rows=1, node_rows=1))
    assert seconds(8, barriers=1) == pytest.approx(3 * 4 * 1e-5)


def test_cores_of_a_node_share_its_memory_bandwidth():
    slow = dataclasses.replace(MACHINE, memory_bandwidth=10e9)
    phase = LoadPhase(moved=1000, node_moved=2000)
    assert predict_seconds((phase,), slow, 2, 3, 8) == pytest.approx(2000 * 48 / 10e9)
