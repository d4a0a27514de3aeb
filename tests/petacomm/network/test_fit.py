"""Fits recover the constants from which the timings were computed."""

import dataclasses

import numpy as np
import pytest
from machine_files import write_machine

from petacomm.base.errors import ConfigError, DataError
from petacomm.network import LoadPhase, predict_seconds
from petacomm.network import alpha_beta as model
from petacomm.network.fit import Timing, fit_collective, fit_csv, fit_machine
from petacomm.topology import load_machine

TRUTH = dataclasses.replace(
    load_machine("one-node"),
    cores_per_socket=2,
    latency=7e-6,
    bandwidth=2e9,
    node_bandwidth=2e9,
    local_latency=2e-5,
    local_bandwidth=3e9,
    row_time=1.5e-9,
    run_time=2e-8,
    core_memory_bandwidth=9e9,
    memory_bandwidth=1e18,
    synchronisation=4e-5,
)
FITTED = ["latency", "bandwidth", "local_latency", "local_bandwidth", "row_time", "run_time"]
FITTED += ["core_memory_bandwidth", "synchronisation"]


def phase(rng, off_node):
    messages, rows, moved, barriers, runs = rng.integers(1, [60, 10**6, 10**6, 5, 10**5]).astype(float)
    leaves = 3 * rows if off_node else 0.0
    return LoadPhase(
        messages, rows, leaves, moved, barriers, 8 * messages, 7 * rows, 6 * moved, runs, 5 * runs
    )


def timings(noise=0.0):
    rng = np.random.default_rng(3)
    made = []
    for k in (1, 3, 6):
        for _ in range(30):
            load = (phase(rng, False), phase(rng, True))
            seconds = predict_seconds(load, TRUTH, 8, k, 8) * (1 + noise * rng.standard_normal())
            made.append(Timing(load, 8, k, 8, seconds))
    return made


def test_a_fit_recovers_the_constants_of_a_machine():
    fitted = fit_machine(timings(), load_machine("one-node"), "box", "made up")
    assert fitted.cores == 8  # the cores of the machine that it is based on
    fitted = fit_machine(timings(), TRUTH, "box", "made up")
    for name in FITTED:
        assert getattr(fitted, name) == pytest.approx(getattr(TRUTH, name), rel=1e-6), name
        assert fitted.sources[name] == "made up"


def test_runs_of_one_length_cannot_be_separated_from_rows():
    loads = [(LoadPhase(moved=1e5 * n, barriers=3.0, runs=1e4 * n),) for n in range(1, 9)]
    made = [Timing(load, 8, k, 8, predict_seconds(load, TRUTH, 8, k, 8)) for load in loads for k in (1, 3)]
    fitted = fit_machine(made, TRUTH, "box", "made up")
    assert fitted.run_time == TRUTH.run_time and fitted.sources.get("run_time") != "made up"
    assert fitted.row_time == pytest.approx(TRUTH.row_time, rel=1e-6)
    few = (LoadPhase(moved=3e5, barriers=3.0, runs=3e5),)
    made.append(Timing(few, 8, 3, 8, predict_seconds(few, TRUTH, 8, 3, 8)))
    like = load_machine("one-node")
    fitted = fit_machine(made, like, "box", "made up")
    assert fitted.run_time == pytest.approx(TRUTH.run_time, rel=1e-6)


def test_a_fit_of_noisy_timings_predicts_them(tmp_path):
    made = timings(noise=0.1)
    fitted = fit_machine(made, TRUTH, "box", "made up")
    ratios = [predict_seconds(each.load, fitted, 8, each.k, 8) / each.seconds for each in made]
    assert abs(np.median(ratios) - 1) < 0.05
    path = tmp_path / "box.toml"
    path.write_text(write_machine(fitted))
    assert predict_seconds(made[0].load, load_machine(str(path)), 8, 3, 8) == predict_seconds(
        made[0].load, fitted, 8, 3, 8
    )


def test_constants_without_timings_stay_and_zero_costs_are_finite():
    only = [Timing((LoadPhase(messages=float(n), moved=5.0),), 1, 1, 8, 1e-6 * n) for n in (1, 2, 3)]
    fitted = fit_machine(only, TRUTH, "box", "made up")
    assert fitted.local_latency == pytest.approx(1e-6)
    assert fitted.synchronisation == TRUTH.synchronisation and fitted.latency == TRUTH.latency
    assert np.isfinite(fitted.core_memory_bandwidth)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), None])
def test_nothing_to_fit(seconds):
    made = [] if seconds is None else [Timing((LoadPhase(messages=1.0),), 1, 1, 8, seconds)]
    with pytest.raises(DataError, match="nothing to fit"):
        fit_machine(made, TRUTH, "box", "made up")


@pytest.mark.parametrize("collective", ["allreduce", "ring-allgather", "tree-allgather", "alltoallv"])
def test_a_collectives_alpha_and_beta(collective, tmp_path):
    alpha, beta = 8e-6, 1 / 0.86e9
    form = {
        "allreduce": model.allreduce_seconds,
        "ring-allgather": model.ring_allgather_seconds,
        "tree-allgather": model.tree_allgather_seconds,
        "alltoallv": lambda p, n, a, b: model.pairwise_alltoallv_seconds(p - 1, n, a, b),
    }[collective]
    sizes = [256, 512, 1024, 4096, 16384]
    n_bytes = [3e4, 1e4, 1e5, 2e4, 1e4]
    seconds = [form(p, n, alpha, beta) for p, n in zip(sizes, n_bytes, strict=True)]
    assert fit_collective(collective, sizes, n_bytes, seconds) == pytest.approx((alpha, beta), rel=1e-6)
    lines = [f"{collective},{p},{n},{t!r}" for p, n, t in zip(sizes, n_bytes, seconds, strict=True)]
    path = tmp_path / "figure5.csv"
    path.write_text("\n".join(["collective,ranks,bytes,seconds", *lines]))
    assert fit_csv(str(path)) == {collective: pytest.approx((alpha, beta), rel=1e-6)}


@pytest.mark.parametrize(
    "line",
    ["gather,2,1,1", "allreduce,one,1,1", "allreduce,1,1,1", "allreduce,2,1", "allreduce,2,1,nan", "x"],
)
def test_a_wrong_line_of_timings_is_named(tmp_path, line):
    path = tmp_path / "t.csv"
    path.write_text(f"collective,ranks,bytes,seconds\nallreduce,2,1,1\n{line}\n")
    with pytest.raises(DataError, match=r"t\.csv:3: not a timing"):
        fit_csv(str(path))


def test_files_without_timings_and_unknown_collectives(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        fit_csv(str(tmp_path / "none.csv"))
    (tmp_path / "empty.csv").write_text("collective,ranks,bytes,seconds\n")
    with pytest.raises(DataError, match="no timings"):
        fit_csv(str(tmp_path / "empty.csv"))
    with pytest.raises(ConfigError, match="no closed form of 'gather'"):
        fit_collective("gather", [2], [1.0], [1.0])
