"""Preconditioners that plans foresee are those that runs have."""

import pytest
from made_scans import ground

from petacomm.base.progress import SilentProgress
from petacomm.mpi import SerialCommunicator
from petamap.data.config import open_sources
from petamap.mapmaking.preconditioning import bytes_a_gap
from petamap.mapmaking.setup import RunSetup
from petamap.planning.pixel_visits import visits_a_sample
from petamap.planning.preconditioner_forecast import forecast_preconditioner
from petamap.planning.scanned_run import ScannedRun

GENTLE = {"fknee": "20 mHz", "alpha": -1.0}


def forecast(config):
    run = ScannedRun.open(config)
    return forecast_preconditioner(config, run.observations, run.bands, visits_a_sample(run))


@pytest.mark.parametrize(("noise", "kind"), [({}, "two-level"), (GENTLE, "block-diagonal")])
def test_it_is_that_of_the_run(noise, kind):
    config = ground(**noise)
    found = forecast(config)
    setup = RunSetup(config, SerialCommunicator(), SilentProgress())
    setup.open(open_sources)
    system = setup.set_up()
    assert found.kind == kind
    assert system.preconditioner.description.startswith(kind)
    if kind == "two-level":
        n_gaps = system.projection.gaps.n  # of pixels that are cut, too, which no plan knows
        taken = (system.memory.preconditioner - bytes_a_gap(1) * n_gaps) / system.projection.local.n_out
        assert taken == pytest.approx(found.bytes_a_sample(1), rel=0.1)
        assert "two-level" in found.describe()
        assert 1 < found.iteration[0] < found.iteration[1]
        assert 4 < found.set_up[0] < found.set_up[1]
    else:
        assert found.iteration == (1, 1) and found.set_up == (0, 0)


def test_a_finer_model_costs_more():
    slow, fast = (forecast(ground(fknee=fknee)) for fknee in ("0.3 Hz", "3 Hz"))
    assert slow.knots < fast.knots
    for of in ("iteration", "set_up"):
        assert all(a < b for a, b in zip(getattr(slow, of), getattr(fast, of), strict=True))


def test_a_longer_band_may_be_steep_where_a_shorter_one_is_not():
    noise = {"fknee": "0.3 Hz", "alpha": -1.5}
    assert forecast(ground(n_lag=16, **noise)).kind == "block-diagonal"
    assert forecast(ground(n_lag=2048, **noise)).kind == "two-level"


def test_data_may_decide():
    found = forecast(ground(change=("[noise]", '[noise]\nkernel = "estimate"')))
    assert found.kind is None
    assert "data" in found.describe()


@pytest.mark.parametrize("kind", ["two-level", "diagonal"])
def test_what_is_asked_for_is_foreseen(kind):
    found = forecast(ground(more=f'[solver]\npreconditioner = "{kind}"\n'))
    assert found.kind == kind
    assert (found.bytes_a_sample(1) > 0) == (kind == "two-level")


def test_white_noise_needs_no_model():
    found = forecast(ground(change=("[noise]", '[noise]\nkernel = "white"')))
    assert found.kind == "block-diagonal" and found.bytes_a_sample(1) == 0
