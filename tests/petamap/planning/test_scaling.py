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
    measured_run,
    require_job,
    scaling_jobs,
    shares,
    trial_jobs,
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
NONE = dict.fromkeys(PHASES, 0.0)
REFERENCE = MeasuredRun(
    ONE,
    ScalingTimes(calculation=12.0, communication=0.0, data=5.0),
    phases=PHASES,
    waits=NONE,
    exchanges=NONE,
    busy=1.0,
    samples=8000,
    iterations=10,
    distribution="",
    hashes=("a", "b"),
)
# Two ranks with an eighth of the samples, in half of the iterations.
TRIAL = dataclasses.replace(
    REFERENCE,
    job=ScalingJob(2, 1, "auto"),
    phases={
        "sources": 0.25,
        "noise kernels": 0.5,
        "pointing": 0.15,
        "iterations": 1.0,
        "data": 0.25,
        "distribution": 0.2,
        "products": 0.3,
    },
    waits=NONE | {"pointing": 0.05, "iterations": 0.7, "distribution": 0.1},
    exchanges=NONE | {"pointing": 40.0, "iterations": 100.0},
    samples=1000,
    iterations=5,
    distribution="streams",
)
MACHINE = load_machine("one-node")


def model(config=None, trials=(), **options):
    config = config or satellite()
    return ScalingModel([REFERENCE], trials, lambda cores: config, MACHINE, **options)


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
        totals: object = dataclasses.field(default_factory=lambda: type("", (), {"samples_inside": 7}))

    def phase(name, seconds, communication):
        values = {
            "seconds": seconds, "communication_seconds": communication, "bytes": 0.0, "messages": 3.0,
            "collectives": 2.0, "cpu_seconds": 1.5 * seconds,
        }  # fmt: skip
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
    found = measured_run(ScalingJob(2, 2, "auto"), Made(tuple(phase(*one) for one in phases)))
    assert found.times == ScalingTimes(calculation=7, communication=3.25, data=5.75)
    assert found.times.total == 16
    assert found.phases == {"sources": 0.75, "data": 3.5, "iterations": 6, "products": 1.5, "weights": 1}
    assert found.waits == {"sources": 0.25, "data": 0.5, "iterations": 2, "products": 0.5, "weights": 0}
    assert set(found.exchanges.values()) == {5.0}
    assert (found.busy, found.samples) == (1.5, 7)
    assert found.distribution == "time-major"


def test_the_row_that_is_known_is_predicted_as_it_is():
    assert model().predict(ONE) == REFERENCE.times


@pytest.mark.parametrize(
    "job", [ScalingJob(2, 1, "auto"), ScalingJob(4, 2, "dense"), ScalingJob(3, 1, "owner")]
)
def test_predictions_are_of_the_rank_with_most_samples(job):
    config = satellite()
    run, found = ScannedRun.open(config), model(config).predict(job, "streams")
    distribution = possible_distributions(4)[0]
    largest, total = shares(run, distribution, job.ranks)
    halos = 2 * run.layout.n_lag * job.ranks * 4 * 3 / run.layout.n_samp  # 4 detectors, 3 observations
    assert 1 / job.ranks <= largest <= 1 / job.ranks + 1 / run.layout.n_blocks + halos
    assert largest <= total <= 1 + halos
    one = plan(config, job.cores, MACHINE, distributions=[distribution], threads=[job.threads]).best
    unpaired = 1 + 0.5 * one.unpaired * job.ranks / run.layout.n_samp
    assert found.calculation == pytest.approx((2 + 10 * unpaired) * largest / job.threads)
    assert found.data == pytest.approx(0.25 + 4 * largest / job.threads + 0.75 / job.ranks)
    expected = one.seconds[one.best if job.reduction == "auto" else job.reduction]
    assert found.communication == pytest.approx(10 * expected + 0.75 * (1 - 1 / job.ranks))


def test_what_a_rank_does_once_is_told_by_a_trial():
    # 16 times the samples of a rank of the trial: (16 t - seconds) / 15 of each phase
    tried = model(trials=[TRIAL])
    once = tried.once(REFERENCE)
    assert tried.references() == {ONE: sum(once.values())}
    expected = {
        "noise kernels": 0.5,
        "pointing": (16 * 0.2 - 1.5) / 15,  # with its exchanges
        "iterations": (16 * 2.0 - 10) / 15,  # twice as many of them
        "data": 0.0,
    }
    assert once == pytest.approx(expected)
    assert model().once(REFERENCE) == dict.fromkeys(expected, 0.0)
    assert model(trials=[dataclasses.replace(TRIAL, samples=16000)]).once(REFERENCE)["pointing"] == 0
    none_of_two = dataclasses.replace(TRIAL, job=ScalingJob(4, 2, "auto"))
    assert model(trials=[none_of_two]).once(REFERENCE)["pointing"] == 0


def test_ranks_take_turns_with_what_they_do_once_and_share_the_rest():
    job, once = ScalingJob(8, 1, "auto"), sum(model(trials=[TRIAL]).once(REFERENCE).values())
    without, alone, turns = (
        model(trials=trials, available=n).predict(job, "streams")
        for trials, n in (((), 8), ([TRIAL], 8), ([TRIAL], 2))
    )
    share = shares(ScannedRun.open(satellite()), possible_distributions(4)[0], 8)
    unpaired = without.calculation / share[0] - 2  # what iterations take of 10 s, with unpaired detectors
    of_iterations = (16 * 2.0 - 10) / 15
    shared = 12 - once + (unpaired / 10 - 1) * (10 - of_iterations)
    fixed = once + (unpaired / 10 - 1) * of_iterations
    assert alone.calculation == pytest.approx(shared * share[0] + fixed + 0.3)
    assert turns.calculation == pytest.approx(shared * share[1] / 2 + 4 * (fixed + 0.3))
    longer = 1 + 0.1 * 3  # as three others on its core wait for the one that makes sources and maps
    assert turns.data == pytest.approx(4 * share[1] / 2 + longer * (0.25 + 0.75 / 8))
    exchanges = 40 + 2 * 100  # of the row's iterations
    waited = (longer - 1) * 0.75 * 7 / 8
    assert turns.communication - alone.communication == pytest.approx(exchanges * 4 * 60e-6 + waited)
    assert alone.communication == pytest.approx(without.communication)


def test_the_choice_is_that_of_the_first_row_of_several_ranks():
    # 8 times the samples of a rank of the trial: 0.3 s there, 1.7 here are F = 0.1 and 1.6, which ranks share
    row = dataclasses.replace(
        TRIAL, samples=8000, phases=TRIAL.phases | {"distribution": 1.5}, waits=NONE | {"distribution": 0.2}
    )
    config = satellite()
    for job, expected in ((row.job, 0.3), (ScalingJob(4, 1, "auto"), 0.1 + 1.6 / 2)):
        with_row, without = (
            ScalingModel(rows, [trial], lambda cores: config, MACHINE).predict(job, "streams").calculation
            for rows, trial in (
                ([REFERENCE, row], TRIAL),
                (
                    [REFERENCE],
                    dataclasses.replace(
                        TRIAL,
                        phases=PHASES | TRIAL.phases | {"distribution": 0.0},
                        waits=TRIAL.waits | {"distribution": 0.0},
                    ),
                ),
            )
        )
        assert with_row - without == pytest.approx(expected)


def test_cores_that_take_turns_take_longer():
    job = ScalingJob(4, 1, "auto")
    alone, turns = model().predict(job), model(available=2).predict(job)
    largest, total = shares(ScannedRun.open(satellite()), possible_distributions(4)[1], 4)
    assert turns.calculation == pytest.approx(alone.calculation * max(largest, total / 2) / largest)


def test_threads_are_predicted_from_a_row_that_has_as_many():
    threads = dataclasses.replace(
        REFERENCE,
        job=ScalingJob(2, 2, "auto"),
        times=ScalingTimes(calculation=9.0, communication=0.0, data=3.75),
        phases=PHASES | {"iterations": 7, "data": 2.75},
        busy=1.6,
    )
    config = satellite()
    made = ScalingModel([threads, REFERENCE], [], lambda cores: config, MACHINE)
    assert made.predict(threads.job) == threads.times
    assert made.predict(ONE) == REFERENCE.times
    assert made.predict(ScalingJob(3, 3, "auto")) == model().predict(ScalingJob(3, 3, "auto"))
    largest, total = shares(ScannedRun.open(config), possible_distributions(4)[0], 2)
    found = made.predict(ScalingJob(4, 2, "dense"), "streams")
    assert found.data == pytest.approx(0.25 + 2.75 * largest + 0.75 / 2)
    # two ranks that keep 1.6 cores busy each, on two cores
    turns = ScalingModel([threads], [], lambda cores: config, MACHINE, 2).predict(
        ScalingJob(4, 2, "dense"), "streams"
    )
    assert turns.data == pytest.approx(0.25 + 2.75 * 1.6 * max(largest / 1.6, total / 2) + 0.75 / 2)


@pytest.mark.parametrize(
    ("jobs", "available", "expected"),
    [
        ([(1, 1), (2, 1), (4, 1)], 2, [(2, 1)]),
        ([(1, 1)], 2, [(1, 1)]),
        ([(1, 1), (2, 1), (2, 2), (4, 2)], 2, [(2, 1), (2, 2)]),
        ([(1, 1), (2, 1), (2, 2), (4, 2)], 8, [(2, 1), (4, 2)]),
        ([(4, 1)], 1, [(1, 1)]),
    ],
)
def test_trials_have_two_ranks_where_there_are_cores(jobs, available, expected):
    found = trial_jobs([ScalingJob(*job, "dense") for job in jobs], available)
    assert [(job.cores, job.threads) for job in found] == expected
    assert {job.reduction for job in found} == {"auto"}


def test_a_growing_run_has_more_to_do():
    grown = ScalingModel([REFERENCE], [], lambda cores: satellite(hours=6 * cores), MACHINE)
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
    rows = [(REFERENCE, ScalingTimes(11, 0, 4))], [(job, ScalingTimes(1, 2000, 3))], "Jaguar", {ONE: 1.25}
    text = scaling_table(*rows)
    assert "predicted on Jaguar" in text
    assert text.splitlines()[-1].endswith("whatever its samples: 1.25 of 1 x 1")
    assert "1,024" in text and "170 x 6" in text and "2,000" in text
    content = json.loads(scaling_json(*rows))
    assert content["measured"][0]["measured"]["calculation"] == 12
    assert content["measured"][0]["predicted"]["calculation"] == 11
    assert content["predicted"][0]["predicted"]["communication"] == 2000
    assert content["once"] == [{"cores": 1, "threads": 1, "reduction": "auto", "seconds": 1.25}]
