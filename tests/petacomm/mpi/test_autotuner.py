"""The autotuner: the fastest candidate is chosen on all ranks, and cached."""

import json
import time

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.base.cache import cache_folder
from petacomm.mpi import SerialCommunicator
from petacomm.mpi import autotuner as tuner
from petacomm.redistribution import METHODS, ArrayLayout, DatatypeError, Redistribution


def slower_elsewhere(comm):
    """Each rank has another slow candidate: the slowest rank of a candidate counts."""
    calls = dict.fromkeys(("packed", "first", "second"), 0)

    def candidate(name, seconds):
        def call():
            calls[name] += 1
            time.sleep(seconds)

        return call

    candidates = {
        "packed": candidate("packed", 0.02),
        "first": candidate("first", 0.06 if comm.rank == 0 else 0.0),
        "second": candidate("second", 0.005),
    }
    choice = tuner.choose_fastest(comm, "slower elsewhere", candidates)
    assert comm.allgather(choice) == [choice] * comm.size
    assert choice.name == "second" and "timed" in choice.reason
    assert calls["first"] <= 2, "slow candidates are timed once"
    before = dict(calls)
    again = tuner.choose_fastest(comm, "slower elsewhere", candidates)
    assert (again.name, again.candidates, calls) == ("second", choice.candidates, before)
    assert "earlier" in again.reason
    # A gain below the noise does not replace the default.
    taken = {"packed": 1.0, "first": 0.96, "second": 0.94}
    tuner.call_seconds = lambda comm, call: taken[call]
    assert tuner.choose_fastest(comm, "even", {name: name for name in ("packed", "first")}).name == "packed"
    assert tuner.choose_fastest(comm, "clear", {name: name for name in taken}).name == "second"


def test_the_slowest_rank_counts_and_all_make_the_same_choice():
    run_ranks(slower_elsewhere, 3)


def tuned(comm):
    before, after = ArrayLayout((64, 64), (comm.size, 1)), ArrayLayout((64, 64), (1, comm.size))
    source = np.arange(4096.0).reshape(64, 64)[before.box(comm.rank)].copy()
    plan = Redistribution(comm, before, after)
    assert plan.chosen is None
    target = plan.run(source)
    assert plan.chosen in METHODS and set(plan.choice.candidates) == set(METHODS)
    np.testing.assert_array_equal(target, np.arange(4096.0).reshape(64, 64)[after.box(comm.rank)])
    fixed = Redistribution(comm, before, after, method="receive-type")
    assert fixed.chosen == "receive-type" and fixed.choice is None
    comm.barrier()
    for file in cache_folder().glob("choices/*.json") if comm.rank == 0 else ():
        assert json.loads(file.read_text())["name"] == plan.chosen
        file.write_text('{"name": "packed", "candidates": {"packed": {"measured": NaN}}, "reason": ""}')
    comm.barrier()
    again = Redistribution(comm, before, after)
    again.run(source)
    assert "timed" in again.choice.reason


def test_plans_choose_and_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "ignored: not a choice" in run_ranks(tuned, 2).err


def test_one_rank_needs_no_timing():
    layout = ArrayLayout((3, 4), (1, 1))
    plan = Redistribution(SerialCommunicator(), layout, ArrayLayout((3, 4), (1, 1), (1, 0)))
    np.testing.assert_array_equal(plan.run(np.arange(12.0).reshape(3, 4)), np.arange(12.0).reshape(3, 4))
    assert plan.choice.reason == "one rank"
    with pytest.raises(DatatypeError, match="did you mean 'packed'"):
        Redistribution(SerialCommunicator(), layout, layout, method="paked")
