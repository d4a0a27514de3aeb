"""Tests of requests to end early: signals, and the end of the wall clock."""

import math
import os
import pickle
import signal
import threading
import time

import pytest

from petacomm.base.errors import Interruption, TimeLimitError
from petacomm.base.phases import in_phase
from petacomm.base.stop_request import STOP_SIGNALS, StopRequest


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_ends_at_once_and_names_the_phase(number):
    said = rf"stopped by {number.name} in phase 'data' \(what was saved"
    with pytest.raises(Interruption, match=said), StopRequest({}).signals() as stop, in_phase("data"):
        os.kill(os.getpid(), number)
        time.sleep(1)
    assert stop.signal == number


def test_between_phases_the_last_one_is_named():
    with in_phase("data"), in_phase("blocks"):
        pass
    said = r"stopped by SIGTERM after phase 'data' \(what was saved"
    with pytest.raises(Interruption, match=said), StopRequest({}).signals():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)


def test_a_deferred_signal_is_noted_alone():
    with StopRequest({}).signals() as stop:
        assert stop.signal == 0
        stop.defer()
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGTERM


def test_a_deferred_sigterm_ends_work_that_is_to_end_at_once():
    with StopRequest({}).signals() as stop, in_phase("spectra"):
        stop.defer()
        with (
            pytest.raises(Interruption, match="stopped by SIGTERM in phase 'spectra'"),
            stop.ending_at_once(),
        ):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)  # of no effect after the block
        with pytest.raises(Interruption), stop.ending_at_once():  # what came before it ends the next one
            raise AssertionError("the block was begun")


def test_a_deferred_sigusr1_lets_such_work_go_on():
    with StopRequest({}).signals() as stop:
        stop.defer()
        with stop.ending_at_once():
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.01)
        assert stop.signal == signal.SIGUSR1
        with pytest.raises(Interruption, match="SIGTERM"), stop.ending_at_once():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)


@pytest.mark.parametrize("told", [{}, {"SLURM_JOB_END_TIME": "1000000000"}])
def test_the_end_of_the_time_ends_at_once_and_names_the_phase(told):
    said = r"the time of the job ends in phase 'data', before there is anything to save \(give it more"
    with pytest.raises(TimeLimitError, match=said), in_phase("data"), StopRequest(told).signals() as stop:
        stop.limit(0.05)
        time.sleep(10)


def test_after_the_block_or_deferred_the_end_of_the_time_is_silent():
    with StopRequest({}).signals() as stop:
        stop.limit(0.1)
        stop.defer()
        time.sleep(0.2)
        assert stop.seconds_left < 0
    with StopRequest({}).signals() as stop:
        stop.limit(0.1)
    time.sleep(0.2)
    stop.limit(0.01)
    time.sleep(0.1)


def test_a_second_signal_does_not_disturb_the_end_by_the_first():
    with StopRequest({}).signals():
        with pytest.raises(Interruption):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)


def test_handlers_are_put_back():
    numbers = (*STOP_SIGNALS, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    with StopRequest({}).signals():
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert [signal.getsignal(number) for number in numbers] == before


def test_other_threads_receive_nothing():
    seen = []

    def work():
        with StopRequest({}).signals() as stop:
            seen.append((stop.signal, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(0, signal.getsignal(signal.SIGTERM))]


def test_the_end_that_slurm_tells_and_the_limit():
    end = time.time() + 3600
    stop = StopRequest({"SLURM_JOB_END_TIME": str(int(end))})
    assert 3500 < stop.seconds_left < 3571  # 30 s to spare
    stop.limit(None)
    stop.limit(7200.0)
    assert stop.seconds_left > 3500
    stop.limit(100.0)
    assert 90 < stop.seconds_left < 95.1  # a twentieth to spare
    stop.limit(0.0)
    assert stop.seconds_left <= 0


@pytest.mark.parametrize("seconds", [1e15, 1e300])
def test_an_end_beyond_all_time_is_none(seconds):
    stop = StopRequest({"SLURM_JOB_END_TIME": "9" * 30})
    with stop.signals():
        stop.limit(seconds)
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0 and stop.seconds_left > 1e14


@pytest.mark.parametrize("told", [{}, {"SLURM_JOB_END_TIME": "Unknown"}, {"SLURM_JOB_END_TIME": "²"}])
def test_no_end_is_told(told):
    assert StopRequest(told).seconds_left == math.inf


def test_an_interruption_keeps_its_type_between_ranks():
    error = Interruption("stopped", where="maps", mend="go on")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.exit_code) == (Interruption, str(error), 75)
