"""Memory: told before the run, and measured in a process of its own."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import run_command
from small_systems import compressed, make_system, numbered, recorded

from petacomm.base.errors import ConfigError, ResourceError
from petamap.data.config import parse_config
from petamap.mapmaking import memory
from petamap.mapmaking.map_outputs import map_outputs
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.sky.healpix import Healpix

N_SAMP = 1_250_000  # of each of 4 detectors

PROGRAM = """
import json, sys, tempfile
import numpy as np
sys.path.insert(0, sys.argv[1])
from small_runs import run_on
from small_systems import Models, spinning
from petamap.data.observation import Observation
from petamap.noise.model import OneOverF

class Wave:
    def add_signal(self, detector, start, stop, out):
        t = np.arange(start, stop)
        out += np.cos(t * (0.01 + detector)) + np.cos((t % 100_003.0) ** 2)

class Rare:
    def or_flags(self, detector, start, stop, out):
        first = -start % 500
        out[first::500] = 1

pointing, threads, n_samp, how = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
made = Observation(
    name="long", uid=1, n_samp=n_samp, sample_rate=50.0, detectors=tuple("abcd"), intervals=((0, n_samp),),
    pointing=spinning(n_samp, 0.005, 4, 200), frame="galactic",
    signals=(Wave(),), flags=(Rare(),) if how == "flagged" else (),
    noise=Models(((OneOverF(1.0, 0.05, 1e-4, -1.5),),)),
)
if len(sys.argv) > 7:
    from small_systems import gradients_of, make_system, read_many, unknowns
    from petacomm.base.host import peak_bytes
    from petamap.sky.healpix import Healpix

    n_rhs, grid = int(sys.argv[7]), Healpix(int(sys.argv[6]), nest=True)
    system = make_system([made], grid, n_lag=512, pointing=pointing, n_threads=threads, n_rhs=n_rhs)
    rhs = read_many(system, [[made.signals]] * n_rhs)
    gradients_of(system).solve_many(unknowns(rhs), 0.0, 1)
    memory = system.memory
    print(json.dumps([memory.total, peak_bytes(), memory.bytes_per_sample, len(system.keys)]))
    sys.exit()
summary = run_on(
    [made], tempfile.mkdtemp(), map={"n_side": int(sys.argv[6])},
    noise={"n_lag": 512} | ({"kernel": "estimate", "max_rounds": 2} if how == "estimated" else {}),
    solver={"max_iterations": 1},
    resources={"pointing": pointing, "threads": threads},
)
memory = summary.memory
pixels = summary.totals.pixels_observed
print(json.dumps([memory.predicted_bytes, memory.peak_bytes, memory.bytes_per_sample, pixels]))
"""


SIMULATED = """
import json, sys, tempfile
sys.path.insert(0, sys.argv[1])
from cases import config
from petamap.mapmaking.run import run

summary = run(config(5_000_000, "recompute", 8, 256), out=tempfile.mkdtemp())
print(json.dumps([summary.memory.predicted_bytes, summary.memory.peak_bytes, summary.totals.pixels_observed]))
"""


def measured(*arguments):
    """Return predicted bytes, peak bytes, bytes a sample and pixels of a run in a fresh process."""
    words = [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[2] / "support"), *map(str, arguments)]
    ended = run_command(words, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("pointing", "threads", "n_samp", "flagged", "n_side", "most"),
    [
        ("keep", 1, N_SAMP, "flagged", 256, 16),
        pytest.param("recompute", 1, N_SAMP, "flagged", 256, 1, marks=pytest.mark.long),
        ("keep", 2, N_SAMP // 4, "clean", 256, 16),
        ("recompute", 2, N_SAMP // 4, "clean", 16, 1),
        ("recompute", 2, N_SAMP // 4, "clean", 1024, 1),  # most samples are in pixels that are cut
        pytest.param("keep", 1, N_SAMP // 2, "estimated", 16, 16, marks=pytest.mark.long),
    ],
)
def test_peak_is_as_predicted(pointing, threads, n_samp, flagged, n_side, most):
    predicted, peak, bytes_per_sample, n_pixels = measured(pointing, threads, n_samp, flagged, n_side)
    assert n_pixels > min(n_side, 256) ** 2
    assert predicted == pytest.approx(peak, rel=0.15)
    assert 0 < bytes_per_sample <= most


def test_peak_of_several_right_hand_sides_is_as_predicted():
    predicted, peak, _, n_pixels = measured("recompute", 1, N_SAMP // 4, "flagged", 256, 8)
    assert n_pixels > 256**2
    assert predicted == pytest.approx(peak, rel=0.15)


def test_pointing_that_is_given_back_is_not_beside_maps_that_are_written():
    held = memory.MemoryPlan(keep=True, base=1000, samples=80, maps=50, n_samp=10, writing=70)
    assert held.total == 1000 + 80 + 70
    assert replace(held, given_back=75).total == 1000 + 80 + 50
    assert replace(held, given_back=15).total == 1000 + 80 + 55


def test_a_batch_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "resident_bytes", lambda: 100_000_000)
    made, grid = [compressed(np.random.default_rng(0), 200_000, 4)], Healpix(128, nest=True)
    one, eight = (make_system(made, grid, n_lag=8, n_rhs=n, memory=1 << 40).memory.maps for n in (1, 8))
    assert eight > 2 * one
    limit = 100_000_000 + (one + eight) // 2
    assert make_system(made, grid, n_lag=8, memory=limit).memory.maps == one
    with pytest.raises(ResourceError, match="fewer maps at once"):
        make_system(made, grid, n_lag=8, n_rhs=8, memory=limit)


def test_pointing_is_recomputed_where_memory_is_short_and_refused_where_it_is_too_short(monkeypatch):
    monkeypatch.setattr(memory, "resident_bytes", lambda: 100_000_000)
    made, grid = [compressed(np.random.default_rng(0), 400_000, 4)], Healpix(8, nest=True)
    roomy = make_system(made, grid, n_lag=8, memory=1 << 40).memory
    assert roomy.keep and roomy.bytes_per_sample == pytest.approx(8.125, abs=0.01)
    limit = int(roomy.total - 0.4 * roomy.samples)
    tight = make_system(made, grid, n_lag=8, memory=limit).memory
    assert not tight.keep and tight.bytes_per_sample < 0.2
    assert tight.total == roomy.total - 8 * roomy.n_samp
    with pytest.raises(ResourceError, match=r"this needs .* [MG]B a process, there are .* [MG]B"):
        make_system(made, grid, n_lag=8, memory=100_000_000)
    with pytest.raises(ResourceError):
        make_system(made, grid, n_lag=8, memory=limit, pointing="keep")


def test_room_for_samples_of_pixels_that_are_cut_is_found_in_the_pointing(monkeypatch):
    monkeypatch.setattr(memory, "resident_bytes", lambda: 100_000_000)
    made, grid = [compressed(np.random.default_rng(0), 400_000, 4)], Healpix(64, nest=True)
    roomy = make_system(made, grid, n_lag=8, rcond_min=0.445, memory=1 << 40)
    assert roomy.memory.keep and roomy.projection.gaps.n > 200_000
    limit = int(roomy.memory.total - 0.4 * roomy.memory.samples)
    tight = make_system(made, grid, n_lag=8, rcond_min=0.445, memory=limit)
    assert not tight.memory.keep and tight.projection.kept_bytes == 0
    for one, other in zip(*(right_hand_side(system).unknowns for system in (roomy, tight)), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ResourceError, match=r"this needs .* [MG]B a process, there are .* [MG]B"):
        make_system(made, grid, n_lag=8, rcond_min=0.445, memory=limit - roomy.memory.samples)


def test_recorded_pointing_must_be_kept():
    made = [recorded(np.random.default_rng(0), gains=1.0)]
    system = make_system(made, numbered(), n_lag=5)
    assert system.memory.keep and system.memory.bytes_per_sample == pytest.approx(12.125, abs=0.01)
    with pytest.raises(ResourceError):
        make_system(made, numbered(), n_lag=5, memory=1 << 20)
    with pytest.raises(ConfigError):
        make_system(made, numbered(), n_lag=5, pointing="recompute")


def test_the_numbers_of_pixels_are_held_once_while_maps_are_written():
    system = make_system([recorded(np.random.default_rng(0))], numbered(), n_lag=5)
    config = parse_config('[map]\npixelization = "numbered"\n[[source]]\nkind = "satellite"\n')
    (output,) = map_outputs(system, config, "run")
    assert np.shares_memory(output.writer.keys, system.keys)


def test_marks_of_pixels_are_counted():
    few = memory.Sizes(n_pix=1 << 20, n_stokes=1, n_held=0, n_owned=0, n_gaps=0, n_ranks=1, n_threads=1)
    more = replace(few, n_held=100_000, n_owned=100_000)
    # hits, rcond and covariance; a byte each for those that are dead, and those that are not solved for;
    # four words of sums and three vectors
    assert memory.map_bytes(more)[0] - memory.map_bytes(few)[0] == 100_000 * (3 * 8 + 2 + 7 * 8)


def test_threads_that_share_sums_have_half_of_their_copies():
    alone = memory.Sizes(
        n_pix=1 << 22, n_stokes=3, n_held=10_000_000, n_owned=10_000_000, n_gaps=0, n_ranks=1, n_threads=8
    )
    vector = 8 * 3 * alone.n_held
    each, shared = (memory.map_bytes(replace(alone, made=made, filtered=made))[0] for made in (False, True))
    assert each - shared == 4 * 4 * vector  # four of eight copies of four words
    only_read = memory.map_bytes(replace(alone, n_threads=2, made=True))[0]
    assert memory.map_bytes(replace(alone, n_threads=2))[0] - only_read == 11 * vector - (6 + 1 + 2) * vector
    solved = memory.map_bytes(replace(alone, n_threads=2, made=True, filtered=True))[0]
    assert only_read - solved == 2 * vector  # made in place


def test_a_simulation_of_many_threads_takes_what_is_predicted():
    made = [sys.executable, "-c", SIMULATED, str(Path(__file__).parents[3] / "benchmarks")]
    ended = run_command(made, timeout=120)
    assert ended.returncode == 0, ended.stderr
    predicted, peak, pixels = json.loads(ended.stdout.splitlines()[-1])
    assert pixels > 200_000
    assert predicted == pytest.approx(peak, rel=0.1)
