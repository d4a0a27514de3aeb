"""Placements: each rank has a slot, and no slot is used twice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.mapping import Placement
from petacomm.topology import Torus

GRID = Torus((2, 3))


def test_identity_fills_node_after_node() -> None:
    placed = Placement.identity(GRID, 2)
    assert placed.nodes.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert placed.slots.tolist() == [0, 1] * 6
    assert placed.ranks_by_slot.tolist() == list(range(12))


def test_fewer_ranks_than_places_leave_the_last_nodes_empty() -> None:
    assert Placement.identity(GRID, 2, 3).nodes.tolist() == [0, 0, 1]


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.data())
def test_random_places_are_distinct_and_seeded(seed: int, width: int, data: st.DataObject) -> None:
    n_ranks = data.draw(st.integers(0, 6 * width))
    placed = Placement.random(GRID, width, n_ranks, seed=seed)
    assert len(set(placed.slot_numbers.tolist())) == n_ranks
    assert placed == Placement.random(GRID, width, n_ranks, seed=seed)
    assert hash(placed) == hash(Placement.random(GRID, width, n_ranks, seed=seed))


def test_random_differs_between_seeds() -> None:
    assert Placement.random(GRID, 4, seed=1) != Placement.random(GRID, 4, seed=2)


@settings(deadline=None)
@given(st.permutations([0, 0, 1, 1, 2, 2, 3, 5]))
def test_ranks_of_a_node_take_its_slots_in_their_order(nodes: list[int]) -> None:
    placed = Placement.from_nodes(nodes, GRID, 2)
    assert placed.nodes.tolist() == nodes
    assert placed.slots.tolist() == [nodes[:rank].count(node) for rank, node in enumerate(nodes)]


def test_order_lists_ranks_by_place() -> None:
    placed = Placement.from_slot_numbers([3, 1, 2, 0], Torus((2,)), 2)
    assert placed.ranks_by_slot.tolist() == [3, 1, 2, 0]
    assert Placement.from_slot_numbers([2, 0, 3, 1], Torus((2,)), 2).ranks_by_slot.tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize(
    ("nodes", "slots", "says"),
    [
        ([0, 6], [0, 0], "rank 1: there is no node 6"),
        ([0, -1], [0, 0], "rank 1: there is no node -1"),
        ([0, 1], [0, 2], "rank 1: there is no slot 2"),
        ([0, 1, 0], [1, 0, 1], "rank 2: node 0 slot 1 already has rank 0"),
        ([0, 1], [0], "2 ranks have a node and 1 a slot"),
        ([0.5], [0], "not whole numbers"),
    ],
)
def test_a_wrong_placement_names_the_rank(nodes: list[int], slots: list[int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Placement(np.array(nodes), np.array(slots), 2, 6)


def test_too_many_ranks_on_a_node_are_found() -> None:
    with pytest.raises(ConfigError, match="rank 2: there is no slot 2"):
        Placement.from_nodes([1, 1, 1], GRID, 2)


@pytest.mark.parametrize("make", [Placement.identity, Placement.random])
def test_more_ranks_than_places_are_refused(make) -> None:
    with pytest.raises(ConfigError, match="13 ranks do not fit on 6 nodes"):
        make(GRID, 2, 13)


def test_arrays_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Placement.identity(GRID).nodes[0] = 3
