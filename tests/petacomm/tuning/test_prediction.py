"""Times of sizes and communicators that were not measured."""

import pytest

from petacomm.tuning.cells import Cell
from petacomm.tuning.prediction import predicted_seconds, prediction_ratios

LATENCY, BANDWIDTH = 1e-5, 1e9


def line(size):
    """Return the time of a message."""
    return LATENCY + size / BANDWIDTH


def measured(*ranks, sizes=(8, 64, 512, 4096, 32768)):
    """Return times that grow with the square of the ranks."""
    return {Cell("bcast", size, n): n**2 * line(size) for size in sizes for n in ranks}


def test_what_was_measured_is_told_as_it_is():
    times = measured(2, 8)
    assert all(predicted_seconds(times, cell) == seconds for cell, seconds in times.items())


def test_beyond_the_sizes_it_is_latency_and_bandwidth():
    times = measured(4)
    for size in (65536, 1 << 20):
        assert predicted_seconds(times, Cell("bcast", size, 4)) == pytest.approx(16 * line(size))
    assert predicted_seconds(times, Cell("bcast", 2, 4)) == times["bcast", 8, 4]
    assert predicted_seconds(times, Cell("bcast", 1 << 30, 4)) is None  # too far


def test_times_do_not_fall_beyond_the_sizes():
    times = {Cell("bcast", 8, 4): 3e-5, Cell("bcast", 64, 4): 1e-5}
    assert predicted_seconds(times, Cell("bcast", 512, 4)) == 1e-5


@pytest.mark.parametrize("n_ranks", [2, 3, 6, 11, 64])
def test_communicators_are_told_by_the_two_next_to_them(n_ranks):
    for size in (8, 100, 32768, 1 << 17):
        found = predicted_seconds(measured(4, 8, 16), Cell("bcast", size, n_ranks))
        known = predicted_seconds(measured(4), Cell("bcast", size, 4))
        assert found == pytest.approx(known * (n_ranks / 4) ** 2)


def test_nothing_is_told_by_too_little():
    one = {Cell("bcast", 8, 4): 1e-5}
    assert predicted_seconds(one, Cell("bcast", 64, 4)) is None
    assert predicted_seconds(one, Cell("bcast", 8, 8)) is None
    assert predicted_seconds(one, Cell("reduce", 8, 4)) is None
    assert prediction_ratios(one) == []


def test_barriers_have_no_size():
    times = {Cell("barrier", 0, n): n * 1e-6 for n in (2, 8)}
    assert predicted_seconds(times, Cell("barrier", 0, 4)) == pytest.approx(4e-6)


def test_how_good_predictions_are_is_told_by_what_was_measured():
    times = measured(2, 4, 8)
    good = prediction_ratios(times)
    assert len(good) == len(times) and good[0] >= 1 and good[-1] < 1.6
    times[Cell("bcast", 512, 4)] *= 5
    assert prediction_ratios(times)[-1] == pytest.approx(5, rel=0.3)
