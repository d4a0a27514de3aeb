"""Streams to whoever looks on: their loss does not end the work."""

import errno
import os
import sys

import pytest

from petacomm.base import console
from petacomm.base.screen import Screen, lasting_screens


def broken_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w")


def test_text_that_nobody_reads_is_dropped():
    lost = []
    with Screen(broken_pipe(), BrokenPipeError, lost.append) as screen:
        for _ in range(3):
            assert print("x" * 100_000, file=screen, flush=True) is None
    assert [error.errno for error in lost] == [errno.EPIPE]


def test_a_full_disk_is_an_error_of_results_alone(monkeypatch):
    with open("/dev/full", "w") as out, open("/dev/full", "w") as err:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        with pytest.raises(OSError, match="No space left"), lasting_screens():
            print("dropped", file=sys.stderr, flush=True)
            print("results")
            sys.stdout.flush()
        assert (sys.stdout, sys.stderr) == (out, err)
        out.flush()  # nothing is kept back that would fail again


def test_what_is_not_there_is_written_to(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with lasting_screens():
        print("nobody sees this", file=sys.stderr, flush=True)
        assert not sys.stderr.isatty()
    assert sys.stderr is None


def test_a_log_that_is_full_ends_and_the_work_goes_on(capsys):
    from pathlib import Path

    console.choose_output(log=Path("/dev/full"))
    try:
        console.add_to_log("one")
        console.add_to_log("two")
    finally:
        console.choose_output()
    assert capsys.readouterr().err == "warning: the log /dev/full ends here: No space left on device\n"
