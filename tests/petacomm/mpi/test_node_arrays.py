"""Arrays that a node has once: the same on all ranks, with or without memory to share."""

from unittest import mock

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.base.errors import DataError, ResourceError
from petacomm.mpi import (
    SerialCommunicator,
    collect_on_nodes,
    exchange_on_nodes,
    fill_on_nodes,
    share_on_nodes,
    spread_on_nodes,
)


def check_arrays(comm):
    made = []

    def make():
        made.append(comm.rank)
        return np.arange(12.0).reshape(3, 4).T

    node = comm.node()
    found = share_on_nodes(comm, make)
    np.testing.assert_array_equal(found, np.arange(12.0).reshape(3, 4).T)
    assert made == ([comm.rank] if node.rank == 0 else [])
    if node.size > 1:  # one and the same memory
        node.barrier()
        if node.rank == node.size - 1:
            found[0, 0] = 77
        node.barrier()
        assert found[0, 0] == 77
    values = np.arange(10, dtype=np.int32).reshape(2, 5) if comm.rank == 0 else None
    np.testing.assert_array_equal(spread_on_nodes(comm, values), np.arange(10).reshape(2, 5))
    with mock.patch.object(type(comm), "shared_window", side_effect=ResourceError("no room")):
        np.testing.assert_array_equal(spread_on_nodes(comm, values), np.arange(10).reshape(2, 5))

    def fail():
        raise DataError("no such map")

    with pytest.raises(DataError, match="no such map"):
        share_on_nodes(comm, fail)


def check_parts(comm):
    node = comm.node()

    def fill(values):
        values[node.rank :: node.size] = np.arange(7.0)[node.rank :: node.size, None] + [0, 0.5]

    expected = np.arange(7.0)[:, None] + [0, 0.5]
    np.testing.assert_array_equal(fill_on_nodes(comm, (7, 2), np.float64, fill), expected)
    with mock.patch.object(type(comm), "shared_window", side_effect=ResourceError("no room")):
        np.testing.assert_array_equal(fill_on_nodes(comm, (7, 2), np.float64, fill), expected)


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("per_node", ["", "2"])
def test_ranks_of_a_node_write_parts_of_an_array(n_ranks, per_node, monkeypatch):
    if per_node:
        monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", per_node)
    run_ranks(check_parts, n_ranks)


def check_collected(comm):
    n, rng = 101, np.random.default_rng(5)
    values, owners = rng.standard_normal(n), rng.integers(-1, comm.size, n)  # -1: of no rank
    own = rng.permutation(np.flatnonzero(owners == comm.rank))
    expected = np.where(owners < 0, 0.0, values)
    found = collect_on_nodes(comm, n, own, values[own])
    np.testing.assert_array_equal(found, expected)
    with mock.patch.object(type(comm), "shared_window", side_effect=ResourceError("no room")):
        np.testing.assert_array_equal(collect_on_nodes(comm, n, own, values[own]), expected)
    node = comm.node()
    if node.size > 1:  # one and the same memory
        node.barrier()
        if node.rank == 0:
            found[:] = 7
        node.barrier()
        assert found[0] == 7
    none = np.zeros(0)
    assert collect_on_nodes(comm, 3, none.astype(np.int64), none).tolist() == [0, 0, 0]


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("per_node", ["", "2", "3"])
def test_each_node_has_the_values_of_all_ranks(n_ranks, per_node, monkeypatch):
    if per_node:
        monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", per_node)
    run_ranks(check_collected, n_ranks)


def check_exchange(comm):
    node = comm.node()
    made = {10 * node.rank + k: {"a": np.full(1000, k + node.rank), "b": "text"} for k in range(3)}
    wanted = [0, 10 * (node.size - 1) + 2]
    found = exchange_on_nodes(comm, made, wanted)
    assert sorted(found) == sorted(set(wanted))
    for number, one in found.items():
        np.testing.assert_array_equal(one["a"], np.full(1000, number // 10 + number % 10))
        assert one["b"] == "text" and (comm.size == 1 or not one["a"].flags.writeable)
    assert exchange_on_nodes(comm, {}, []) == {}


@pytest.mark.parametrize("n_ranks", [1, 3, 5])
@pytest.mark.parametrize("per_node", ["", "2"])
def test_ranks_of_a_node_get_what_others_have_made(n_ranks, per_node, monkeypatch):
    if per_node:
        monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", per_node)
    run_ranks(check_exchange, n_ranks)


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("per_node", ["", "2"])
def test_a_node_has_an_array_once(n_ranks, per_node, monkeypatch):
    if per_node:
        monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", per_node)
    run_ranks(check_arrays, n_ranks)


def test_one_process_makes_its_own():
    made = np.arange(6)
    assert share_on_nodes(SerialCommunicator(), lambda: made) is made
