"""How a run scales: what was measured, and predictions from the row of the fewest cores."""

import dataclasses
import json

import pytest
from made_scans import satellite

from petacomm.base.errors import ConfigError
from petacomm.topology import load_machine
from petamap.data.run_summary import PhaseCost, RankStatistics
from petamap.mapmaking.distribution import possible_distributions
from petamap.planning.plan import plan
from petamap.planning.scaling import (
    MeasuredRun,
    ScalingJob,
    ScalingModel,
    ScalingTimes,
    largest_share,
    measured_run,
    require_job,
    scaling_jobs,
)
from petamap.planning.scaling_table import scaling_json, scaling_table
from petamap.planning.scanned_run import ScannedRun

ONE = ScalingJob(1, 1, "auto")
PHASES = {
    "sources": 0.25,
    "noise kernels": 0.5,
    "pointing": 1.5,
    "iterations": 10,
    "data": 4,
    "products": 0.75,
}
REFERENCE = MeasuredRun(
    ONE, ScalingTimes(calculation=12.0, communication=0.0, data=5.0), PHASES, 0.75, 10, "", ("a", "b")
)
MACHINE = load_machine("one-node")


def model(config=None, **options):
    config = config or satellite()
    return ScalingModel([REFERENCE], lambda cores: config, MACHINE, **options)


def test_jobs_of_versions():
    jobs = scaling_jobs([1, 2, 4], [1, 2], ["dense", "auto"])
    found = [(job.cores, job.ranks, job.threads, job.reduction) for job in jobs]
    assert found == [
        (1, 1, 1, "dense"), (2, 2, 1, "dense"), (4, 4, 1, "dense"), (2, 2, 1, "auto"), (4, 4, 1, "auto"),
        (2, 1, 2, "dense"), (4, 2, 2, "dense"), (4, 2, 2, "auto"),
    ]  # fmt: skip


def test_all_seconds_of_the_phases_count():
    @dataclasses.dataclass
    class Made:
        phases: tuple
        solver: object = None
        environment: object = dataclasses.field(
            default_factory=lambda: type("", (), {"distribution": "time-major"})
        )
        products: tuple = ()

    def phase(name, seconds, communication):
        values = {"seconds": seconds, "communication_seconds": communication, "bytes": 0.0, "messages": 0.0}
        return PhaseCost(
            name=name, calls=1, **{key: RankStatistics.from_values([value]) for key, value in values.items()}
        )

    phases = [
        ("sources", 1, 0.25),
        ("data", 4, 0.5),
        ("iterations", 8, 2),
        ("products", 2, 0.5),
        ("weights", 1, 0),
    ]
    found = measured_run(ONE, Made(tuple(phase(*one) for one in phases)))
    assert found.times == ScalingTimes(calculation=7, communication=3.25, data=5.75)
    assert found.times.total == 16
    assert found.phases == {"sources": 0.75, "data": 3.5, "iterations": 6, "products": 1.5, "weights": 1}
    assert found.writing == 2
    assert found.distribution == "time-major"


def test_the_row_that_is_known_is_predicted_as_it_is():
    assert model().predict(ONE) == REFERENCE.times


@pytest.mark.parametrize(
    "job", [ScalingJob(2, 1, "auto"), ScalingJob(4, 2, "dense"), ScalingJob(3, 1, "owner")]
)
def test_predictions_are_of_the_rank_with_most_samples(job):
    config = satellite()
    run, found = ScannedRun.open(config), model(config).predict(job, "streams")
    share = largest_share(run, possible_distributions(4)[0], job.ranks) / job.threads
    halos = 2 * run.layout.n_lag * job.ranks * 4 * 3 / run.layout.n_samp  # 4 detectors, 3 observations
    assert 1 / job.cores <= share <= 1 / job.cores + (1 / run.layout.n_blocks + halos) / job.threads
    choice = 1.5 * (job.ranks > 1)  # as long as pointing takes
    assert found.calculation == pytest.approx((12 + choice) * share)
    assert found.data == pytest.approx(0.25 + 4 * share + 0.75 / job.ranks)
    seconds = plan(
        config, job.cores, MACHINE, distributions=possible_distributions(4)[:1], threads=[job.threads]
    )
    one = seconds.predictions[0].seconds
    expected = min(one.values()) if job.reduction == "auto" else one[job.reduction]
    assert found.communication == pytest.approx(10 * expected + 0.75 * (1 - 1 / job.ranks))


def test_cores_that_take_turns_take_longer():
    job = ScalingJob(4, 1, "auto")
    alone, turns = model().predict(job), model(available=2).predict(job)
    assert turns.calculation == pytest.approx(2 * alone.calculation)
    assert turns.data == pytest.approx(2 * alone.data)
    # of ranks of threads, sources are what one of these makes
    one, other = (model(available=n).predict(ScalingJob(4, 2, "auto")) for n in (2, 4))
    shared = other.data - 0.25 - 0.75 / 2
    assert one.data == pytest.approx(2 * shared + 0.25 + 0.75 / 2)


def test_threads_are_predicted_from_a_row_that_has_as_many():
    threads = dataclasses.replace(
        REFERENCE,
        job=ScalingJob(2, 2, "auto"),
        times=ScalingTimes(calculation=9.0, communication=0.0, data=3.0),
    )
    config = satellite()
    made = ScalingModel([threads, REFERENCE], lambda cores: config, MACHINE)
    assert made.predict(threads.job) == threads.times
    assert made.predict(ONE) == REFERENCE.times
    assert made.predict(ScalingJob(3, 3, "auto")) == model().predict(ScalingJob(3, 3, "auto"))
    share = largest_share(ScannedRun.open(config), possible_distributions(4)[0], 2)
    found = made.predict(ScalingJob(4, 2, "dense"), "streams")
    assert found.calculation == pytest.approx((9 + 1.5) * share)


def test_a_growing_run_has_more_to_do():
    grown = ScalingModel([REFERENCE], lambda cores: satellite(hours=6 * cores), MACHINE)
    found = grown.predict(ScalingJob(2, 1, "auto"))
    assert found.calculation == pytest.approx(12, rel=0.15)  # as many samples a core, in whole blocks


def test_jobs_that_cannot_be_are_told():
    with pytest.raises(ConfigError, match="9 cores on one-node, which has 8"):
        require_job(satellite(), ScalingJob(9, 1, "auto"), MACHINE)
    with pytest.raises(ConfigError, match="blocks of data for 10000 cores"):
        require_job(satellite(), ScalingJob(10_000, 1, "auto"), load_machine("jaguar"))


def test_the_distribution_is_that_of_the_run_or_the_fastest():
    job, made = ScalingJob(4, 1, "dense"), model()
    by_name = {one.description: made.predict(job, one.description) for one in possible_distributions(4)}
    assert len({one.communication for one in by_name.values()}) > 1
    assert made.predict(job).communication == min(one.communication for one in by_name.values())


def test_the_table_has_what_json_has():
    job = ScalingJob(1024, 6, "pairwise")
    rows = [(REFERENCE, ScalingTimes(11, 0, 4))], [(job, ScalingTimes(1, 2000, 3))]
    text = scaling_table(*rows, "Jaguar")
    assert "predicted on Jaguar" in text
    assert "1,024" in text and "170 x 6" in text and "2,000" in text
    content = json.loads(scaling_json(*rows, "Jaguar"))
    assert content["measured"][0]["measured"]["calculation"] == 12
    assert content["measured"][0]["predicted"]["calculation"] == 11
    assert content["predicted"][0]["predicted"]["communication"] == 2000
