"""The choice of algorithms by their predicted times."""

import dataclasses

import pytest

from petacomm.network import predictions
from petacomm.network.predictions import (
    AUTO,
    choose_algorithm,
    predict_algorithms,
    resolve_algorithm,
)
from petacomm.network.query import CollectiveQuery
from petacomm.network.simulations import simulate_collective
from petacomm.schedule import ScheduleError, published_algorithm
from petacomm.schedule.catalogue import PUBLISHED


def query(collective, n_bytes, shape="4x4x4"):
    return CollectiveQuery(collective, "bluegene-l", shape=shape, n_bytes=n_bytes).resolve()


def test_a_mebibyte_of_doubles_takes_the_lowest_row_and_not_the_published_one():
    call, model = query("allreduce", 1 << 20, "8x8x8")
    rows = {row.algorithm: row for row in predict_algorithms(call, model)}
    assert 1e3 * rows["streams"].seconds == pytest.approx(8.84, abs=0.01) and rows["streams"].chosen
    assert 1e3 * rows["hamiltonian"].seconds == pytest.approx(11.39, abs=0.01)
    assert rows["hamiltonian"].published and not rows["hamiltonian"].chosen


def test_auto_is_the_lowest_row_and_published_the_switching_points():
    call, model = query("broadcast", 16)
    assert resolve_algorithm(call, model, AUTO) == choose_algorithm(call, model) == "tree"
    assert resolve_algorithm(call, model, PUBLISHED) == published_algorithm(call) == "binomial"
    assert resolve_algorithm(call, model, "streams") == "streams"


def test_a_slower_machine_changes_the_choice_and_not_the_published_one():
    chosen, published = set(), set()
    for latency in (1e-7, 1e-2):
        call, model = CollectiveQuery("broadcast", "perlmutter", ranks=64, n_bytes=100_000).resolve()
        slow = dataclasses.replace(model, machine=dataclasses.replace(model.machine, latency=latency))
        chosen.add(choose_algorithm(call, slow))
        published.add(published_algorithm(call))
    assert chosen == {"scatter-allgather", "binomial"} and published == {"scatter-doubling"}


@pytest.mark.parametrize("of", [("alltoall", 16), ("alltoall", 4096), ("broadcast", 65536), ("reduce", 800)])
def test_a_predicted_time_leaves_neither_processors_nor_links_out(of):
    for row in predict_algorithms(*query(*of)):
        if not row.unmet:
            times = [value for value in (row.closed, row.loaded) if value is not None]
            assert row.seconds == max(times)


@pytest.mark.parametrize("n_bytes", [16, 1024])
def test_processors_limit_short_messages_in_random_order(n_bytes):
    call, model = query("alltoall", n_bytes)
    (row,) = (row for row in predict_algorithms(call, model) if row.algorithm == "random-order")
    run = simulate_collective(call, model, "random-order")
    assert run.seconds > row.seconds > 0.75 * run.seconds


def test_rounds_too_many_to_put_on_links_are_not_chosen(monkeypatch):
    monkeypatch.setattr(predictions, "MAX_MESSAGES", 63 * 64 - 1)
    rows = {row.algorithm: row for row in predict_algorithms(*query("alltoall", 1 << 20))}
    assert rows["pairwise"].closed > 0 and rows["pairwise"].seconds is None
    assert rows["random-order"].chosen


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "allreduce", "alltoall"])
def test_one_rank_takes_no_time_by_messages(collective):
    for row in predict_algorithms(*query(collective, 8, "1x1x1")):
        if not row.unmet and row.algorithm != "tree":
            assert {row.seconds, row.closed, row.loaded} <= {0.0, None}, row


@pytest.mark.parametrize(("collective", "n_bytes"), [("allreduce", 2**63), ("alltoall", 2**57)])
def test_bytes_that_64_bits_do_not_count_are_refused(collective, n_bytes):
    with pytest.raises(ScheduleError, match="64 bits do not count all"):
        CollectiveQuery(collective, "perlmutter", ranks=31, n_bytes=n_bytes).resolve()
    call, _ = CollectiveQuery(collective, "perlmutter", ranks=31, n_bytes=2**56).resolve()
    assert call.n_bytes == 2**56
