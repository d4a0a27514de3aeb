"""Maps of parts of the data and their null tests, against dense matrices and in distribution."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from joint_systems import dense_joint, sharing
from mpi import run_ranks
from scipy import stats
from small_runs import noisy_scans, run_on
from small_systems import Bad, Models, Samples, dense, make_system, numbered, recorded, spinning
from stopping import StopAfter

from petacomm.base.errors import ConfigError, DataError, Interruption
from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petamap.data.config import SplitOptions
from petamap.data.observation import Observation
from petamap.data.parts import NO_PART, PartRuns, Parts
from petamap.mapmaking.null_test import common_unknowns, null_test, residual_of
from petamap.mapmaking.right_hand_side import right_hand_sides_of
from petamap.mapmaking.split_parts import split_parts
from petamap.mapmaking.system import set_up_parts
from petamap.mapmaking.system_options import SystemOptions
from petamap.noise.model import OneOverF
from petamap.pointing.recorded import RecordedPixels
from petamap.simulation.noise import SimulatedNoise
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map
from petamap.sky.stokes import Stokes

N_PIX, N_LAG = 9, 5


def random_parts(rng, observations, n=3, none=False):
    """Return parts that change at random within intervals, some samples in none."""
    runs = []
    for one in observations:
        rows = []
        for _ in range(one.n_det):
            starts = np.append(0, np.sort(rng.choice(np.arange(1, one.n_samp), 6, replace=False)))
            parts = rng.integers(NO_PART if none else 0, n, 7)
            rows.append(PartRuns(starts.astype(np.int64), parts.astype(np.int64)))
        runs.append(rows)
    return Parts(tuple("abc"[:n]), lambda o, d: runs[o][d])


def labels_of(parts, observations):
    """Return the part of each sample of all streams, in the order of `small_systems.dense`."""
    found = []
    for number, one in enumerate(observations):
        for start, stop in one.intervals:
            for detector in range(one.n_det):
                runs = parts.of(number, detector)
                every = np.repeat(runs.parts, np.diff(np.append(runs.starts, one.n_samp)))
                found.append(every[start:stop])
    return np.concatenate(found)


def options_of(**choices):
    return SystemOptions(stokes=Stokes.I, n_lag=N_LAG, **choices)


def solved(run, parts, more_gaps=None, **choices):
    return set_up_parts(run, parts, options_of(**choices), Timers(), SilentProgress(), more_gaps)


def dense_chi_squared(made, response, good):
    """Return the least chi-squared of the good samples and the map, marginalised over the others."""
    weight = np.linalg.inv(np.linalg.inv(made.inverse)[np.ix_(good, good)])
    matrix, data = response[good], made.data[good]
    found = np.linalg.lstsq(matrix.T @ weight @ matrix, matrix.T @ weight @ data, rcond=1e-12)[0]
    left = data - matrix @ found
    return left @ weight @ left, found


@pytest.mark.parametrize("none", [False, True])
@pytest.mark.parametrize("flags", ["exact", "cut"])
def test_joint_maps_and_chi_squared_are_those_of_dense_matrices(none, flags):
    rng = np.random.default_rng(5 + none)
    observations = [
        recorded(rng, 2, 160, N_PIX, N_LAG, ((0, 90), (90, 160)), flagged=0.05, outside=0.03),
        recorded(rng, 1, 70, N_PIX, N_LAG, name="two", uid=2),
    ]  # fmt: skip
    run = make_system(observations, numbered(N_PIX), stokes="I", n_lag=N_LAG, flags=flags)
    parts = random_parts(rng, observations, none=none)
    system = solved(run, parts, flags=flags)
    whole = solved(run, parts.joined(), system.projection.gaps.bits, flags=flags)
    _, common_rhs, rhs = right_hand_sides_of([run, whole, system])
    common = whole.solver().solve(common_rhs.unknowns, 1e-13, 300)
    start = common_unknowns(whole, system, common.map)
    residual = residual_of(system.operator(), rhs.unknowns, start)
    found = system.solver().solve(residual, 1e-12, 300)
    null = null_test(whole, system, residual, found.map, 0.0)

    made, labels = dense(observations, numbered(N_PIX), "I", N_LAG), labels_of(parts, observations)
    response = np.concatenate([made.response * (labels == k)[:, None] for k in range(3)], axis=1)
    good = made.good & (labels >= 0)
    if flags == "cut":  # samples are left out of N^-1
        made.inverse = made.inverse * np.outer(good, good)
        weight = made.inverse[np.ix_(good, good)]
        made.inverse = np.linalg.inv(np.linalg.inv(weight))
        keep = np.flatnonzero(good)
        made.response, made.data = made.response[keep], made.data[keep]
        response, good = response[keep], np.ones(len(keep), bool)
    split_chi, maps = dense_chi_squared(made, response, good)
    common_chi, _ = dense_chi_squared(made, made.response, good)
    seen = (response[good] ** 2).sum(axis=0) > 0
    dof = seen.sum() - ((made.response[good] ** 2).sum(axis=0) > 0).sum()
    np.testing.assert_allclose(null.chi_squared, common_chi - split_chi, rtol=1e-8)
    assert null.degrees_of_freedom == dof
    values = (start.pixels + found.map.pixels)[:, 0]
    np.testing.assert_allclose(values, maps[system.keys], rtol=0, atol=1e-9 * np.abs(maps).max())
    np.testing.assert_array_equal(np.flatnonzero(seen), system.keys)


def with_detectors_in_none(parts, detectors):
    """Return parts with detectors of the first observation in none."""
    none = PartRuns(np.zeros(1, np.int64), np.full(1, NO_PART, np.int64))
    return Parts(parts.names, lambda o, d: none if o == 0 and d in detectors else parts.of(o, d))


@pytest.mark.parametrize("flags", ["exact", "cut"])
@pytest.mark.parametrize("unused", [(), (2,), (0, 1, 2)])
def test_noise_that_detectors_share_is_shared_by_parts(unused, flags):
    rng = np.random.default_rng(8)
    first = recorded(rng, 3, 160, N_PIX, N_LAG, ((0, 90), (90, 160)), flagged=0.05, outside=0.03)
    second = recorded(rng, 2, 70, N_PIX, N_LAG, name="two", uid=2)
    observations = [sharing(first, rng), second]
    run = make_system(observations, numbered(N_PIX), stokes="I", n_lag=N_LAG, flags=flags)
    parts = with_detectors_in_none(random_parts(rng, observations), unused)
    system = solved(run, parts, flags=flags)
    _, rhs = right_hand_sides_of([run, system])
    found = system.solver().solve(rhs.unknowns, 1e-12, 600)

    made, labels = dense_joint(observations, "I", N_PIX), labels_of(parts, observations)
    response = np.concatenate([made.response * (labels == k)[:, None] for k in range(3)], axis=1)
    good = made.good & (labels >= 0)
    weight = made.inverse[np.ix_(good, good)]
    if flags == "exact":
        weight = np.linalg.inv(np.linalg.inv(made.inverse)[np.ix_(good, good)])
    matrix = response[good]
    best = np.linalg.lstsq(matrix.T @ weight @ matrix, matrix.T @ weight @ made.data[good], rcond=1e-12)[0]
    np.testing.assert_allclose(
        found.map.pixels[:, 0], best[system.keys], rtol=0, atol=1e-8 * np.abs(best).max()
    )
    assert system.projection.used.tolist() == [len(unused) < 3] * 6 + [True] * 2


def scans(realization=0, n_samp=3000, gain=1.0, sky=0.0, seed=1, net=1.0):
    """Return an observation with 1/f noise of which the last detector has a gain."""
    models = Models(((OneOverF(net, 0.02, 1e-3, -1.5),),))
    bare = Observation(
        name="one", uid=3, n_samp=n_samp, sample_rate=5.0, detectors=("a", "b", "c", "d"),
        intervals=((0, n_samp // 3), (n_samp // 3, n_samp)), pointing=spinning(n_samp, 0.21, 4, 5),
        frame="galactic", noise=models,
    )  # fmt: skip
    pixels = np.empty(n_samp, np.int32)
    angles = np.empty(n_samp, np.uint32)
    seen = np.zeros((4, n_samp))
    values = sky * np.random.default_rng(seed).standard_normal(12 * 4)
    for detector in range(4):
        bare.pointing.expand(Healpix(2, nest=True), detector, 0, n_samp, pixels, angles, None)
        seen[detector] = values[pixels] * (gain if detector == 3 else 1.0)
    return replace(bare, signals=(Samples(seen), SimulatedNoise(bare, models, 7, realization)))


SPLITS = (
    SplitOptions(name="halves", by="time"),
    SplitOptions(name="dets", by="detectors", groups=("a b", "c d")),
    SplitOptions(name="each", by="detector"),
)


def null_of(tmp_path, observation, split, **changes):
    made = run_on(
        [observation], tmp_path, splits=split, map={"n_side": 2}, noise={"n_lag": 200, "ends": "free"},
        solver={"tolerance": 1e-8}, products={"overwrite": True, "report": False}, **changes,
    )  # fmt: skip
    return [one.null for one in made.splits]


@pytest.mark.long
def test_chi_squared_is_drawn_from_its_distribution(tmp_path):
    """The mean and the scatter over realizations of noise, the sky being large."""
    found = [null_of(tmp_path, scans(n, sky=100.0), SPLITS[:2]) for n in range(16)]
    for tests in zip(*found, strict=True):
        dof = tests[0].degrees_of_freedom
        sums = sum(one.chi_squared for one in tests)
        assert 1e-3 < stats.chi2.cdf(sums, dof * len(tests)) < 1 - 1e-3
        values = np.array([one.chi_squared for one in tests])
        scatter = np.sum((values - values.mean()) ** 2) / (2 * dof)
        assert 1e-3 < stats.chi2.cdf(scatter, len(tests) - 1) < 1 - 1e-3


def test_a_gain_error_of_a_part_is_found(tmp_path):
    halves, dets, each = null_of(tmp_path, scans(sky=100.0, gain=1.05), SPLITS)
    assert halves.probability > 1e-3
    assert dets.probability < 1e-6 and each.probability < 1e-6


def test_a_large_signal_changes_nothing(tmp_path):
    """chi-squared is not a difference of numbers that grow with the signal."""
    (small,) = null_of(tmp_path, scans(sky=0.0), SPLITS[:1])
    (large,) = null_of(tmp_path, scans(sky=1e6), SPLITS[:1])
    assert abs(large.chi_squared - small.chi_squared) < 1e-3 * small.degrees_of_freedom


def splits_of_scans():
    return (
        SplitOptions(name="halves", by="time"),
        SplitOptions(name="pairs", by="detectors", groups=("d0", "d1 d2")),
        SplitOptions(name="nights", by="observations"),
    )


def run_of(out, comm=None, stop=None, resume=False, **changes):
    return run_on(
        noisy_scans(), out, comm, resume, stop, splits=splits_of_scans(),
        **{"solver": {"tolerance": 1e-6, "preconditioner": "two-level"}, **changes},
    )  # fmt: skip


def bits_of(summary):
    return {product.file: product.sha256 for product in summary.products} | {
        one.name: (one.null.chi_squared, one.null.degrees_of_freedom) for one in summary.splits
    }


# whose bits are as telling as those of many
FEW_ITERATIONS = {"solver": {"tolerance": 1e-2, "preconditioner": "two-level"}}


def print_bits(comm):
    with tempfile.TemporaryDirectory() as folder:
        bits = comm.allgather(bits_of(run_of(Path(comm.bcast(folder)), comm, **FEW_ITERATIONS)))
    if comm.rank == 0:
        print(bits[0])


def test_the_same_bits_on_any_ranks_and_pointing(tmp_path):
    expected = bits_of(run_of(tmp_path / "one", **FEW_ITERATIONS))
    other = {"resources": {"pointing": "recompute", "threads": 2}, **FEW_ITERATIONS}
    assert bits_of(run_of(tmp_path / "two", **other)) == expected
    assert run_ranks(print_bits, 3).out == f"{expected}\n"


def test_the_map_of_the_run_is_that_without_splits(tmp_path):
    with_splits = run_of(tmp_path / "with")
    without = run_on(
        noisy_scans(), tmp_path / "without", solver={"tolerance": 1e-6, "preconditioner": "two-level"}
    )
    for product in without.products:
        assert product in with_splits.products


def test_a_run_stopped_again_and_again_has_the_same_bits(tmp_path):
    expected, n_stops = bits_of(run_of(tmp_path / "whole")), 0
    while True:
        try:
            found = run_of(tmp_path / "stopped", resume=n_stops > 0, stop=StopAfter(n_stops))
            break
        except Interruption:
            n_stops += 1
            assert n_stops < 40
    assert n_stops > 3 and found.resumed == n_stops
    assert bits_of(found) == expected


def test_null_maps_are_half_the_difference(tmp_path):
    run_of(tmp_path)
    one, two, null = (
        read_map(tmp_path / f"small_halves_{name}.fits").values for name in ("1_map", "2_map", "1-2_null")
    )
    np.testing.assert_array_equal(null, (one - two) / 2)
    assert np.isfinite(null).any()


def test_hits_of_parts_add_up(tmp_path):
    run_of(tmp_path)
    parts = [read_map(tmp_path / f"small_halves_{part}_hits.fits").values for part in "12"]
    whole = read_map(tmp_path / "small_hits.fits").values
    np.testing.assert_array_equal(np.nan_to_num(parts[0]) + np.nan_to_num(parts[1]), np.nan_to_num(whole))


# --- which samples are in which part


class Sweep:
    """Azimuth of a telescope that turns back every 100 samples."""

    def azimuths(self, start, stop):
        t = np.arange(start, stop)
        return np.abs((t % 200) - 100.0) * 1e-3


def night(name="one", start_time=0.0, n_samp=1000, intervals=None, **changes):
    chosen = {"detectors": ("a1", "a2", "b1"), "azimuth": Sweep()} | changes
    return Observation(
        name=name, uid=1, n_samp=n_samp, sample_rate=10.0, start_time=start_time,
        intervals=intervals or ((0, n_samp),), **chosen,
    )  # fmt: skip


def part_of(options, observations, o=0, d=0):
    """Return the part of each sample of a detector, and the names of the parts."""
    parts = split_parts(SplitOptions(name="s", **options), observations)
    runs = parts.of(o, d)
    n = observations[o].n_samp
    assert runs.starts[0] == 0 and np.all(np.diff(runs.starts) > 0)
    return parts.names, np.repeat(runs.parts, np.diff(np.append(runs.starts, n)))


def test_direction_follows_azimuth():
    names, parts = part_of({"by": "direction"}, [night()])
    assert names == ("left", "right")
    expected = (np.arange(1000) // 100) % 2  # azimuth falls first
    assert np.mean(parts != expected) < 0.05  # turn-arounds are found in steps


def test_direction_without_azimuth_is_that_of_the_first_subscan():
    class There:
        def directions(self, detector, start, stop):
            lon = 0.3 - Sweep().azimuths(start, stop)
            return np.stack([np.cos(lon), np.sin(lon), 0 * lon], axis=1), None

    _, parts = part_of({"by": "direction"}, [night(azimuth=None, pointing=There())])
    assert np.mean(parts == (np.arange(1000) // 100) % 2) < 0.05
    with pytest.raises(DataError, match="without pointing"):
        part_of({"by": "direction"}, [night(azimuth=None)])
    numbers = RecordedPixels(np.zeros((2, 1000), np.int32), Healpix(2, nest=True))
    with pytest.raises(DataError, match=r"split s: .*no directions: .*by time, detectors or observations"):
        part_of({"by": "subscans"}, [night(azimuth=None, pointing=numbers)])


def test_subscans_go_to_parts_in_turn():
    names, parts = part_of({"by": "subscans", "n_parts": 3}, [night()])
    assert names == ("1", "2", "3")
    assert np.mean(parts != (np.arange(1000) // 100) % 3) < 0.05
    assert part_of({"by": "subscans"}, [night()])[0] == ("odd", "even")


def test_time_is_that_of_all_observations():
    nights = [night("b", 5000.0, 2000), night("a", 100.0), night("c", 100.0)]
    found = [part_of({"by": "time", "n_parts": 3}, nights, o)[1] for o in range(3)]
    assert np.all(found[1] == 0) and np.all(found[2] == 0)
    np.testing.assert_array_equal(found[0], np.repeat([1, 2], 1000))


def test_time_in_whole_intervals():
    cut = night(intervals=((0, 100), (150, 550), (600, 1000)))
    _, parts = part_of({"by": "time", "whole_intervals": True}, [cut])
    np.testing.assert_array_equal(parts, np.repeat([0, 1], [600, 400]))


def test_detectors_and_observations():
    nights = [night("one"), night("two", detectors=("b1", "c1"))]
    of = {(o, d): part_of({"by": "detectors"}, nights, o, d)[1][0] for o in (0, 1) for d in (0, 1)}
    assert of == {(0, 0): 0, (0, 1): 1, (1, 0): 0, (1, 1): 1}  # a1 a2 b1 c1 in turn
    grouped = {"by": "detectors", "groups": ("a*", "b1"), "names": ("A", "B")}
    names, parts = part_of(grouped, nights, 1, 1)
    assert names == ("A", "B") and parts[0] == NO_PART
    assert part_of(grouped, nights, 1, 0)[1][0] == 1
    assert part_of({"by": "detector"}, nights)[0] == ("a1", "a2", "b1", "c1")
    names, parts = part_of({"by": "observation"}, nights, 1, 0)
    assert names == ("one", "two") and parts[0] == 1
    with pytest.raises(ConfigError, match="'a1' is in two groups"):
        part_of({"by": "detectors", "groups": ("a*", "a1")}, nights)
    with pytest.raises(ConfigError, match="split s: no observation 'three'"):
        part_of({"by": "observations", "groups": ("one", "three")}, nights)
    with pytest.raises(ConfigError, match="split s: there is one observation, 'one'"):
        part_of({"by": "observation"}, nights[:1])
    with pytest.raises(ConfigError, match="split s: 1 observation for 2 parts"):
        part_of({"by": "observations"}, nights[:1])
    with pytest.raises(ConfigError, match="whole_intervals is of by = 'time', not by = 'detector'"):
        part_of({"by": "detector", "whole_intervals": True}, nights)


def test_a_part_without_samples_is_an_error(tmp_path):
    split = SplitOptions(name="long", by="time", whole_intervals=True, n_parts=50)
    with pytest.raises(ConfigError, match="split long: part '1' has no samples"):
        run_on(noisy_scans(), tmp_path, splits=(split,))


def test_a_part_that_is_flagged_is_empty(tmp_path):
    observations = []
    for one in noisy_scans(n_samp=600):
        bad = np.zeros((one.n_det, one.n_samp), bool)
        bad[0] = True
        observations.append(replace(one, flags=(Bad(bad),)))
    summary = run_on(observations, tmp_path, splits=(SplitOptions(name="each", by="detector"),))
    assert f"no sample of part '{one.detectors[0]}' is used" in " ".join(summary.warnings)
    assert summary.splits[0].parts[0].samples == 0 and summary.splits[0].parts[0].pixels == 0


def test_products_of_the_same_name_are_an_error(tmp_path):
    splits = (
        SplitOptions(name="a", by="time", names=("b_c", "d")),
        SplitOptions(name="a_b", by="time", names=("c", "d")),
    )
    with pytest.raises(ConfigError, match="two products of splits are called small_a_b_c"):
        run_on(noisy_scans(), tmp_path, splits=splits)
