"""Ranks that share cores are dealt to them anew in each round, and others stay where they are."""

from types import SimpleNamespace

import numpy as np
import pytest

from petacomm.tuning import rank_affinity
from petacomm.tuning.rank_affinity import RankAffinity

ROUNDS = 50


def placed(monkeypatch, rank, size, cores, of_others=None):
    """Return the cores that a rank of a node is moved to in each round."""
    moved = []
    monkeypatch.setattr(rank_affinity, "allowed_processors", lambda: cores)
    monkeypatch.setattr(rank_affinity.os, "sched_setaffinity", lambda _, to: moved.append(to), raising=False)
    rest = iter([of_others or cores, 7])  # what rank 0 may use, and the seed that it has drawn
    node = SimpleNamespace(
        rank=rank, size=size, bcast=lambda *_: next(rest), allreduce=lambda value, _: value, Free=lambda: None
    )
    world = SimpleNamespace(Split_type=lambda _: node)
    affinity = RankAffinity(SimpleNamespace(COMM_WORLD=world, COMM_TYPE_SHARED=0, MIN=0))
    for _ in range(ROUNDS):
        affinity.deal()
    assert all(back == cores for back in moved[1::2])  # from where it lies, the system may move it
    return [core for (core,) in moved[::2]]


@pytest.mark.parametrize(("size", "cores"), [(8, [0, 1]), (5, [3, 4]), (7, [1, 5, 9])])
def test_each_core_has_as_many_ranks_in_each_round(monkeypatch, size, cores):
    rounds = np.array([placed(monkeypatch, rank, size, cores) for rank in range(size)]).T
    assert rounds.shape == (ROUNDS, size)
    for one in rounds:
        counts = [np.count_nonzero(one == core) for core in cores]
        assert max(counts) - min(counts) <= 1
    assert len(np.unique(rounds, axis=0)) > 3
    assert all(set(mine) == set(cores) for mine in rounds.T)


def test_ranks_with_cores_of_their_own_stay(monkeypatch):
    assert not placed(monkeypatch, 1, 2, [0, 1])
    assert not placed(monkeypatch, 1, 8, [0, 1], of_others=[2, 3])
