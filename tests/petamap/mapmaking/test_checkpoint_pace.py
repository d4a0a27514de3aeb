"""Tests of how often ranks look at the clock and at signals."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petacomm.base.stop_request import StopRequest
from petacomm.mpi import world
from petamap.mapmaking import checkpoint_pace
from petamap.mapmaking.checkpoint_pace import Pace


class Iterations:
    """Iterations by a clock of their own: a step of a pace before the first, and one after each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(checkpoint_pace.time, "perf_counter", lambda: self.now)
        self.stop = StopRequest({})
        self.pace = Pace(world(), self.stop, 0)

    def number_of_stop(self, setup: float, each: list[float], signalled: int) -> int | None:
        """Return after which iteration the pace stops, where a signal comes during one of them."""
        self.now += setup
        self.pace.step()
        for number, seconds in enumerate(each, 1):
            if number == signalled:
                self.stop.signal = signal.SIGTERM
            self.now += seconds
            self.pace.step()
            if self.pace.stops:
                return number
        return None


@pytest.mark.parametrize("setup", [0.0, 1e-6, 1e-3, 5.0])
@pytest.mark.parametrize("seconds", [0.06, 10.0])
def test_iterations_longer_than_a_look_are_all_looked_at(monkeypatch, setup, seconds):
    for signalled in range(1, 6):
        assert Iterations(monkeypatch).number_of_stop(setup, [seconds] * 10, signalled) == signalled


@given(seconds=st.floats(1e-7, 1.0), signalled=st.integers(1, 60))
def test_a_signal_waits_a_tenth_of_a_second_or_an_iteration(seconds, signalled):
    with pytest.MonkeyPatch.context() as patch:
        n_iterations = signalled + int(0.1 / seconds) % 1000 + 200
        stopped = Iterations(patch).number_of_stop(1e-6, [seconds] * n_iterations, signalled)
    assert stopped is not None and (stopped - signalled) * seconds <= 0.1


def test_what_is_seen_of_iterations_that_take_longer_than_those_before(monkeypatch):
    each = [1e-4] * 3 + [5.0] * 20
    assert Iterations(monkeypatch).number_of_stop(1e-6, each, 10) == 10
