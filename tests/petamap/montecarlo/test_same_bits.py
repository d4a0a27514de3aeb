"""Tests that the bytes of the file do not depend on ranks, groups, batches and threads."""

import hashlib
import tempfile
from pathlib import Path

import pytest
from cases import cases
from montecarlo_runs import made
from mpi import run_ranks

from petacomm.mpi import SerialCommunicator

ALWAYS = ("montecarlo.realizations=20", "montecarlo.vectors=6", "source.0.duration=3 h")
AUTO, PAIRS = ("auto", "auto"), ("pairwise", "time-major")
# batch, groups, threads, pointing, reduction and distribution
WAYS = {
    1: [(0, 0, 1, "keep", AUTO), (3, 0, 2, "recompute", AUTO), (1, 0, 1, "keep", PAIRS)],
    2: [(0, 1, 1, "keep", PAIRS), (3, 2, 1, "keep", AUTO)],
    3: [(7, 1, 1, "keep", AUTO), (2, 2, 1, "recompute", PAIRS)],
    5: [(4, 2, 1, "keep", PAIRS), (3, 5, 1, "keep", AUTO)],
}


def _digests(comm):
    """Return the digest of the file for each configuration with this number of ranks, on rank 0."""
    found = []
    for batch, groups, threads, pointing, (reduction, distribution) in WAYS[comm.size]:
        out = Path(comm.bcast(tempfile.mkdtemp()))
        made(
            out, *ALWAYS, f"montecarlo.batch={batch}", f"montecarlo.groups={groups}",
            f"resources.threads={threads}", f"resources.pointing={pointing}",
            f"comm.reduction={reduction}", f"comm.distribution={distribution}", comm=comm,
        )  # fmt: skip
        found.append(hashlib.sha256((out / "tiny_mc.h5").read_bytes()).hexdigest())
    return found


def print_digests(comm):
    found = _digests(comm)
    if comm.rank == 0:
        print("FOUND", *found)


@pytest.fixture(scope="module")
def alone():
    found = _digests(SerialCommunicator())
    assert len(set(found)) == 1
    return found[0]


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 5)))
def test_ranks_groups_and_batches(alone, n_ranks):
    ended = run_ranks(print_digests, n_ranks, timeout=120)
    line = next(line for line in ended.out.splitlines() if line.startswith("FOUND"))
    assert set(line.split()[1:]) == {alone}
