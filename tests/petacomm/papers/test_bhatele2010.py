"""Steps of OpenAtom predicted for published runs: what is calibrated, and how near the others come."""

import pytest

from petacomm.mapping.openatom import WATER_256
from petacomm.papers.bhatele2010.runs import published_runs
from petacomm.papers.bhatele2010.steps import predict_steps


@pytest.fixture(scope="module")
def predicted():
    wanted = (WATER_256.name, "Blue Gene/L, CO")
    runs = [run for run in published_runs() if (run.system.name, run.machine) == wanted]
    return predict_steps([run for run in runs if run.n_cores <= 4096])


def test_one_time_of_a_machine_is_calibrated(predicted):
    steps, rates = predicted
    assert [step.calibrated for step in steps] == [True, False, False]
    assert steps[0].seconds[1] == pytest.approx(steps[0].run.topology, rel=1e-9)
    # A core of Blue Gene/L has 2.8 GFlop/s at most.
    assert 0.1e9 < rates["Blue Gene/L, CO"] < 2.8e9


def test_steps_with_topology_aware_maps_come_near_the_published_times(predicted):
    for step in predicted[0][1:]:
        assert step.seconds[1] == pytest.approx(step.run.topology, rel=0.1)


def test_default_maps_take_longer_and_leave_cores_idle_longer(predicted):
    for step in predicted[0]:
        assert step.seconds[1] < step.seconds[0] < step.run.default
        assert 0 < step.idle[1] < step.idle[0] < step.idle_published[0] < 1
