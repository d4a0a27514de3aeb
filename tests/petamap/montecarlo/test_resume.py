"""Tests of continuing a Monte Carlo after it was killed."""

import itertools
import multiprocessing
import os
import random
import resource
import signal
import tempfile
import time
from pathlib import Path
from unittest import mock

import h5py
import numpy as np
import pytest
from cases import cases
from montecarlo_runs import TINY, arrays, made, same
from mpi import launch, run_ranks

from petacomm.base.errors import Interruption
from petamap.cli.main import main
from petamap.montecarlo import rank_groups
from petamap.montecarlo.spectra_writer import SpectraWriter
from petamap.montecarlo.store import Store

N_REALIZATIONS = 50
SHORT = "source.0.duration=3 h"
# enough realizations for 20 kills: the set-up of a run takes longer than a realization
SETTINGS = (f"montecarlo.realizations={N_REALIZATIONS}", SHORT, "montecarlo.maps=true")


@pytest.fixture(scope="module")
def forks():
    """Return a context for processes that have imported everything and started no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["petamap.montecarlo.run", "petacomm.cli.progress", "ducc0", "h5py", "scipy.spatial"]
    )
    return context


def finished(path):
    """Return the number of finished realizations in a file; 0 if there is no file."""
    if not path.exists():
        return 0
    with h5py.File(path) as file:
        return int(np.count_nonzero(file["status"][...]))


@pytest.mark.parametrize(("n_kills", "seed"), cases((6, 5), long=[(20, seed) for seed in range(10)]))
def test_same_bytes_after_kills(n_kills, seed, tmp_path, forks):
    (tmp_path / "tiny.toml").write_text(TINY)
    words = ["mc", str(tmp_path / "tiny.toml"), *SETTINGS]
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    whole = arrays(tmp_path / "whole")
    path, chance, counts = tmp_path / "killed" / "tiny_mc.h5", random.Random(seed), []
    for kill in range(n_kills):
        process = forks.Process(target=main, args=([*words, "--batch", "1", "--out", str(path.parent)],))
        process.start()
        _wait_for(path, process, at_least=kill * (N_REALIZATIONS - 5) // n_kills)
        time.sleep(chance.uniform(0, 0.06))
        process.kill()
        process.join()
        assert process.exitcode == -9
        counts.append(finished(path))
        part = arrays(path.parent) if path.exists() else {"status": np.zeros(0)}
        done = np.flatnonzero(part["status"] == 1)
        for name in whole:
            common = name.startswith("checksums/") or name in ("status", "numbers", "weights", "theory")
            if not common and len(done):
                assert same(part[name][done], whole[name][done]), name
    assert counts == sorted(counts) and 0 < counts[n_kills // 2] < counts[-1] < N_REALIZATIONS
    assert main([*words, "--out", str(path.parent)]) == 0
    assert path.read_bytes() == (tmp_path / "whole" / "tiny_mc.h5").read_bytes()


def test_damaged_rows_are_made_again(tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY)
    words = ["mc", str(tmp_path / "tiny.toml"), SHORT, "--realizations", "4", "--out", str(tmp_path)]
    path = tmp_path / "tiny_mc.h5"
    assert main(words) == 0
    whole = path.read_bytes()
    with h5py.File(path, "r+") as file:
        file["pseudo/both"][2, 0, 3] *= 1.5
    assert main(["report", str(tmp_path)]) == 3
    assert "tiny_mc.h5: is damaged: realization 2 (the petamap mc" in capsys.readouterr().err
    assert main(words) == 0
    assert "tiny_mc.h5 was damaged, and what was is made anew: realization 2" in capsys.readouterr().err
    assert path.read_bytes() == whole
    with h5py.File(path, "r+") as file:
        file["weights"][0, 5] += 1
    assert main(words) == 0
    assert "made anew: weights" in capsys.readouterr().err
    assert path.read_bytes() == whole


def _wait_for(path, process, at_least):
    """Wait until a file has at least so many realizations."""
    end = time.monotonic() + 30
    while finished(path) < at_least:
        assert process.is_alive() and time.monotonic() < end, finished(path)
        time.sleep(0.002)


def write_less_on_one_rank(comm):
    """Simulate a full disk for rank 1 after the file is created; each rank is a group."""
    out = Path(os.environ["OUT"])
    made(out, "montecarlo.realizations=1", SHORT, comm=comm)
    n_bytes = (out / "tiny_mc.h5").stat().st_size

    def full(*arguments):
        if comm.rank == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return laid_out(*arguments)

    laid_out = Store.__init__
    with mock.patch.object(Store, "__init__", full):
        made(out, "montecarlo.realizations=40", "montecarlo.groups=2", "montecarlo.batch=1", SHORT, comm=comm)


def test_full_disk_of_one_group_ends_all_groups(tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path / "full"))
    ended = launch(write_less_on_one_rank, 2)
    assert ended.code == 5, ended.err
    assert ended.err.count("petamap: error:") == 1 and "what is finished stays" in ended.err
    finished_then = finished(tmp_path / "full" / "tiny_mc.h5")
    assert 1 <= finished_then < 40
    made(tmp_path / "full", "montecarlo.realizations=40", SHORT)
    made(tmp_path / "whole", "montecarlo.realizations=40", SHORT)
    files = [(tmp_path / name / "tiny_mc.h5").read_bytes() for name in ("full", "whole")]
    assert files[0] == files[1]


def stop_in_spectra_of_all(comm):
    """End by SIGTERM to one rank between parts of the transforms of a map, and go on."""
    out, calls = Path(comm.bcast(tempfile.mkdtemp())), itertools.count(1)
    settings = ("montecarlo.realizations=2", "montecarlo.groups=1", "montecarlo.batch=1", SHORT)
    end_if_stopped = SpectraWriter._end_if_stopped

    def stopped(writer):
        if next(calls) == 40 and comm.rank == comm.size - 1:
            writer.stop.signal = signal.SIGTERM
        end_if_stopped(writer)

    with mock.patch.object(rank_groups, "_bytes_at_once", lambda *a: 0.0 if a[-1] else 1e18):
        with (
            mock.patch.object(SpectraWriter, "_end_if_stopped", stopped),
            pytest.raises(Interruption, match=r"stopped by SIGTERM in phase 'spectra'"),
        ):
            made(out / "stopped", *settings, comm=comm)
        assert next(calls) == 41 and finished(out / "stopped" / "tiny_mc.h5") < 2
        made(out / "stopped", *settings, comm=comm)
        made(out / "whole", *settings, comm=comm)
    files = [(out / name / "tiny_mc.h5").read_bytes() for name in ("stopped", "whole")]
    assert files[0] == files[1]


def test_spectra_that_ranks_make_together_can_be_stopped():
    run_ranks(stop_in_spectra_of_all, 2)
