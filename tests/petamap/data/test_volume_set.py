"""Volumes that ranks write side by side: the same bytes, the same maps, whole or absent."""

from __future__ import annotations

import errno
import hashlib
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest import mock

import h5py
import numpy as np
import pytest
from mpi import run_ranks

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petacomm.base.progress import SilentProgress
from petacomm.mpi import SerialCommunicator
from petamap.data.config import open_sources, parse_config
from petamap.data.formats import volume_set, volume_write
from petamap.data.formats.volume_set import deal_observations, write_volumes
from petamap.data.observation import read_flags, read_signal
from petamap.mapmaking.run import run
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.numbered import NumberedPixels

_KILLED = """
import os, signal, sys
from petacomm.base.files import temporary_folder
(temporary_folder(sys.argv[1]) / "0000_a.h5").write_text("half")
os.kill(os.getpid(), signal.SIGKILL)
"""

SCANS = """
[map]
n_side = 16
[noise]
n_lag = 64
[products]
report = false
[[source]]
kind = "satellite"
sample_rate = "5 Hz"
duration = "3 h"
n_det = 3
n_observations = 4
net = "60 uK s^0.5"
fknee = "50 mHz"
[[source]]
kind = "sky-spectra"
[[source]]
kind = "noise"
[[source]]
kind = "cuts"
gap_every = "10 min"
gap_length = "3 s"
"""
# One observation, in chunks and pieces of which three detectors have 36 and 18.
ONE = SCANS.replace('"3 h"', '"20 min"').replace("n_observations = 4\n", "")
SMALL = {"_CHUNK": 500, "PIECE": 1000}
READ = SCANS[: SCANS.index("[[source]]")] + '[[source]]\nkind = "volume"\npath = "data"\n'


def write(out, comm=None, text=SCANS, **choices):
    comm = comm or SerialCommunicator()
    return write_volumes(out, open_sources(parse_config(text)), comm, SilentProgress(), **choices)


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def maps_of(text, folder, out):
    found = run(parse_config(text, folder / "run.toml"), out=out)
    return {product.kind: product.sha256 for product in found.products}


def test_maps_of_the_volumes_are_those_of_the_sources(tmp_path):
    files = write(tmp_path / "data")
    assert [file.name for file in files] == sorted(digests(tmp_path / "data")) and len(files) == 4
    assert list(tmp_path.iterdir()) == [tmp_path / "data"]
    expected = maps_of(SCANS, tmp_path, tmp_path / "direct")
    assert maps_of(READ, tmp_path, tmp_path / "read") == expected


def print_digests(comm):
    folder = Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None))
    write(folder / "data", comm, n_threads=2)
    with mock.patch.multiple(volume_write, **SMALL):
        write(folder / "one", comm, ONE)
    if comm.rank == 0:
        print(*digests(folder / "data").values(), *digests(folder / "one").values())


@pytest.mark.parametrize("n_ranks", [2, 3, 5])
def test_bytes_do_not_depend_on_ranks_or_threads(n_ranks, tmp_path):
    write(tmp_path / "one")
    write(tmp_path / "threads", n_threads=3)
    expected = digests(tmp_path / "one")
    assert digests(tmp_path / "threads") == expected
    with mock.patch.multiple(volume_write, **SMALL):
        write(tmp_path / "alone", text=ONE)
    alone = digests(tmp_path / "alone").values()
    assert run_ranks(print_digests, n_ranks).out.split() == [*expected.values(), *alone]


def test_chunks_made_beside_hdf5_are_those_that_it_reads(tmp_path):
    with mock.patch.multiple(volume_write, **SMALL):
        (file,) = write(tmp_path / "data", text=ONE)
    (one,) = open_sources(parse_config(ONE))
    with h5py.File(file) as stored:
        for detector in range(3):
            expected = read_signal(one, detector, 0, one.n_samp)
            np.testing.assert_array_equal(stored["0000/signal"][detector], expected)
            np.testing.assert_array_equal(
                stored["0000/flags"][detector], read_flags(one, detector, 0, one.n_samp)
            )


class Counted:
    """A signal that counts the samples asked of each rank, and may fail at one."""

    def __init__(self, bad=None):
        self.bad, self.asked = bad, []

    def add_signal(self, detector, start, stop, out):
        self.asked.append((detector, start, stop))
        if self.bad is not None and detector == self.bad[0] and start <= self.bad[1] < stop:
            raise DataError("is nan", where=f"sample {self.bad[1]}")
        out += detector


def write_counted(comm, signal, out):
    (one,) = open_sources(parse_config(ONE))
    with mock.patch.multiple(volume_write, **SMALL):
        write_volumes(out, [replace(one, signals=(signal,))], comm, SilentProgress())


def check_ranks_share_an_observation(comm):
    folder = Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None))
    signal = Counted()
    write_counted(comm, signal, folder / "data")
    asked = comm.allgather(signal.asked)
    whole = [
        (detector, start, min(start + 500, 6000)) for detector in range(3) for start in range(0, 6000, 500)
    ]
    assert sorted(place for places in asked for place in places) == whole
    assert all(asked[int(comm.size > 4) :])
    assert (
        len({(place[0], place[1] // 1000, rank) for rank in range(comm.size) for place in asked[rank]}) == 18
    )


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_ranks_share_an_observation(n_ranks):
    run_ranks(check_ranks_share_an_observation, n_ranks)


def check_empty(comm, folder):
    comm.barrier()  # rank 0 has removed what there was
    assert list(folder.iterdir()) == []
    comm.barrier()


def check_a_fault_leaves_nothing(comm):
    folder = Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None))
    for bad in ((0, 0), (1, 3333), (2, 5999)):
        with pytest.raises(DataError, match=f"sample {bad[1]}: is nan"):
            write_counted(comm, Counted(bad), folder / "data")
        check_empty(comm, folder)
    full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    whole = volume_write._Writer._create

    def create(self, *arguments):
        data = whole(self, *arguments)
        return mock.Mock(id=mock.Mock(write_direct_chunk=full)) if arguments[0] == "signal" else data

    with (
        mock.patch.object(volume_write._Writer, "_create", create),
        pytest.raises(ResourceError, match="space"),
    ):
        write_counted(comm, Counted(), folder / "data")
    check_empty(comm, folder)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
def test_a_fault_of_any_rank_is_an_error_of_all_and_leaves_nothing(n_ranks):
    run_ranks(check_a_fault_leaves_nothing, n_ranks)


def test_single_precision_takes_half(tmp_path):
    sizes = []
    for precision in ("float64", "float32"):
        files = write(tmp_path / precision, precision=precision)
        sizes.append(sum(file.stat().st_size for file in files))
    n_samples = 3 * 3600 * 5 * 3
    assert sizes[0] - sizes[1] == pytest.approx(4 * n_samples, rel=0.05)


@pytest.mark.parametrize(
    ("sizes", "n_ranks", "expected"),
    [
        ([5, 5, 5, 5], 2, [(1, [0, 2]), (1, [1, 3])]),
        ([5, 5, 5, 5], 4, [(1, [0]), (1, [1]), (1, [2]), (1, [3])]),
        ([7], 5, [(5, [0])]),
        ([5, 5], 5, [(3, [0]), (2, [1])]),
        ([100, *[1] * 100], 4, [(2, [0]), (1, [*range(1, 101, 2)]), (1, [*range(2, 101, 2)])]),
        ([19, 19, 2], 4, [(2, [0, 2]), (2, [1])]),
        ([3, 4], 1, [(1, [1, 0])]),
    ],
)
def test_observations_are_dealt_by_their_samples(sizes, n_ranks, expected):
    groups = deal_observations(sizes, n_ranks)
    assert [(group.n_ranks, group.observations) for group in groups] == expected


def test_all_observations_are_dealt_once_to_all_ranks():
    rng = np.random.default_rng(1)
    for _ in range(200):
        sizes, n_ranks = rng.geometric(0.01, rng.integers(1, 20)).tolist(), int(rng.integers(1, 20))
        groups = deal_observations(sizes, n_ranks)
        assert sum(group.n_ranks for group in groups) == n_ranks
        assert sorted(one for group in groups for one in group.observations) == [*range(len(sizes))]
        assert all(group.observations and group.n_ranks > 0 for group in groups)


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="data: is there already"):
        write(tmp_path / "data")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="is a file, not a folder"):
        write(tmp_path / "file")
    assert (tmp_path / "data" / "mine.txt").read_text() == (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    assert len(write(tmp_path / "empty")) == 4


def test_what_a_killed_job_has_left_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "data.part").mkdir()
    (tmp_path / "data.part" / "mine.txt").write_text("mine")
    ended = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path / "data")], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL and len(list(tmp_path.iterdir())) == 2
    write(tmp_path / "data")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "data", tmp_path / "data.part"]
    assert len(digests(tmp_path / "data")) == 4 and (tmp_path / "data.part" / "mine.txt").exists()


def test_nothing_is_left_of_data_that_cannot_be_read(tmp_path, monkeypatch):
    whole, calls = volume_set.write_volume, []

    def failing(path, *arguments):
        calls.append(path)
        if len(calls) == 3:
            raise DataError("is nan", where="observation 2")
        whole(path, *arguments)

    monkeypatch.setattr(volume_set, "write_volume", failing)
    with pytest.raises(DataError, match="is nan"):
        write(tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_too_little_room_is_told_before(tmp_path, monkeypatch):
    monkeypatch.setattr(volume_set.shutil, "disk_usage", lambda path: type("usage", (), {"free": 1000}))
    with pytest.raises(ResourceError, match=r"the signal takes .* GB, and 1e-06 GB are free.*float32"):
        write(tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_recorded_pixels_are_refused_at_once(tmp_path):

    observations = open_sources(parse_config(SCANS))
    pixels = RecordedPixels(np.zeros((3, observations[1].n_samp), np.int32), NumberedPixels(4))
    observations[1] = replace(observations[1], pointing=pixels)
    with pytest.raises(DataError, match="a volume cannot hold RecordedPixels"):
        write_volumes(tmp_path / "data", observations, SerialCommunicator(), SilentProgress())
    assert list(tmp_path.iterdir()) == []
