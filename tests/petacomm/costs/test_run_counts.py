"""Runs of rows in lists, against those of the kernel."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from petacomm.costs.run_counts import graph_runs, list_runs, moved_run_begins, run_begins
from petacomm.redistribution.row_lists import RowLists
from petacomm.sharing.sharing_graph import SharingGraph

PLACES = st.lists(st.integers(0, 60), unique=True, max_size=40).map(
    lambda rows: np.array(sorted(rows), np.int64)
)


@given(st.lists(PLACES, min_size=1, max_size=4))
def test_runs_begin_as_in_the_kernel(parts):
    counts = np.array([len(part) for part in parts])
    places = np.concatenate(parts)
    lists = np.repeat(np.arange(len(parts)), counts)
    found = run_begins(lists, places, places)  # all within 64 keys
    assert np.count_nonzero(found) == len(RowLists.from_positions(places.astype(np.int32), counts).starts)


def test_runs_end_at_multiples_of_64_keys():
    keys = np.arange(60, 70)
    np.testing.assert_array_equal(np.flatnonzero(run_begins(np.zeros(10), keys, np.arange(10))), [0, 4])


def test_moved_rows_are_runs_in_source_and_target():
    keys, places, there = np.arange(5), np.array([0, 1, 2, 4, 5]), np.array([0, 2, 3, 4, 5])
    assert moved_run_begins(np.zeros(5), keys, places, there).tolist() == [True, True, False, True, False]


@given(st.integers(0, 2**32 - 1))
def test_runs_of_ghosts_equal_those_of_lists(seed):
    rng = np.random.default_rng(seed)
    keys = np.arange(64)
    owner = np.repeat(rng.integers(0, 3, 16), rng.multinomial(64, np.ones(16) / 16))
    sent = [np.flatnonzero(owner == rank).astype(np.int32) for rank in (0, 2)]
    n_runs = sum(len(RowLists.from_positions(rows).starts) for rows in sent)
    graph = SharingGraph(owner.astype(np.int32), np.full(64, 2), 64)
    pairs, to_owners, to_ghosts = graph_runs(graph, keys, 1)
    assert to_owners == n_runs and pairs == 1  # one other holder, of all keys
    assert to_ghosts == len(RowLists.from_positions(np.flatnonzero(owner == 1).astype(np.int32)).starts)


def test_as_many_holders_as_possible_are_the_same():
    multiplicity = np.array([1, 3, 4, 2, 2, 1, 2])
    runs = list_runs(np.arange(7), np.zeros(7, np.int32), multiplicity, 0)
    assert runs.pairs.tolist() == runs.to_ghosts.tolist() == [0, 2, 1, 0, 0, 0, 1]
    assert not runs.to_owners.any()


def test_several_ranks_in_one_call_equal_single_ranks():
    rng = np.random.default_rng(8)
    parts = [np.flatnonzero(rng.random(300) < 0.7) for _ in range(3)]
    owner, multiplicity = rng.integers(0, 3, 300), rng.integers(1, 4, 300)
    single = [list_runs(keys, owner[keys], multiplicity[keys], rank) for rank, keys in enumerate(parts)]
    keys, holder = np.concatenate(parts), np.repeat(np.arange(3), [len(part) for part in parts])
    combined = list_runs(keys, owner[keys], multiplicity[keys], holder)
    for name in combined._fields:
        expected = np.concatenate([getattr(runs, name) for runs in single])
        np.testing.assert_array_equal(getattr(combined, name), expected)
