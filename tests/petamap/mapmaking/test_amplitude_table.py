"""Amplitudes of templates are gathered from all ranks, though some have none."""

import tempfile
from dataclasses import replace

import pytest
from cases import cases
from mpi import run_ranks
from small_runs import noisy_scans, run_on, sha_of

from petamap.templates.kinds import Baselines

CHOSEN = {
    "comm": {"distribution": "time-major"},
    "noise": {"kernel": "white"},
}


def scan():
    """Return an observation of two streams: fewer than there are ranks."""
    one = noisy_scans(n_det=2)[0]
    return replace(one, templates=(Baselines(20.0),), intervals=((0, one.n_samp),))


def run_by(reduction, folder, comm=None):
    chosen = CHOSEN | {"comm": CHOSEN["comm"] | {"reduction": reduction}}
    return run_on([scan()], folder, comm, **chosen)


def print_bits(comm):
    folder = comm.bcast(tempfile.mkdtemp())
    for reduction in ("hybrid", "hierarchical", "owner", "dense"):
        summary = run_by(reduction, f"{folder}/{reduction}", comm)
        if comm.rank == 0:
            print("FOUND", reduction, sha_of(summary, "map"), sha_of(summary, "amplitudes"))


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_some_ranks_have_no_amplitudes(tmp_path, n_ranks):
    alone = run_by("auto", tmp_path)
    out = run_ranks(print_bits, n_ranks).out
    bits = f"{sha_of(alone, 'map')} {sha_of(alone, 'amplitudes')}"
    assert out.count(bits) == 4, out
