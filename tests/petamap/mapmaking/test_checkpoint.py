"""Tests of checkpoints: a solver that goes on gives the bits of one that was not stopped."""

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks
from small_runs import noisy_scans, run_on, sha_of
from small_systems import compressed, datasets, make_system, read_many, unknowns
from stopping import StopAfter

from petacomm.base import files
from petacomm.base.errors import ConfigError, ConvergenceError, DataError, Interruption
from petacomm.base.stop_request import StopRequest
from petamap.data.run_summary import Summary
from petamap.mapmaking import checkpoint_pace
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.checkpoint import JobCheckpoints
from petamap.mapmaking.linear_operators import Preconditioner
from petamap.mapmaking.recycling import Deflation
from petamap.mapmaking.solution import ColumnState
from petamap.sky.healpix import Healpix

TOLERANCE = 1e-9


@pytest.fixture(autouse=True)
def a_look_each_iteration(monkeypatch):
    monkeypatch.setattr(checkpoint_pace, "_LOOK_SECONDS", 0.0)


class Stopped(Exception):
    pass


class InMemory:
    """Checkpoint that ends the solver before an iteration, and keeps numbers as JSON has them."""

    def __init__(self, stop_at, saved=()):
        self.stop_at, self.saved = stop_at, list(saved)
        self.steps, self.done, self.asked = 0, [], 0

    def restore(self, rhs):
        states = self.saved[self.asked : self.asked + len(rhs)]
        self.asked += len(rhs)
        return states or None

    def step(self, states):
        self.steps += 1
        if self.steps == self.stop_at:
            found = self.done + states()
            self.saved = [
                ColumnState(json.loads(json.dumps(s.scalars)), {n: v.copy() for n, v in s.vectors.items()})
                for s in found
            ]
            raise Stopped

    def finish(self, states):
        self.done += states()


class Diagonal(Preconditioner):
    """Preconditioner that kernels do not know: z is computed apart."""

    def __init__(self, blocks):
        self.blocks = blocks

    def apply(self, vectors):
        self.size = np.abs(vectors.pixels).max(axis=(0, 1))
        return self.blocks.apply(vectors)

    @property
    def coarse_error(self):
        return self.size


def system_and_rhs(n):
    made = [compressed(np.random.default_rng(8), 3000, 3, 12, flagged=0.02)]
    system = make_system(made, Healpix(4, nest=True), n_lag=12)
    return system, unknowns(read_many(system, datasets(made, n)))


def everything(solutions):
    return [
        (
            [part.tobytes() for part in one.map], one.returned, one.converged, one.reason, one.true_residual,
            one.error_bound, [replace(step, seconds=0.0) for step in one.history],
        )
        for one in solutions
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["blocks", "other", "deflated", "never", "noise"])
@pytest.mark.parametrize("n_rhs", [1, 3, 11])
def test_stopped_before_any_iteration(kind, n_rhs):
    system, rhs = system_and_rhs(n_rhs)
    solver, space = system.solver(), None
    if kind == "other":
        solver = ConjugateGradients(system.operator(), Diagonal(system.preconditioner))
    if kind == "deflated":
        space = Deflation.train(solver, rhs[:1], TOLERANCE, 50, 4)
    # below what rounding allows, so that the best iterate is left behind
    choices = {"never": (1e-30, 60), "noise": ("1% of noise", 200)}.get(kind, (TOLERANCE, 200))
    whole = InMemory(0)
    expected = everything(solver.solve_many(rhs, *choices, deflation=space, checkpoint=whole))
    assert expected == everything(solver.solve_many(rhs, *choices, deflation=space))
    assert whole.steps > 5
    assert kind != "other" or all(step[-1].coarse_error > 0 for *_, step in expected)
    for stop_at in range(1, whole.steps + 1, 1 if n_rhs == 3 else 7):
        first = InMemory(stop_at)
        with pytest.raises(Stopped):
            solver.solve_many(rhs, *choices, deflation=space, checkpoint=first)
        again = InMemory(0, first.saved)
        found = solver.solve_many(rhs, *choices, deflation=space, checkpoint=again)
        assert everything(found) == expected
        assert again.steps == whole.steps - stop_at + 1 + (n_rhs > 8 and stop_at > len_of_first(expected))


def len_of_first(expected):
    """Return the passes over the first eight right-hand sides."""
    return max(len(one[-1]) for one in expected[:8])


def test_a_failed_column_stays_failed():
    system, rhs = system_and_rhs(3)
    rhs[1].pixels[0] = np.inf
    first = InMemory(4)
    with pytest.raises(Stopped):
        system.solver().solve_many(rhs, TOLERANCE, 200, checkpoint=first)
    found = system.solver().solve_many(rhs, TOLERANCE, 200, checkpoint=InMemory(0, first.saved))
    assert isinstance(found[1].error, ConvergenceError) and "not finite" in found[1].reason
    assert found[0].converged and found[2].converged


def test_seconds_go_on():
    system, rhs = system_and_rhs(1)
    first = InMemory(6)
    with pytest.raises(Stopped):
        system.solver().solve_many(rhs, TOLERANCE, 200, checkpoint=first)
    first.saved[0].scalars["history"][-1][1] = 1000.0
    (found,) = system.solver().solve_many(rhs, TOLERANCE, 200, checkpoint=InMemory(0, first.saved))
    assert found.history[-1].seconds > 1000


# --- whole runs


def products(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.fits"))}


def same_run(found, expected):
    assert [one.relative_residual for one in found.solver.history] == [
        one.relative_residual for one in expected.solver.history
    ]
    assert found.products == expected.products and found.solver.reason == expected.solver.reason


SCANS = noisy_scans(1500, 2)
CHOICES = {"map": {"n_side": 4}, "noise": {"n_lag": 32}, "solver": {"rcond_min": 1e-2}}


@pytest.mark.parametrize("by_clock", [False, True])
def test_a_run_stopped_again_and_again(tmp_path, by_clock):
    expected = run_on(SCANS, tmp_path / "whole", **CHOICES)
    n_stops, found = 0, None
    while found is None:
        try:
            found = run_on(
                SCANS, tmp_path / "stopped", **CHOICES, resume=n_stops > 0, stop=StopAfter(4, by_clock)
            )
        except Interruption as stopped:
            n_stops += 1
            assert "before the end of its time" in stopped.what if by_clock else "SIGTERM" in stopped.what
            assert "--resume" in str(stopped.mend)
            assert not products(tmp_path / "stopped")
    assert n_stops > 3
    same_run(found, expected)
    assert products(tmp_path / "stopped") == products(tmp_path / "whole")
    assert found.resumed == Summary.read(tmp_path / "stopped").resumed == n_stops
    assert expected.resumed == 0
    assert not (tmp_path / "stopped" / "small.checkpoint").exists()


def stopped_run(out, looks=5, **changes):
    with pytest.raises(Interruption):
        run_on(SCANS, out, stop=StopAfter(looks), **CHOICES | changes)
    return out / "small.checkpoint" / "map.checkpoint"


def test_a_checkpoint_is_not_overlooked(tmp_path):
    path = stopped_run(tmp_path)
    with pytest.raises(ConfigError, match=r"holds the checkpoint.*--resume goes on, --force begins anew"):
        run_on(SCANS, tmp_path, **CHOICES)
    assert path.exists()
    found = run_on(SCANS, tmp_path, **CHOICES, products={"overwrite": True})
    assert found.resumed == 0 and not path.exists()
    with pytest.raises(ConfigError, match="--resume or --force, not both"):
        run_on(SCANS, tmp_path, **CHOICES, products={"overwrite": True}, resume=True)


def test_resume_without_a_checkpoint_begins(tmp_path):
    found = run_on(SCANS, tmp_path / "a", **CHOICES, resume=True)
    same_run(found, run_on(SCANS, tmp_path / "b", **CHOICES))
    assert found.resumed == 0


def test_products_of_this_run_are_written_again_and_others_kept(tmp_path, monkeypatch):
    run_on(SCANS, tmp_path, **CHOICES)
    expected = products(tmp_path)
    (tmp_path / "summary.json").unlink()
    (tmp_path / "small_map.fits").unlink()
    ask = "import os; print(os.getpid())"
    ended = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True, timeout=60)
    killed = f".small_map.fits.{int(ended.stdout)}-{files._here()}-abcdefgh.fits"
    (tmp_path / killed).write_text("half")
    monkeypatch.setattr(files, "_cleaned", set())  # as in a process that begins
    run_on(SCANS, tmp_path, **CHOICES, resume=True)
    assert products(tmp_path) == expected
    assert not list(tmp_path.glob(".small_map*"))
    with pytest.raises(ConfigError, match=r"_hits.fits: is there already"):
        run_on(SCANS, tmp_path, **CHOICES | {"solver": {"tolerance": 1e-5}}, resume=True)
    assert products(tmp_path) == expected


def test_a_foreign_checkpoint_is_refused(tmp_path):
    path = stopped_run(tmp_path)
    other = CHOICES | {"solver": {"rcond_min": 1e-2, "tolerance": 1e-7}}
    with pytest.raises(ConfigError, match=r"map.checkpoint: is of another run configuration.*--force"):
        run_on(SCANS, tmp_path, **other, resume=True)
    louder = [replace(one, signals=(*one.signals, *one.signals)) for one in SCANS]
    with pytest.raises(ConfigError, match=r"map.checkpoint: is of other data.*--force begins anew"):
        run_on(louder, tmp_path, **CHOICES, resume=True)
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(DataError, match=r"map.checkpoint: is damaged: part 1 of.*--force begins anew"):
        run_on(SCANS, tmp_path, **CHOICES, resume=True)
    path.write_bytes(content)
    assert run_on(SCANS, tmp_path, **CHOICES, resume=True).resumed == 1


def test_another_version_is_refused(tmp_path, monkeypatch):
    stopped_run(tmp_path)
    monkeypatch.setattr("petamap.mapmaking.checkpoint.__version__", "9.9")
    with pytest.raises(ConfigError, match=r"is of petamap 0\..*go on with that version"):
        run_on(SCANS, tmp_path, **CHOICES, resume=True)


@pytest.mark.parametrize(("interval", "n_expected"), [(0.0, 0), (1e-9, 10)])
def test_intervals(tmp_path, monkeypatch, interval, n_expected):
    written, write = [], JobCheckpoints.write
    monkeypatch.setattr(JobCheckpoints, "write", lambda *some: (written.append(some[1]), write(*some)))
    found = run_on(SCANS, tmp_path, **CHOICES, resources={"checkpoint_interval": interval})
    assert found.solver.converged and not math.isnan(found.solver.relative_residual)
    assert len(written) >= n_expected and (n_expected or not written)


def test_the_pixel_covariance_goes_on(tmp_path):
    choices = CHOICES | {"map": {"n_side": 1, "stokes": "IQU"}, "products": {"pixel_covariance": True}}
    expected = run_on(SCANS, tmp_path / "whole", **choices)
    n_iterations, found, notes = 0, None, []
    for _ in range(100):
        try:
            found = run_on(SCANS, tmp_path / "b", **choices, resume=True, stop=StopAfter(11))
            break
        except Interruption:
            n_iterations += 1
            notes += [path.name for path in (tmp_path / "b" / "small.checkpoint").iterdir()]
    assert {"map.checkpoint", "columns.checkpoint", "pixel_covariance.checkpoint"} <= set(notes)
    same_run(found, expected)
    assert products(tmp_path / "b") == products(tmp_path / "whole")


# --- ranks


def stop_on_ranks(comm):
    checkpoint_pace._LOOK_SECONDS = 0.0
    stop = StopAfter(int(os.environ["LOOKS"]), here=comm.rank == comm.size - 1)
    choices = CHOICES | {"comm": {"reduction": os.environ["REDUCTION"]}}
    out = Path(os.environ["OUT"])
    try:
        run_on(SCANS, out, comm, resume=True, stop=stop, **choices)
        said = "done"
    except Interruption:
        said = "stopped"
    assert set(comm.allgather(said)) == {os.environ["EXPECTED"]}


def test_a_damaged_word_of_what_is_replaced_is_of_no_run(tmp_path):
    made = JobCheckpoints(tmp_path, "0123", 0.0, StopRequest({}), "")
    assert not made.replacing
    made.prepare(overwrite=True, replacing=True)
    assert made.replacing
    (tmp_path / "replacing").write_bytes(b"012\xb3")
    assert not made.replacing


@pytest.mark.parametrize(
    ("sizes", "reduction"),
    cases(
        ((3, 2, 1), "auto"),
        long=(
            ((1, 2, 3), "auto"),
            ((2, 3, 3), "auto"),
            ((1, 2, 3), "butterfly"),
            ((3, 2, 1), "butterfly"),
            ((2, 3, 3), "butterfly"),
        ),
    ),
)
def test_any_ranks_go_on(tmp_path, monkeypatch, sizes, reduction):
    expected = run_on(SCANS, tmp_path / "whole", **CHOICES)
    monkeypatch.setenv("OUT", str(tmp_path / "b"))
    monkeypatch.setenv("REDUCTION", reduction)
    for n_ranks, looks, end in zip(sizes, (3, 5, 10**6), ("stopped", "stopped", "done"), strict=True):
        monkeypatch.setenv("LOOKS", str(looks))
        monkeypatch.setenv("EXPECTED", end)
        run_ranks(stop_on_ranks, n_ranks)
    found = Summary.read(tmp_path / "b")
    assert found.resumed == 2
    same_run(found, expected)
    assert sha_of(found) == sha_of(expected)
    assert products(tmp_path / "b") == products(tmp_path / "whole")
