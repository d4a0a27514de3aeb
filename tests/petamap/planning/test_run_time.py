"""Time of a run: from what is assumed of samples, or from what a run like it took."""

from dataclasses import replace

import pytest
from made_scans import CUTS, satellite

from petacomm.base.errors import ConfigError
from petacomm.topology import load_machine
from petamap.data.run_summary import RankStatistics
from petamap.mapmaking.run import run
from petamap.planning.plan import plan
from petamap.planning.run_time import ASSUMED, measured_times, predict_run_time

MACHINE = load_machine("one-node")
FEW = '[solver]\nmax_iterations = 4\n[[source]]\nkind = "noise"\nnet = "60 uK s^0.5"\nfknee = "50 mHz"\n'


@pytest.fixture(scope="module")
def config():
    return satellite(more=FEW)


@pytest.fixture(scope="module")
def summary(config):
    return run(config).summary


def seconds_of(summary, names):
    return sum(one.seconds.mean for one in summary.phases if one.name in names)


def test_a_run_on_the_cores_that_it_had_takes_what_it_took(config, summary):
    cores = summary.environment.threads
    planned = plan(config, cores, MACHINE, threads=[cores])
    taken = predict_run_time(planned, planned.best, measured_times(summary))
    assert taken.iterations == summary.solver.iterations
    assert taken.iterating == pytest.approx(seconds_of(summary, ["iterations"]), rel=1e-12)
    assert taken.seconds == pytest.approx(sum(one.seconds.mean for one in summary.phases), rel=1e-12)


def test_samples_and_cores_scale_but_what_is_done_once(config, summary):
    long = satellite(hours=12, more=FEW)
    measured = measured_times(summary)
    one, other = plan(config, 1, MACHINE), plan(long, 2, MACHINE, threads=[1])
    small, large = (predict_run_time(made, made.best, measured) for made in (one, other))
    growth = other.n_samp / one.n_samp / 2
    assert large.around - measured.once == pytest.approx(growth * (small.around - measured.once), rel=1e-12)
    sums = large.iterations * other.best.seconds[other.best.best]
    assert large.iterating == pytest.approx(growth * small.iterating + sums, rel=1e-12)


def test_communication_is_that_of_the_model(summary):
    half = tuple(
        replace(one, communication_seconds=RankStatistics.from_values([one.seconds.mean / 2]))
        for one in summary.phases
    )
    found, whole = measured_times(replace(summary, phases=half)), measured_times(summary)
    assert found.iteration == pytest.approx(whole.iteration / 2)
    assert found.around == pytest.approx(whole.around / 2)


def test_iterations_that_are_assumed_are_no_more_than_are_allowed(config):
    planned = plan(config, 2, MACHINE)
    assert predict_run_time(planned, planned.best).iterations == 4
    binned = plan(satellite(more="[solver]\nbinned_only = true\n"), 2, MACHINE)
    taken = predict_run_time(binned, binned.best)
    assert (taken.iterations, taken.iterating) == (0, 0)
    assert taken.around == pytest.approx(ASSUMED.around * binned.n_samp / 2)


def test_samples_that_are_flagged_need_memory():
    few, many = (
        plan(satellite(n_side=8, hours=96, more=CUTS.replace("5 s", gap) + FEW), 1, MACHINE, threads=[1])
        for gap in ("15 s", "30 s")
    )  # most of the memory are unknowns of samples
    assert few.unused.samples < 0.25 and many.unused.samples > 0.4
    more = (many.unused.samples - few.unused.samples) * many.n_samp
    assert 70 < (many.best.memory - few.best.memory) / more < 80


def test_the_part_that_was_flagged_is_of_a_run_and_within_bounds(summary):
    n = summary.totals.samples
    totals = replace(summary.totals, samples_flagged=n // 4, samples_used=n - n // 4, samples_unwritten=0)
    assert measured_times(replace(summary, totals=totals)).flagged == pytest.approx(0.25, rel=1e-3)
    with pytest.raises(ConfigError, match="give 0 to 1"):
        plan(satellite(more=FEW), 1, MACHINE, flagged=1.1)
