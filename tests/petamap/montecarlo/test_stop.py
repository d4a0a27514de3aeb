"""Tests of a Monte Carlo that is asked to stop: it goes on with the same bytes, within a batch too."""

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from killed_jobs import Job
from montecarlo_runs import TINY, arrays, made
from mpi import run_ranks
from stopping import StopAfter

from petacomm.base.errors import ConfigError, Interruption
from petacomm.base.stop_request import StopRequest
from petamap.mapmaking import checkpoint_pace
from petamap.spectra.pseudo_cl import PseudoClEstimator

SETTINGS = ("montecarlo.realizations=6", "source.0.duration=3 h", "montecarlo.maps=true")


@pytest.fixture(autouse=True)
def a_look_each_iteration(monkeypatch):
    monkeypatch.setattr(checkpoint_pace, "_LOOK_SECONDS", 0.0)


def stopped(out, *settings, looks, comm=None, **choices):
    """Make realizations until a stop after some looks; return whether they are done."""
    try:
        made(out, *SETTINGS, *settings, comm=comm, stop=StopAfter(looks, **choices))
    except Interruption as error:
        assert "the same command goes on" in str(error)
        return False
    return True


@pytest.mark.parametrize("settings", cases([], long=(["montecarlo.vectors=4"], ["montecarlo.batch=1"])))
def test_stopped_again_and_again(tmp_path, settings):
    made(tmp_path / "whole", *SETTINGS, *settings)
    folder, n_stops, states = tmp_path / "stopped", 0, set()
    while not stopped(folder, *settings, looks=9):
        n_stops += 1
        states |= {path.name for path in (folder / "tiny_mc.checkpoint").glob("*")}
    assert n_stops > 2 and {"batch-0.checkpoint"} <= states
    assert (folder / "tiny_mc.h5").read_bytes() == (tmp_path / "whole" / "tiny_mc.h5").read_bytes()
    assert not (folder / "tiny_mc.checkpoint").exists()


def test_other_batches_leave_the_checkpoint_alone(tmp_path):
    made(tmp_path / "whole", *SETTINGS)
    assert not stopped(tmp_path / "b", "montecarlo.batch=3", looks=9)
    assert (tmp_path / "b" / "tiny_mc.checkpoint" / "batch-0.checkpoint").exists()
    assert stopped(tmp_path / "b", "montecarlo.batch=2", looks=10**6)
    files = [(tmp_path / name / "tiny_mc.h5").read_bytes() for name in ("whole", "b")]
    assert files[0] == files[1]


def test_binned_maps_stop_between_batches(tmp_path):
    settings = ("solver.binned_only=true", "montecarlo.batch=1")
    made(tmp_path / "whole", *SETTINGS, *settings)
    assert not stopped(tmp_path / "b", *settings, looks=3)
    assert 0 < np.count_nonzero(arrays(tmp_path / "b")["status"]) < 6
    assert stopped(tmp_path / "b", *settings, looks=10**6)
    files = [(tmp_path / name / "tiny_mc.h5").read_bytes() for name in ("whole", "b")]
    assert files[0] == files[1]


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    assert not stopped(tmp_path, looks=9)
    (tmp_path / "tiny_mc.h5").unlink()
    with pytest.raises(ConfigError, match=r"batch-0.checkpoint: is of another run configuration.*--force"):
        made(tmp_path, *SETTINGS, "run.seed=8")
    made(tmp_path, *SETTINGS, "run.seed=8", "products.overwrite=true")
    assert not (tmp_path / "tiny_mc.checkpoint").exists()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_signal_amid_the_spectra_ends_them(tmp_path, monkeypatch, n_threads):
    """All six realizations are one batch; the signal comes while spectra of the second one are made."""
    settings = (*SETTINGS, "montecarlo.batch=6", f"resources.threads={n_threads}")
    made(tmp_path / "whole", *settings)
    whole, asked = PseudoClEstimator.pseudo, []

    def pseudo(self, values):
        asked.append(len(asked))
        if len(asked) == 4:  # of the noise of the second realization, or while both are in work
            os.kill(os.getpid(), signal.SIGTERM)
        return whole(self, values)

    with monkeypatch.context() as patch, StopRequest({}).signals() as stop:
        patch.setattr(PseudoClEstimator, "pseudo", pseudo)
        with pytest.raises(Interruption, match=r"SIGTERM in phase 'spectra' .*the same command goes on"):
            made(tmp_path / "b", *settings, stop=stop)
    assert 0 < len(asked) < 8 and np.count_nonzero(arrays(tmp_path / "b")["status"]) <= 2
    made(tmp_path / "b", *settings)
    files = [(tmp_path / name / "tiny_mc.h5").read_bytes() for name in ("whole", "b")]
    assert files[0] == files[1]


def stop_on_ranks(comm):
    checkpoint_pace._LOOK_SECONDS = 0.0
    out, groups = Path(os.environ["OUT"]), f"montecarlo.groups={os.environ['GROUPS']}"
    done = stopped(out, groups, looks=int(os.environ["LOOKS"]), here=comm.rank > 0, comm=comm)
    assert set(comm.allgather(done)) == {os.environ["EXPECTED"] == "done"}


@pytest.mark.parametrize("groups", cases("2", long=("1",)))
def test_ranks_and_groups(tmp_path, monkeypatch, groups):
    made(tmp_path / "whole", *SETTINGS)
    monkeypatch.setenv("OUT", str(tmp_path / "b"))
    monkeypatch.setenv("GROUPS", groups)
    for n_ranks, looks, expected in ((2, 7, "stopped"), (3, 7, "stopped"), (2, 10**6, "done")):
        monkeypatch.setenv("LOOKS", str(looks))
        monkeypatch.setenv("EXPECTED", expected)
        run_ranks(stop_on_ranks, n_ranks)
    files = [(tmp_path / name / "tiny_mc.h5").read_bytes() for name in ("whole", "b")]
    assert files[0] == files[1]


@pytest.mark.parametrize("n_ranks", cases(1, long=(3,)))
def test_a_signal_to_the_command(tmp_path, n_ranks):
    (tmp_path / "tiny.toml").write_text(TINY)
    settings = ["montecarlo.realizations=60", *SETTINGS[1:]]
    words = ["mc", "tiny.toml", *settings, "--threads", "1", "--resume", "--batch", "2"]
    job = Job([*words, "--out", "b"], n_ranks, tmp_path)
    job.wait_for("realizations: begins")
    number = job.stop()
    assert job.end() == 75, job.said()
    said = job.said()
    # between two batches there is no state to save
    ends = r", after a checkpoint \(", r" (in|after) phase '[\w ]+' \(realizations that are done stay: "
    assert said.count("petamap: ") == 1, said
    assert any(re.search(f"stopped by {number.name}{end}the same command", said) for end in ends), said
    assert Job([*words, "--out", "b"], n_ranks, tmp_path).end() == 0
    made(tmp_path / "whole", *settings)
    files = [(tmp_path / name / "tiny_mc.h5").read_bytes() for name in ("whole", "b")]
    assert files[0] == files[1]
