"""Tests of the distribution of realizations over groups of ranks, and of its predictions."""

from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from montecarlo_runs import configured

from petacomm.topology import load_machine
from petamap.montecarlo import group_plan
from petamap.montecarlo.group_plan import group_counts
from petamap.montecarlo.rank_groups import RankGroups, _best

MACHINE = replace(load_machine("one-node"), nodes=64, sockets_per_node=1, cores_per_socket=16)
GB = 10**9


def test_batches():
    numbers = np.arange(100, 117)
    for groups, batch in ((1, 1), (1, 30), (3, 2), (5, 4)):
        batches = [list(RankGroups(groups, group, batch, "").batches(numbers)) for group in range(groups)]
        assert sorted(np.concatenate([one for part in batches for one in part])) == numbers.tolist()
        assert all(len(one) <= batch for part in batches for one in part)
        counts = [sum(len(one) for one in part) for part in batches]
        assert max(counts) - min(counts) <= batch


def test_candidates_for_the_number_of_groups():
    assert group_counts(12, 100) == [1, 2, 3, 4, 6, 12] and group_counts(12, 5) == [1, 2, 3, 4]
    assert group_counts(7, 100) == [1, 7] and group_counts(1, 1) == [1]
    many = group_counts(16384, 10_000)
    assert many[0] == 1 and len(many) <= 7 and all(16384 % groups == 0 for groups in many)


def _plan(memory=1.0, sums=1e-3, n_samp=1e8):
    """Replace the plan by one in which the memory of a rank decreases with the number of ranks."""

    def plan(config, ranks, machine, **more):
        prediction = SimpleNamespace(
            without_skies=(0.2 * memory * GB / ranks, memory * GB / ranks),
            seconds={"owner": sums},
            best="owner",
            threads=1,
            forecast=SimpleNamespace(n_global=SimpleNamespace(value=12 * 16**2)),
        )
        return SimpleNamespace(best=prediction, n_samp=n_samp, n_stokes=3, n_pix=12 * 16**2, skies=())

    return mock.patch.object(group_plan, "plan", plan)


@pytest.mark.parametrize(
    ("changes", "limit", "settings", "groups", "words"),
    [
        # reductions cost more than separate set-ups
        ({"sums": 0.1}, 10, [], 16, "s predicted; "),
        # without reductions, one set-up is common to all
        ({"sums": 0.0}, 10, ["montecarlo.realizations=16"], 1, "s predicted"),
        # too large for one process, with pointing kept or not
        ({"sums": 0.1, "memory": 30.0}, 2, [], 4, "8 groups, 3 GB a process where there are 2"),
        ({"memory": 1000.0}, 2, [], 1, "as nothing smaller has room"),
        # one realization needs only one group
        ({"sums": 0.1}, 10, ["montecarlo.realizations=1"], 1, "s predicted"),
    ],
)
def test_fastest_candidate_within_memory(changes, limit, settings, groups, words):
    with _plan(**changes):
        found, why = _best(configured(*settings), 16, 1, MACHINE, limit * GB)
    assert found == groups and words in why, why


def test_predictions_of_a_run():
    config = configured("source.0.duration=3 h", "montecarlo.realizations=20")
    groups, why = _best(config, 2, 1, MACHINE, 10 * GB)
    assert groups == 2 and "ms for the sums of an iteration" in why
    # most processes of a group of 32 would have no block of data
    groups, why = _best(config, 512, 1, MACHINE, 10 * GB)
    assert groups == 16
