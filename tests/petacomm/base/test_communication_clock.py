"""The clock of communication: calls within each other count once, and so does one that fails."""

import time

import pytest

from petacomm.base.communication_clock import communicates, communication_seconds
from petacomm.base.timers import Timers

PAUSE = 0.02  # s


@communicates
def inner() -> int:
    time.sleep(PAUSE)
    return 3


@communicates
def outer() -> int:
    return inner() + inner()


@communicates
def fail() -> None:
    time.sleep(PAUSE)
    raise RuntimeError("as it should")


def test_calls_within_each_other_count_once():
    before, begin = communication_seconds(), time.perf_counter()
    assert outer() == 6
    assert 2 * PAUSE <= communication_seconds() - before <= time.perf_counter() - begin


def test_a_call_that_fails_counts_and_ends():
    before = communication_seconds()
    with pytest.raises(RuntimeError):
        fail()
    after = communication_seconds()
    assert after - before >= PAUSE
    time.sleep(PAUSE)
    assert communication_seconds() == after


def test_phases_have_their_share():
    timers = Timers()
    with timers.phase("one"):
        time.sleep(PAUSE)
        inner()
    with timers.phase("two"):
        time.sleep(PAUSE)
    one, two = timers.phases["one"], timers.phases["two"]
    assert PAUSE <= one.communication_seconds <= one.seconds - PAUSE
    assert two.communication_seconds == 0
