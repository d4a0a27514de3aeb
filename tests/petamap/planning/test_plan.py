"""Run plans: equal to the real run without sampling, within the errors with a sample of the sky."""

import dataclasses
import os

import numpy as np
import pytest
from cases import cases
from made_scans import satellite
from mpi import run_ranks

from petacomm.base.errors import ConfigError
from petacomm.base.progress import SilentProgress
from petacomm.network import predict_seconds
from petacomm.reduction import ALGORITHMS, ReductionPlan
from petacomm.sharing import IndexMap
from petacomm.topology import load_machine
from petamap.mapmaking.distribution import possible_distributions
from petamap.mapmaking.projection import Projection
from petamap.planning import sample_forecast
from petamap.planning.plan import plan
from petamap.planning.plan_table import plan_json, plan_table
from petamap.planning.sample_forecast import count_sample
from petamap.planning.scanned_run import ScannedRun
from petamap.sky.stokes import Stokes

MACHINE = dataclasses.replace(load_machine("jaguar"), sockets_per_node=1, cores_per_socket=3)


def without_work(load):
    return [dataclasses.replace(phase, moved=0, node_moved=0) for phase in load]


def real_plans(comm):
    config = satellite()
    run = ScannedRun.open(config)
    observations, layout, grid = run.observations, run.layout, run.pixelization
    per_node = int(os.environ.get("PETAMAP_RANKS_PER_NODE", comm.size))
    machine = dataclasses.replace(MACHINE, cores_per_socket=per_node)
    planned = plan(config, comm.size, machine, n_threads=1)
    assert planned.fraction == 1
    for distribution in possible_distributions(4):
        share = layout.local_blocks(layout.rank_blocks(distribution.groups, comm.size, comm.rank))
        keys = Projection(observations, layout, share, grid, Stokes.I).keys()
        (prediction,) = (o for o in planned.predictions if o.distribution == distribution and o.threads == 1)
        assert set(prediction.forecast.loads) == set(ALGORITHMS)
        for name, load in prediction.forecast.loads.items():
            buffer_keys = int(config.comm.buffer) // 24
            made = ReductionPlan(IndexMap(comm, keys), algorithm=name, buffer_keys=buffer_keys)
            real = made.load()
            if name in ("hierarchical", "hybrid"):  # the balance among the ranks of a node is not predicted
                assert [phase.node_moved for phase in real] == pytest.approx([p.node_moved for p in load])
                real, load = without_work(real), without_work(load)
            assert real == load, (distribution.name, name)
        assert prediction.forecast.n_keys == comm.max(len(keys))
        assert prediction.forecast.n_global.value == made.n_global


@pytest.mark.parametrize(("n_ranks", "per_node"), cases((5, 5), long=((8, 3), (8, 8))))
def test_loads_are_those_of_real_plans(n_ranks, per_node, monkeypatch):
    monkeypatch.setenv("PETAMAP_RANKS_PER_NODE", str(per_node))
    run_ranks(real_plans, n_ranks)


def plans(**size):
    """Return the plan of all pixels, and one of a sample."""
    return [plan(satellite(**size), 96, MACHINE, sample=part, n_threads=2) for part in (1.0, 0.2)]


@pytest.fixture(scope="module")
def both():
    return plans(n_side=64, rate=20, hours=6)


@pytest.mark.long
def test_a_sample_of_the_sky_is_correct_within_its_error():
    full, sampled = plans(n_side=128, rate=20, hours=24)
    assert full.fraction == 1 and sampled.fraction < 0.21
    pulls = []
    for one, other in zip(full.predictions, sampled.predictions, strict=True):
        exact, estimate = one.forecast, other.forecast
        assert estimate.n_keys == pytest.approx(exact.n_keys, rel=0.03)
        assert estimate.partners.value == pytest.approx(exact.partners.value, rel=0.03)
        for name in ("pairwise", "owner", "hierarchical", "butterfly", "hybrid"):
            assert estimate.rows[name].relative < 0.08, name
            pulls.append((estimate.rows[name].value - exact.rows[name].value) / estimate.rows[name].error)
            # the imbalance is not predicted for each layer
            within = 0.2 if name == "butterfly" else 0.15
            assert other.seconds[name] == pytest.approx(one.seconds[name], rel=within), name
        assert exact.rows["owner"].error == 0
    assert np.sqrt(np.mean(np.square(pulls))) < 2.5


@pytest.mark.long
def test_of_too_many_holders_a_part_of_the_regions_is_taken_and_its_error_told(monkeypatch):
    size = {"n_side": 64, "rate": 20, "hours": 6}
    regions = []

    def counted(occupancy, sample, *rest):
        regions.append(len(sample.regions))
        return count_sample(occupancy, sample, *rest)

    monkeypatch.setattr(sample_forecast, "count_sample", counted)
    found = []
    for most in (1 << 24, 20_000):
        monkeypatch.setattr(sample_forecast, "_MOST_HELD", most)
        regions.append(0)
        found.append(plan(satellite(**size), 96, MACHINE, sample=0.5, n_threads=2))
    middle = regions.index(0, 1)
    assert min(regions[1:middle]) > 2 * min(regions[middle + 1 :])
    for one, other in zip(*(each.predictions for each in found), strict=True):
        all_regions, fewer = one.forecast, other.forecast
        assert fewer.n_keys == pytest.approx(all_regions.n_keys, rel=0.1)
        for name in ("pairwise", "owner", "hierarchical", "butterfly", "hybrid"):
            most, few = all_regions.rows[name], fewer.rows[name]
            assert abs(few.value - most.value) <= 4 * np.hypot(few.error, most.error), name


def test_few_ranks_of_many_samples_are_read_off_the_sample_of_the_sky(monkeypatch):
    config = satellite(n_side=64, rate=20, hours=6)
    full = plan(config, 3, MACHINE, sample=1.0, n_threads=2)
    for module in "planner", "map_scan":
        monkeypatch.setattr(f"petamap.planning.{module}.MAX_SAMPLES", 1000)
    monkeypatch.setattr(
        "petamap.planning.map_scan.sample_nodes", None
    )  # all samples would be looked at again
    sampled = plan(config, 3, MACHINE, sample=0.2, n_threads=2)
    for one, other in zip(full.predictions, sampled.predictions, strict=True):
        exact, estimate = one.forecast, other.forecast
        assert estimate.partners.value == exact.partners.value
        assert estimate.n_keys == pytest.approx(exact.n_keys, rel=0.06)
        for name, load in exact.loads.items():
            seconds = predict_seconds(load, MACHINE, 3, 3, 8)
            assert float(predict_seconds(estimate.loads[name], MACHINE, 3, 3, 8)) == pytest.approx(
                float(seconds), rel=0.15
            )


def test_the_table_and_json_agree(both):
    for planned in both:
        text, data = plan_table(planned), plan_json(planned)
        assert len(data["predictions"]) == len(planned.predictions) == 8
        for row in data["predictions"]:
            assert f"{row['ranks']} x {row['threads']}" in text
            assert f"{row['largest_pixels']:,.0f}" in text
        assert ("sampled" in text) == (planned.fraction < 1)
        (best,) = [line for line in text.splitlines() if line.startswith("best: ")]
        assert f" {planned.best.best}: " in best


def test_kept_pointing_needs_memory_unless_maps_that_are_written_need_more(both):
    for prediction in both[0].predictions:
        assert prediction.memory_kept >= prediction.memory > 90e6
    later = plan(satellite(more="[products]\nsky = true\n"), 4, MACHINE, progress=SilentProgress())
    assert all(one.memory_kept > one.memory for one in later.predictions)  # it is read once more


def test_wrong_plans_are_refused():
    config = satellite()
    with pytest.raises(ConfigError, match=r"56064 cores.*take 1 to 56064"):
        plan(config, 60_000, MACHINE, progress=SilentProgress())
    with pytest.raises(ConfigError, match="0 ranks"):
        plan(config, 0, MACHINE)
    with pytest.raises(ConfigError, match="blocks of data for 5000 ranks"):
        plan(config, 5000, MACHINE)
    with pytest.raises(ConfigError, match=r"a sample of 1\.5"):
        plan(config, 4, MACHINE, sample=1.5)


def test_a_limit_of_memory_that_no_rank_keeps_is_told():
    config = satellite()
    tight = dataclasses.replace(
        config, resources=dataclasses.replace(config.resources, memory=float(1 << 20))
    )
    free, bound = (plan(one, 1, MACHINE, n_threads=1) for one in (config, tight))
    assert all(map(free.fits, free.predictions)) and "resources.memory" not in plan_table(free)
    assert not any(map(bound.fits, bound.predictions))
    assert "! a rank needs more than the 1.05 MB of resources.memory" in plan_table(bound)
    assert plan_table(bound).startswith("1 core on 1 of ") and not any(
        one["fits"] for one in plan_json(bound)["predictions"]
    )
