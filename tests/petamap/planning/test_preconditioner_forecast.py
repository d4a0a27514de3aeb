"""Preconditioners that plans foresee are those that runs have."""

import pytest

from petacomm.base.progress import SilentProgress
from petacomm.mpi import SerialCommunicator
from petamap.data.config import open_sources, parse_config
from petamap.mapmaking.setup import RunSetup
from petamap.planning.preconditioner_forecast import forecast_preconditioner
from petamap.planning.scanned_run import ScannedRun

GROUND = """
[run]
name = "night"
[map]
pixelization = "flat"
resolution = "20 arcmin"
frame = "equatorial"
[noise]
n_lag = 256
[[source]]
kind = "ground"
n_det = 2
spacing = "1 deg"
net = "300 uK s^0.5"
fmin = "5 mHz"
sample_rate = "20 Hz"
duration = "10 min"
azimuth_min = "160 deg"
azimuth_max = "180 deg"
elevation = "50 deg"
"""
STEEP = 'fknee = "1 Hz"\nalpha = -2.5\n[[source]]\nkind = "noise"\n'
GENTLE = 'fknee = "20 mHz"\nalpha = -1.0\n[[source]]\nkind = "noise"\n'


def forecast(text):
    config = parse_config(text)
    run = ScannedRun.open(config)
    return config, forecast_preconditioner(config, run.observations, run.bands)


@pytest.mark.parametrize(("noise", "kind"), [(STEEP, "two-level"), (GENTLE, "block-diagonal")])
def test_it_is_that_of_the_run(noise, kind):
    config, found = forecast(GROUND + noise)
    setup = RunSetup(config, SerialCommunicator(), SilentProgress())
    setup.open(open_sources)
    system = setup.set_up()
    assert found.kind == kind
    assert system.preconditioner.description.startswith(kind)
    if kind == "two-level":
        taken = system.memory.preconditioner / system.projection.local.n_out
        assert 0.3 * found.bytes_a_sample < taken < found.bytes_a_sample
        assert "two-level" in found.describe()


def test_data_may_decide():
    _, found = forecast(GROUND.replace("[noise]", '[noise]\nkernel = "estimate"') + STEEP)
    assert found.kind is None
    assert "data" in found.describe()


def test_what_is_asked_for_is_foreseen():
    for kind in ("two-level", "diagonal"):
        _, found = forecast(GROUND + STEEP + f'[solver]\npreconditioner = "{kind}"\n')
        assert found.kind == kind
        assert (found.bytes_a_sample > 0) == (kind == "two-level")


def test_white_noise_needs_no_model():
    _, found = forecast(GROUND.replace("[noise]", '[noise]\nkernel = "white"') + STEEP)
    assert found.kind == "block-diagonal" and found.bytes_a_sample == 0
