"""Reductions whose rows are sent by indexed datatypes, against NumPy."""

import numpy as np
import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from mpi import run_ranks
from reduction_oracle import CALLS, check_calls, scan_pattern

from petacomm.base.cache import cache_folder
from petacomm.base.errors import ConfigError
from petacomm.mpi import message_size as messages
from petacomm.redistribution.indexed_rows import _split_runs
from petacomm.reduction import ReductionPlan
from petacomm.sharing import IndexMap


def patterns(size):
    rng = np.random.default_rng(size)
    yield scan_pattern(size)
    yield [np.sort(rng.choice(300, 5 + 60 * (rank % 3), replace=False)) for rank in range(size)]
    yield [np.arange(40 * (rank != 1), dtype=np.int64) for rank in range(size)]


def reductions(comm):
    for number, pattern in enumerate(patterns(comm.size)):
        index_map = IndexMap(comm, pattern[comm.rank].astype(np.int64))
        for algorithm in ("owner", "pairwise", "butterfly"):
            for packing in ("indexed", "auto"):
                plan = ReductionPlan(index_map, algorithm=algorithm, packing=packing)
                calls = CALLS if number == 1 and comm.size < 4 and packing == "indexed" else CALLS[:2]
                check_calls(comm, plan, pattern, calls, number)


def cut(comm):
    messages.MESSAGE_BYTES = 100
    reductions(comm)


@pytest.mark.parametrize("n_ranks", cases(1, 3, long=(2, 5)))
def test_rows_sent_by_indexed_datatypes(n_ranks):
    run_ranks(reductions, n_ranks)


def test_large_messages_are_split():
    run_ranks(cut, 3)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=20), st.integers(1, 30))
def test_splitting_runs(lengths, most):
    lengths = np.array(lengths)
    starts = np.cumsum(lengths + 3) - lengths
    parts = _split_runs(starts, lengths, most)
    rows = [np.concatenate([s + np.arange(n) for s, n in zip(*part, strict=True)]) for part in parts]
    expected = np.concatenate([s + np.arange(n) for s, n in zip(starts, lengths, strict=True)])
    np.testing.assert_array_equal(np.concatenate(rows), expected)
    assert all(len(few) == most for few in rows[:-1]) and 0 < len(rows[-1]) <= most


def bytes_and_choice(comm):
    keys = np.arange(4000, dtype=np.int64)
    values = np.ones((4000, 3))
    with pytest.raises(ConfigError, match="did you mean 'indexed'"):
        ReductionPlan(IndexMap(comm, keys), packing="indxed")
    plan = ReductionPlan(IndexMap(comm, keys), algorithm="pairwise", packing="indexed")
    for again in (1, 2, 3):
        plan.allreduce(values)
        assert (values == comm.size**again).all()
        assert comm.traffic["indexed"].bytes == again * plan.bytes_per_call(3, 8)
    first = ReductionPlan(IndexMap(comm, keys), algorithm="pairwise", packing="auto")
    first.allreduce(values)
    comm.barrier()
    if comm.rank == 0:
        assert len(list(cache_folder().glob("choices/*.json"))) == 1


def test_bytes_are_counted_and_the_choice_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run_ranks(bytes_and_choice, 2)
