"""Volumes that ranks write side by side: the same bytes, the same maps, whole or absent."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mpi import run_ranks

from petacomm.base.errors import ConfigError, DataError, ResourceError
from petacomm.base.progress import SilentProgress
from petacomm.mpi import SerialCommunicator
from petamap.data.config import open_sources, parse_config
from petamap.data.formats import volume_set
from petamap.data.formats.volume_set import deal_observations, write_volumes
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
    if comm.rank == 0:
        print(*digests(folder / "data").values())


def test_bytes_do_not_depend_on_ranks_or_threads(tmp_path):
    write(tmp_path / "one")
    write(tmp_path / "threads", n_threads=3)
    expected = digests(tmp_path / "one")
    assert digests(tmp_path / "threads") == expected
    assert run_ranks(print_digests, 3).out.split() == list(expected.values())


def test_single_precision_takes_half(tmp_path):
    sizes = []
    for precision in ("float64", "float32"):
        files = write(tmp_path / precision, precision=precision)
        sizes.append(sum(file.stat().st_size for file in files))
    n_samples = 3 * 3600 * 5 * 3
    assert sizes[0] - sizes[1] == pytest.approx(4 * n_samples, rel=0.05)


def test_observations_are_dealt_by_their_samples():
    observations = open_sources(parse_config(SCANS))
    assert deal_observations(observations, 2) == [[0, 2], [1, 3]]
    assert sorted(number for one in deal_observations(observations, 3) for number in one) == [0, 1, 2, 3]
    assert deal_observations(observations, 6)[4:] == [[], []]


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
