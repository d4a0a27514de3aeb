"""Tests of reading ahead: samples asked for, whatever the requests; few reads; errors of who asks; forks."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import DataError, Termination
from petamap.data import read_ahead
from petamap.data.read_ahead import Place, ReadAhead

PIECE = 64
ROWS, SAMPLES = 3, 1000
VALUES = np.arange(ROWS * SAMPLES).reshape(ROWS, SAMPLES)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(read_ahead, "PIECE", PIECE)
    monkeypatch.setattr(read_ahead, "SHORT", 20)


class File:
    """Reads an array; remembers what, and fails where samples are damaged."""

    def __init__(self, values=VALUES, damaged=()):
        self.values, self.damaged, self.reads = values, damaged, []

    def read(self, place: Place):
        self.reads.append(place)
        bad = [sample for sample in self.damaged if place.start <= sample < place.stop]
        if bad:
            raise DataError("is damaged", where=f"row {place.first}, sample {bad[0]}")
        return self.values[place.first : place.last, place.start : place.stop]

    def ahead(self, *intervals) -> ReadAhead:
        return ReadAhead(self.read, *self.values.shape, intervals or ((0, self.values.shape[1]),))


def asked(rows: ReadAhead, row: int, start: int, stop: int):
    out = np.full(stop - start, -1)
    for part, values in rows.parts(row, start, stop):
        assert (out[part] == -1).all()
        out[part] = values
    return out


def settled():
    """Wait until the thread has read what was asked for."""
    read_ahead._pieces._thread.submit(int).result()


@settings(max_examples=50, deadline=None)
@given(
    cuts=st.lists(st.integers(0, SAMPLES), max_size=6, unique=True).map(sorted),
    requests=st.lists(st.tuples(st.integers(0, ROWS - 1), *[st.integers(0, SAMPLES)] * 2), max_size=20),
    n_samp=st.sampled_from([SAMPLES, 20]),
)
def test_samples_are_those_of_the_file_whatever_is_asked_for(cuts, requests, n_samp):
    intervals = list(zip(cuts[::2], cuts[1::2], strict=False))
    rows = File(VALUES[:, :n_samp]).ahead(*intervals)
    for row, *bounds in requests:
        start, stop = sorted(min(bound, n_samp) for bound in bounds)
        assert np.array_equal(asked(rows, row, start, stop), VALUES[row, start:stop])


def test_a_pass_reads_each_sample_once_and_only_a_little_ahead():
    file = File()
    rows = file.ahead()
    for row in range(ROWS):
        for start in range(0, SAMPLES, 40):
            stop = min(start + 60, SAMPLES)  # with a halo
            assert np.array_equal(asked(rows, row, start, stop), VALUES[row, start:stop])
            settled()
            last = max((place.first, place.stop) for place in file.reads)
            assert last <= (row, stop + 3 * PIECE) or last[0] == row + 1
            assert len(read_ahead._pieces._found) <= 20
    grid = [(row, start) for row in range(ROWS) for start in range(0, SAMPLES, PIECE)]
    assert [(place.first, place.start) for place in file.reads] == grid


def test_rows_that_are_left_out_are_not_read():
    values = np.arange(6 * SAMPLES).reshape(6, SAMPLES)
    file = File(values)
    rows = file.ahead()
    for row in (3, 5):
        assert np.array_equal(asked(rows, row, 0, SAMPLES), values[row])
        settled()
    assert {place.first for place in file.reads} == {3, 5}


def test_few_samples_are_one_piece_and_short_intervals_are_read_as_asked_for():
    file = File(VALUES[:, :20])
    rows = file.ahead((0, 10), (10, 20))
    for row in range(ROWS):
        asked(rows, row, 0, 20)
    assert file.reads == [Place(0, ROWS, 0, 20)]
    file = File()
    asked(file.ahead((100, 110)), 1, 102, 108)
    assert file.reads == [Place(1, 2, 102, 108)]


def test_errors_are_of_the_samples_that_were_asked_for():
    rows = File(damaged=[70]).ahead()
    assert np.array_equal(asked(rows, 0, 0, PIECE), VALUES[0, :PIECE])
    assert np.array_equal(asked(rows, 0, 80, 300), VALUES[0, 80:300])  # in the piece of the damage
    with pytest.raises(DataError, match="row 0, sample 70: is damaged"):
        asked(rows, 0, 60, 80)


def test_several_threads():
    rows = File().ahead()
    places = [(row, start) for row in range(ROWS) for start in range(0, SAMPLES, 50)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda place: asked(rows, *place, place[1] + 50), places))
    assert all(np.array_equal(one, VALUES[r, s : s + 50]) for one, (r, s) in zip(found, places, strict=True))


def test_a_signal_while_a_piece_is_read_is_no_damage_of_it():
    def ring(*_):
        raise Termination("terminated")

    slow = File()
    rows = ReadAhead(lambda place: time.sleep(0.5) or slow.read(place), *VALUES.shape, ((0, SAMPLES),))
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(Termination):
            asked(rows, 0, 0, 10)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_process_reads_with_a_thread_of_its_own():
    rows = File().ahead()
    asked(rows, 0, 0, 100)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(asked(rows, 1, 0, SAMPLES), VALUES[1]) else 1)
    waiting = threading.Timer(20, os.kill, (child, 9))
    waiting.start()
    _, status = os.waitpid(child, 0)
    waiting.cancel()
    assert status == 0
