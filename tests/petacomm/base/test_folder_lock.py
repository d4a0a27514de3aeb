"""A folder that one process at a time writes to."""

import os
import signal
import subprocess
import sys

import pytest

from petacomm.base.errors import ConfigError
from petacomm.base.folder_lock import sole_writer

HOLD = """
import sys, time
from pathlib import Path
from petacomm.base.folder_lock import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_another_process_is_refused_until_this_one_ends(tmp_path):
    path = tmp_path / ".lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match=f"{tmp_path}: another process writes"), sole_writer(path):
            pass
        assert path.exists()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with sole_writer(path):
        assert path.exists()
    assert not path.exists()


def test_the_lock_of_one_that_ends_meanwhile_is_not_taken_for_a_lock(tmp_path, monkeypatch):
    path, opened = tmp_path / ".lock", os.open

    def late(*arguments):
        descriptor = opened(*arguments)
        if len(removed) < 2:  # its holder removes the file before it can be locked
            path.unlink()
        removed.append(descriptor)
        return descriptor

    removed = []
    monkeypatch.setattr(os, "open", late)
    with sole_writer(path):
        assert path.exists() and len(removed) == 3
    assert not path.exists()


def test_file_systems_without_locks_have_none(tmp_path, monkeypatch):
    import fcntl

    def unable(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unable)
    with sole_writer(tmp_path / ".lock"), sole_writer(tmp_path / ".lock"):
        pass
