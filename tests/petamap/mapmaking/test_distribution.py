"""Dealing blocks to ranks."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from petamap.mapmaking.distribution import distribute


def best_limit(costs, size):
    """The least possible load of the most loaded rank, by dynamic programming."""
    ends = np.concatenate([[0.0], np.cumsum(costs)])
    best = ends.copy()
    for _ in range(size - 1):
        best = np.array(
            [min(max(best[j], ends[i] - ends[j]) for j in range(i + 1)) for i in range(len(ends))]
        )
    return best[-1]


@given(st.lists(st.floats(0, 1e3), max_size=25), st.integers(1, 9))
def test_contiguous_runs_within_a_block_of_the_best(costs, size):
    costs = np.array(costs)
    boundaries = distribute(costs, size)
    assert boundaries.dtype == np.int64 and boundaries[0] == 0 and boundaries[-1] == len(costs)
    runs = np.diff(boundaries)
    assert np.all(runs > 0) if len(costs) >= size else np.all((runs == 0) | (runs == 1))
    loads = [costs[begin:end].sum() for begin, end in itertools.pairwise(boundaries)]
    if len(costs):
        assert max(loads) <= best_limit(costs, size) + costs.max() + 1e-9


def test_equal_blocks():
    assert distribute(10, 3).tolist() == [0, 3, 7, 10]
    assert distribute(2, 4).tolist() == [0, 1, 2, 2, 2]
    assert distribute(0, 2).tolist() == [0, 0, 0]


@pytest.mark.parametrize("costs", [[-1.0], [np.nan], [np.inf]])
def test_costs_are_finite(costs):
    with pytest.raises(ValueError, match="finite"):
        distribute(np.array(costs), 2)
