"""One SHA-256 of the maps for any ranks and threads, ways to deal data and to reduce, recomputed pointing."""

import tempfile
import time
from pathlib import Path

import pytest
from cases import cases
from mpi import run_ranks
from small_runs import noisy_scans, recorded_with_gains, run_on

from petacomm.mpi import SerialCommunicator

# reduction, set-up, threads, pointing, distribution
WAYS = [
    ("auto", "rendezvous", 1, "keep", "auto"),
    ("pairwise", "gather-sift", 2, "recompute", "time-major"),
    ("dense", "rendezvous", 2, "keep", "detector-major"),
    ("hybrid", "gather-sift", 1, "recompute", "streams"),
]
SOLVER = {"tolerance": 1e-6, "max_iterations": 4, "rcond_min": 0.235, "rcond_solved": 0.235}
TO_NOISE = {"tolerance": "1% of noise", "max_iterations": 60}


def _compressed(way, **changes):
    reduction, setup, threads, pointing, distribution = way
    chosen = {
        "map": {"n_side": 16},
        "comm": {"reduction": reduction, "setup": setup, "buffer": 1024, "distribution": distribution},
        "resources": {"threads": threads, "pointing": pointing},
        "solver": SOLVER | changes.pop("solver", {}),
        "products": {"overwrite": True},
    }
    return chosen | changes


def _recorded(way, preconditioner):
    solver = {"preconditioner": preconditioner, "rcond_min": 1e-3}
    numbered = {"pixelization": "numbered"}
    return _compressed((*way[:3], "keep", way[4]), solver=solver, map=numbered, noise={"n_lag": 20})


def _cases():
    """Yield the name of each case, its observations and its configuration; equal names must agree."""
    for way in WAYS:
        yield "exact", noisy_scans, _compressed(way)
    yield "levels", noisy_scans, _compressed(WAYS[1], solver={"flags": "levels"})
    yield "cut", noisy_scans, _compressed(WAYS[0], solver={"flags": "cut"})
    for way, flags in zip(WAYS, ("exact", "exact", "exact", "levels"), strict=True):
        yield (
            f"two levels, {flags}",
            noisy_scans,
            _compressed(way, solver={"flags": flags, "preconditioner": "two-level"}),
        )
    yield (
        "two levels, cut",
        noisy_scans,
        _compressed(
            WAYS[1],
            solver={"flags": "cut", "preconditioner": "two-level"} | TO_NOISE,
        ),
    )
    for way, preconditioner in zip(WAYS, ("block-diagonal", "none", "diagonal"), strict=False):
        yield f"gains, {preconditioner}", recorded_with_gains, _recorded(way, preconditioner)
    yield "white", noisy_scans, _compressed(WAYS[2], noise={"kernel": "white"})
    yield "estimate", noisy_scans, _compressed(WAYS[0], noise={"kernel": "estimate", "n_lag": 30})


def _results(comm):
    """Return, for each case, what its runs gave: one thing if all is well."""
    folder = Path(comm.bcast(tempfile.mkdtemp()))
    found = {}
    for name, observations, chosen in _cases():
        summary = run_on(observations(), folder, comm, **chosen)
        products = tuple(product.sha256 for product in summary.products)
        history = tuple(
            (step.relative_residual, step.error_bound, step.coarse_error) for step in summary.solver.history
        )
        result = (products, history, summary.totals, summary.warnings)
        found.setdefault(name, []).append(repr(result))
    return found


def _written(found):
    different = [name for name, results in found.items() if len(set(results)) > 1]
    assert not different, different
    return repr({name: results[0] for name, results in found.items()})


def print_results(comm):
    """Check that the ways agree, and say what they give."""
    begin = time.time()
    found = _results(comm)
    if comm.rank == 0:
        print("FOUND", _written(found))
        print("seconds", time.time() - begin)


@pytest.fixture(scope="module")
def alone():
    return _results(SerialCommunicator())


@pytest.mark.parametrize("n_ranks", cases(3, long=(2, 4, 7)))
def test_ranks_threads_and_reductions_do_not_change_a_bit(alone, n_ranks):
    ended = run_ranks(print_results, n_ranks, timeout=480)
    line = next(line for line in ended.out.splitlines() if line.startswith("FOUND"))
    assert line.removeprefix("FOUND ").strip() == _written(alone)


def test_the_cases_have_what_could_go_wrong(alone):
    summary = run_on(noisy_scans(), tempfile.mkdtemp(), **_compressed(WAYS[0]))
    assert summary.totals.samples_flagged > 2000
    assert 0 < summary.totals.pixels_cut < summary.totals.pixels_observed / 2
    assert len({results[0] for results in alone.values()}) == len(alone)
