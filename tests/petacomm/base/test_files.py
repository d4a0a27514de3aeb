"""Atomic writing: files are replaced completely or not at all."""

import os
import resource
import signal
import stat
import subprocess
import sys
import time

import pytest

from petacomm.base import files
from petacomm.base.errors import ConfigError, ResourceError
from petacomm.base.files import atomic_write, check_names, temporary_folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def write(path, data=b"new"):
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def test_only_the_written_file_remains(tmp_path):
    write(tmp_path / "deep" / "er" / "a.txt")
    assert contents(tmp_path / "deep" / "er") == {"a.txt": b"new"}


def test_the_suffix_and_the_folder_stay(tmp_path):
    with atomic_write(tmp_path / "a.fits.gz") as temporary:
        assert temporary.suffix == ".gz" and temporary.parent == tmp_path
        temporary.write_bytes(b"x")


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_a_new_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask


def test_an_error_in_the_block_keeps_the_old_file(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(KeyError), atomic_write(tmp_path / "a") as temporary:
        temporary.write_bytes(b"half")
        raise KeyError("a")
    assert contents(tmp_path) == {"a": b"old"}


def test_a_full_disk_keeps_the_old_file(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(ResourceError) as caught:
            write(tmp_path / "a", bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.where == str(tmp_path / "a") and "cannot be written" in caught.value.what
    assert caught.value.exit_code == 5
    assert contents(tmp_path) == {"a": b"old"}


@pytest.mark.parametrize("path", ["/dev/null/a", "/proc/petamap/a"])
def test_a_folder_that_cannot_be_made_is_an_error(path):
    with pytest.raises(ResourceError) as caught:
        write(path)
    assert caught.value.where == path


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(ResourceError):
        write(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_missing_permission_is_an_error(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ResourceError):
            write(tmp_path / "a")
    finally:
        tmp_path.chmod(0o700)


# begins to write a file, says so, and waits
_WRITER = """
import sys
from petacomm.base.files import atomic_write, temporary_folder
with atomic_write(sys.argv[1]) as temporary:
    temporary.write_bytes(b"half")
    print(flush=True)
    sys.stdin.read()
"""


def begin_to_write(path):
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    writer.stdout.readline()
    return writer


def test_what_killed_processes_left_is_removed_and_what_others_write_is_not(tmp_path):
    alive, killed = (begin_to_write(tmp_path / name) for name in ("alive.fits", "killed.fits"))
    with killed:
        killed.kill()
    (tmp_path / ".other.7-0-12345678").touch()
    assert len(contents(tmp_path)) == 3
    write(tmp_path / "new.fits")
    kept = {name.split(".")[1] if name.startswith(".") else name for name in contents(tmp_path)}
    assert kept == {"alive", "other", "new.fits"}
    with alive:
        alive.stdin.close()
    assert contents(tmp_path)["alive.fits"] == b"half"


def test_files_of_other_machines_are_kept_for_an_hour(tmp_path, monkeypatch):
    with begin_to_write(tmp_path / "a.h5") as killed:
        killed.kill()
    monkeypatch.setattr(files, "_here", lambda: "0123abcd")
    (left,) = tmp_path.iterdir()
    for age, n_left in ((3000, 2), (4000, 1)):
        monkeypatch.setattr(files, "_cleaned", set())
        os.utime(left, (0, left.stat().st_mtime - age))
        write(tmp_path / "b.h5")
        assert len(contents(tmp_path)) == n_left


@pytest.fixture
def killed(tmp_path):
    """Yield a process that is killed, and not yet waited for."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (tmp_path / f".a.txt.{process.pid}-{files._here()}-abcdefgh.txt").write_text("half")
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


def test_folders_of_other_machines_are_kept_for_an_hour_after_their_last_write(tmp_path):
    for name, age in (("old", 7200), ("new", 0)):
        folder = tmp_path / f".{name}.7-0f0f0f0f-12345678"
        folder.mkdir()
        (folder / "a.h5").touch()
        os.utime(folder / "a.h5", (time.time() - age,) * 2)
        os.utime(folder, (0, 0))
    folder = temporary_folder(tmp_path / "data")
    assert folder.is_dir() and {one.name.split(".")[1] for one in tmp_path.iterdir()} == {"new", "data"}


def test_files_of_a_killed_process_go_before_its_parent_asks_for_its_end(tmp_path, killed):
    write(tmp_path / "a.txt")
    assert len(contents(tmp_path)) == 2  # it runs
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    files._cleaned.discard(tmp_path)
    write(tmp_path / "a.txt")
    assert contents(tmp_path) == {"a.txt": b"new"}


def test_files_of_a_process_that_is_being_killed_go(tmp_path, killed, monkeypatch):
    """As while it waits for a disk: the signal is pending."""
    of_process = files._of_process

    def pending(process, name):
        return of_process(process, name).replace("ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000000100")

    monkeypatch.setattr(files, "_of_process", pending)
    write(tmp_path / "a.txt")
    assert contents(tmp_path) == {"a.txt": b"new"}


def test_files_of_a_process_whose_number_another_has_now_go(tmp_path, killed):
    (found,) = tmp_path.glob(".a.txt*")
    os.utime(found, (0, 0))
    write(tmp_path / "a.txt")
    assert contents(tmp_path) == {"a.txt": b"new"}


@pytest.mark.parametrize("by_system", [True, False])
def test_space_is_reserved_with_or_without_a_call_of_the_system(tmp_path, monkeypatch, by_system):
    if not by_system:
        monkeypatch.delattr(os, "posix_fallocate")
        monkeypatch.setattr(files, "_WRITTEN_AT_ONCE", 1000)
    for n_bytes in (1, 1000, 4096, 12_345):
        with open(tmp_path / "a", "w+b") as file:
            files.reserve_space(file, n_bytes)
            found = os.stat(file.fileno())
            assert (found.st_size, found.st_blocks * 512 >= n_bytes) == (n_bytes, True)
            assert not any((tmp_path / "a").read_bytes())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        with pytest.raises(OSError), open(tmp_path / "b", "w+b", buffering=0) as file:
            files.reserve_space(file, 12_345)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("letter", ["n", "\u00e9"])
def test_names_as_long_as_file_systems_take_are_written(tmp_path, letter):
    name = (letter * 255).encode()[:250].decode(errors="ignore") + ".fits"
    check_names([tmp_path / name], "shorter")
    with atomic_write(tmp_path / name) as temporary:
        temporary.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    temporary_folder(tmp_path / f"{name[:-5]}.dir")
    with pytest.raises(ConfigError, match=r"257 bytes are too long a name: .*, of at most 255 .shorter"):
        check_names([tmp_path / name, tmp_path / (254 * "n" + ".h5")], "shorter")
