"""What a run reads of files, counted: each sample once a run and node in a pass, on any number of ranks."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks

from petacomm.mpi import SerialCommunicator
from petamap.data import node_reads, read_ahead
from petamap.data.config import open_sources, parse_config
from petamap.data.formats import toast_write, volume_write
from petamap.data.formats.hdf5 import Hdf5Reader
from petamap.data.formats.madmap1_stream import Madmap1Stream
from petamap.data.formats.madmap1_write import write_madmap1
from petamap.data.observation import DetectorNoise
from petamap.mapmaking.run import run
from petamap.noise.model import InverseLags
from petamap.sky.healpix import Healpix

N_DET, N_SAMP = 3, 21600
SCAN = f"""
[map]
n_side = 16
[[source]]
kind = "satellite"
sample_rate = "2 Hz"
duration = "3 h"
n_det = {N_DET}
net = "60 uK s^0.5"
fknee = "50 mHz"
[[source]]
kind = "noise"
[[source]]
kind = "cuts"
gap_every = "10 min"
gap_length = "3 s"
"""
READ = """
[map]
n_side = 16
{map}
[noise]
n_lag = 64
[solver]
max_iterations = 2
[comm]
distribution = "{distribution}"
[products]
report = false
[resources]
threads = 1
[[source]]
kind = "{kind}"
"""
MAPS = {"madmap1": 'stokes = "I"'}
STREAM = 'filters = "filters"\nweights = "unit"\nhealpix = "nested"\nframe = "galactic"'
PATHS = {
    "volume": 'path = "volume.h5"',
    "toast": 'path = "toast"',
    "madmap1": f'tod = "tod"\n{STREAM}',
    "madmap1 IQU": f'tod = "tod-iqu"\n{STREAM}',
}
# of which a run of few samples has many
SMALL = {"PIECE": 2000, "SHORT": 100}


def write_files(folder):
    """Write a volume and a TOAST volume of several chunks a row, and files of MADmap 1."""
    observations = open_sources(parse_config(SCAN))
    for name in ("toast", "filters"):
        (folder / name).mkdir()
    with mock.patch.object(volume_write, "_CHUNK", 700), mock.patch.object(toast_write, "_CHUNK", 700):
        volume_write.write_volume(folder / "volume.h5", observations)
        toast_write.write_toast(folder / "toast", observations)
    noise = DetectorNoise((InverseLags(np.array([4.0, -1.0, 0.5])),) * N_DET)
    one = dataclasses.replace(observations[0], noise=noise, flags=())
    for tod, stokes in (("tod", "I"), ("tod-iqu", "IQU")):
        write_madmap1(folder / tod, folder / "filters", [one], Healpix(16, nest=True), stokes=stokes)


@contextlib.contextmanager
def counted(counts):
    """Count the values that are read of each part of files."""

    def counting(function, name):
        def read(self, part, *arguments):
            values = function(self, part, *arguments)
            counts[part if name else "records"] += values.size
            return values

        return read

    with contextlib.ExitStack() as stack:
        for owner, name in ((Hdf5Reader, "array"), (Hdf5Reader, "rows"), (Madmap1Stream, "_records")):
            replaced = counting(getattr(owner, name), owner is Hdf5Reader)
            stack.enter_context(mock.patch.object(owner, name, replaced))
        stack.enter_context(mock.patch.multiple(read_ahead, **SMALL))
        stack.enter_context(mock.patch.object(node_reads, "SHORT", SMALL["SHORT"]))
        yield


def read_by_run(comm, folder, text):
    """Return the values read on each node of each part of the files of a run, and what its maps are."""
    own, out = Counter(), Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None))
    with counted(own):
        done = run(parse_config(text, folder / "run.toml"), out=out, comm=comm)
        read_ahead._pieces._thread.submit(int).result()
    on_node = sum(comm.node().allgather(own), Counter())
    kinds = "map", "binned", "hits"
    return on_node, {product.kind: product.sha256 for product in done.products if product.kind in kinds}


def check_reads(comm):
    folder = Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None))
    if comm.rank == 0:
        write_files(folder)
    comm.barrier()
    for kind in PATHS:
        distribution = "time-major" if kind == "volume" and comm.size > 1 else "auto"
        source = kind.partition(" ")[0]
        text = READ.format(map=MAPS.get(kind, ""), distribution=distribution, kind=source) + PATHS[kind]
        counts, maps = read_by_run(comm, folder, text)
        check_counts(comm, kind, counts)
        if comm.rank == 0:
            alone, expected = read_by_run(SerialCommunicator(), folder, text)
            check_counts(SerialCommunicator(), kind, alone)
            assert len(maps) == 3 and maps == expected


def check_counts(comm, kind, counts):
    if kind.startswith("madmap1"):
        check_samples(comm, counts["records"], 2)  # pixels in one pass, the signal in another
        return
    if kind == "volume":
        check_samples(comm, counts["0000/signal"])
        check_samples(comm, counts["0000/flags"])
        assert counts["0000/knots"] == comm.bcast(counts["0000/knots"]) > 0  # each node reads them once
        assert counts["0000/quaternions"] == 4 * N_DET
        return
    check_samples(comm, counts["detdata/signal"])
    check_samples(comm, counts["detdata/flags"])
    assert counts["shared/boresight_radec"] == 4 * N_SAMP
    assert counts["shared/times"] == N_SAMP + 2  # the ends, as one rank opens the file
    assert counts["shared/flags"] <= N_SAMP


def check_samples(comm, found, passes=1):
    """See that the samples of a pass were read once; those at the borders of nodes, by both."""
    once = passes * N_DET * N_SAMP
    if comm.node().size == comm.size:
        assert found == once
    else:
        nodes = comm.sum(found if comm.node().rank == 0 else 0)
        assert once <= nodes <= once + 2 * passes * N_DET * comm.size * (700 + 2 * 64)


@pytest.mark.parametrize(("n_ranks", "per_node"), cases((1, ""), (3, ""), (4, "2"), long=[(2, ""), (5, "")]))
def test_each_sample_is_read_once_a_run_and_node(n_ranks, per_node, monkeypatch):
    if per_node:
        monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", per_node)
    run_ranks(check_reads, n_ranks)


def test_pixel_and_signal_of_a_record_are_read_together_as_they_are_asked_for(tmp_path):
    """One rank alone keeps no samples before a pass of binning."""
    write_files(tmp_path)
    text = READ.format(map=MAPS["madmap1"], distribution="auto", kind="madmap1") + PATHS["madmap1"]
    text = text.replace("n_lag = 64", 'kernel = "white"').replace("max_iterations = 2", "binned_only = true")
    config, counts, kept = parse_config(text, tmp_path / "run.toml"), Counter(), []
    announce = read_ahead.ReadAhead.announce

    def announced(self, ranges, shared):
        kept.append(list(shared))
        announce(self, ranges, shared)

    block_in_a_piece = mock.patch.object(read_ahead, "PIECE", 20_000)
    with (
        counted(counts), block_in_a_piece, mock.patch.object(read_ahead.ReadAhead, "announce", announced)
    ):  # fmt: skip
        run(config, out=tmp_path / "out")
        read_ahead._pieces._thread.submit(int).result()
    assert counts["records"] == N_DET * N_SAMP and kept and not any(kept)
