"""What tests of several rooms need."""

import os
import signal
import tempfile
from dataclasses import replace

import mpi
import numpy as np
import pytest
from hypothesis import settings
from rank_tests import mark_rank_tests

from petamap.data import run_summary as s

# What is tried for seconds on a busy machine is no failure.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True, scope="session")
def own_folders(tmp_path_factory):
    """Keep cached choices out of the user's cache, and temporary files of all processes with pytest's own.

    Among these are compiled modules, which hundreds of processes would else compile again, where the user's
    settings or permissions do not let Python write them beside the source.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PYTHONPYCACHEPREFIX", str(shared / "pycache"))
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        temporary = str(tmp_path_factory.mktemp("tmp"))
        patch.setenv("TMPDIR", temporary)
        patch.setattr(tempfile, "tempdir", temporary)
        yield


def pytest_addoption(parser):
    told = "fork ranks from a process that imports their test files once"
    parser.addoption("--fork-ranks", action="store_true", help=told)


def pytest_xdist_auto_num_workers():
    """Return one more than there are cores: tests of signals, kills and disks wait."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    mark_rank_tests(items)


@pytest.fixture(autouse=True, scope="session")
def rank_server(request, own_folders, tmp_path_factory):
    """Keep a server of ranks where it is asked for and the system has what it needs.

    Ranks that it forks have hashes of strings and addresses in common, which those of other jobs do not.
    """
    if request.config.getoption("fork_ranks") and mpi.can_fork_ranks():
        with mpi.forked_ranks(tmp_path_factory.mktemp("server")):
            yield
    else:
        yield


@pytest.fixture(autouse=True, scope="session")
def interruptible():
    """Let tests and their commands have Ctrl-C, which processes in the background of a shell ignore."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_draws(request):
    """Start a module's generator afresh for each test: what it draws depends on no other test."""
    generator = getattr(request.module, "RNG", None)
    if generator is not None:
        start = vars(request.module).setdefault("_start_of_draws", generator.bit_generator.state)
        generator.bit_generator.state = start


@pytest.fixture
def make_summary():
    """Return a function that makes a realistic summary, with fields replaced as asked."""
    return _summary


def _summary(ranks=3, **changes):
    rng = np.random.default_rng(7)

    def phase(name, seconds, calls, sent):
        spread = [
            s.RankStatistics.from_values(most * rng.uniform(0.8, 1.0, ranks)) for most in (seconds, sent)
        ]
        return s.PhaseCost(name=name, seconds=spread[0], calls=calls, bytes=spread[1], messages=spread[1])

    history = tuple(
        s.SolverStep(
            iteration=i, relative_residual=0.6**i, seconds=0.41 * i + 0.01 * np.sin(i),
            error_bound=4e3 * 0.6**i, coarse_error=2e2 * 0.55**i,
        )
        for i in range(46)
    )  # fmt: skip
    made = s.Summary(
        petamap="0.1.0",
        name="planck-lfi",
        title="Planck LFI 70 GHz: WMAP's sky",
        run_id="20261120T114500-8c1f",
        command=(
            "mpiexec",
            "-n",
            str(ranks),
            "petamap",
            "run",
            "--example",
            "planck-lfi",
            "--out",
            "my maps",
        ),
        configuration='[run]\nname = "planck-lfi"\nseed = 1234\n',
        seed=1234,
        environment=s.Environment(
            python="3.11.7",
            numpy="2.4.6",
            mpi="MPICH 5.0.2",
            cpu="AMD EPYC",
            kernels="v4",
            ranks=ranks,
            threads=2,
            hosts=1,
            distribution="streams",
            reduction="owner",
        ),
        totals=s.Totals(
            observations=12,
            detectors=22,
            samples=31_104_000,
            samples_used=30_984_215,
            samples_flagged=119_785,
            pixels=100_000,
            pixels_observed=12_288,
            pixels_cut=3,
            pixels_degenerate=3,
        ),
        noise=s.NoiseKernel(n_lag=4096, n_fft=32768),
        solver=s.Solver(
            converged=True,
            reason="the residual is below the tolerance",
            iterations=45,
            tolerance=1e-9,
            relative_residual=history[-1].relative_residual,
            error_bound=history[-1].error_bound,
            coarse_error=history[-1].coarse_error,
            history=history,
        ),
        phases=(
            phase("read", 6.1, 12, 0.0),
            phase("pointing", 3.2, 264, 0.0),
            phase("solve", 18.8, 45, 1.5e7),
        ),
        memory=s.Memory(predicted_bytes=412_000_000, peak_bytes=436_000_000, bytes_per_sample=14.0),
        products=(),
        comparisons=(
            s.MapComparison(
                name="map", reference="input", max_abs=2e-13, rms=4e-14, limit=1e-12, unit="K_CMB"
            ),
        ),
        warnings=("3 pixels have a reciprocal condition below 1e-6 and are cut",),
    )
    return replace(made, **changes)
