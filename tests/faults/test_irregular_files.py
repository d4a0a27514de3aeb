"""What stands in the place of a file and is none: each reader says so at once, and waits for nothing."""

import os
import signal

import pytest
from parsers import READERS

from petacomm.base.errors import UserError
from petamap.data.time_constants import read_time_constants

SECONDS = 5  # that no refusal takes


@pytest.fixture(autouse=True)
def alarm():
    def ring(*_):
        raise AssertionError("the reader waits")

    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def make(kind, path):
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "dangling link":
        path.symlink_to(path.with_name("nothing"))


@pytest.mark.parametrize("kind", ["FIFO", "device", "loop", "dangling link", "nothing"])
def test_each_reader_refuses_what_is_no_file(tmp_path, kind):
    for name, read in READERS.items():
        path = tmp_path / name
        make(kind, path)
        signal.alarm(SECONDS)
        with pytest.raises(UserError) as raised:
            read(path)
        signal.alarm(0)
        said = str(raised.value)
        assert path.name in said or str(tmp_path) in said, (name, said)
        if kind in ("FIFO", "device"):
            assert f"is a {kind}, no file" in said, (name, said)


def test_a_folder_is_no_file(tmp_path):
    takes_folders = {"filters.tar.gz", "mc.h5", "summary.json"}
    for name, read in READERS.items():
        if name not in takes_folders:
            (tmp_path / name).mkdir()
            with pytest.raises(UserError) as raised:
                read(tmp_path / name)
            assert name in str(raised.value)


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "taus").write_text("one 0.01\n")
    (tmp_path / "link").symlink_to(tmp_path / "taus")
    assert read_time_constants(tmp_path / "link") == {"one": 0.01}
