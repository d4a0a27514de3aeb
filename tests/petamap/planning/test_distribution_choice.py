"""The distribution that a run chooses: that of its plan, cheaply; options that name one."""

import dataclasses
import tempfile
from pathlib import Path

import pytest
from made_scans import CUTS, satellite
from mpi import run_ranks
from small_runs import recorded_with_gains, run_on

from petacomm.base.errors import ConfigError
from petacomm.mpi import SerialCommunicator
from petacomm.topology import load_machine
from petamap.data.config import ProductOptions, SolverOptions
from petamap.data.config.reader import parse_config
from petamap.mapmaking.run import run
from petamap.planning import choice_limits, distribution_choice
from petamap.planning.distribution_choice import local_machine, predict_distributions
from petamap.planning.plan import plan
from petamap.planning.scanned_run import ScannedRun

GROUND = """
[map]
pixelization = "flat"
resolution = "20 arcmin"
frame = "equatorial"
[noise]
n_lag = 64
[[source]]
kind = "ground"
n_det = 4
spacing = "2 deg"
sample_rate = "20 Hz"
duration = "30 min"
azimuth_min = "160 deg"
azimuth_max = "200 deg"
elevation = "50 deg"
net = "300 uK s^0.5"
"""


def machine_of(size):
    return dataclasses.replace(load_machine("one-node"), sockets_per_node=1, cores_per_socket=size)


def seconds_of_plan(config, size, machine):
    """Return the seconds of the fastest reduction and of unpaired samples, of ranks of one thread."""
    predictions = plan(config, size, machine, n_threads=1).predictions
    return {
        one.distribution: one.seconds[one.best] + one.unpaired_seconds
        for one in predictions
        if one.threads == 1
    }


def quick(config, size, machine):
    run = ScannedRun.open(config)
    return predict_distributions(run, config, size, size, machine, SerialCommunicator())


@pytest.mark.parametrize("size", [2, 5, 16])
def test_the_prediction_is_that_of_the_plan(size):
    config, machine = satellite(n_side=16, rate=2, hours=3), machine_of(size)
    assert quick(config, size, machine) == seconds_of_plan(config, size, machine)


def test_few_samples_on_fine_pixels_take_no_memory_of_all_the_sky():
    text = GROUND.replace("flat", "healpix").replace('resolution = "20 arcmin"', "n_side = 8192")
    text = text.replace('frame = "equatorial"\n', "").replace("30 min", "2 min")
    config, machine = parse_config(text, Path("fine.toml")), machine_of(2)
    run = ScannedRun.open(config)
    assert run.layout.n_samp < choice_limits.ALL_SAMPLES
    assert len(distribution_choice._sky_sample(run, 1).regions) < 1000  # of 12.6 million
    assert predict_distributions(run, config, 2, 2, machine, SerialCommunicator())


@pytest.mark.parametrize("size", [5, 16])
@pytest.mark.parametrize(
    "config", [satellite(n_side=64, more=CUTS), parse_config(GROUND, Path("ground.toml"))]
)
def test_some_regions_and_samples_choose_as_the_plan(config, size, monkeypatch):
    monkeypatch.setattr(choice_limits, "ALL_SAMPLES", 0)
    machine = machine_of(size)
    found, expected = quick(config, size, machine), seconds_of_plan(config, size, machine)
    assert min(found, key=found.get) == min(expected, key=expected.get)
    for one in found:
        assert found[one] == pytest.approx(expected[one], rel=0.15)


def run_as_chosen(comm):
    config = satellite(n_side=16, rate=2, hours=3)
    products = ProductOptions(**dict.fromkeys(("hits", "covariance", "rcond", "residual", "binned"), False))
    config = dataclasses.replace(config, solver=SolverOptions(max_iterations=2), products=products)
    machine = local_machine(comm)
    folder = comm.bcast(tempfile.mkdtemp())
    done = run(config, out=folder, comm=comm)
    seconds = seconds_of_plan(config, comm.size, machine)
    best = min(seconds, key=seconds.get)
    assert done.environment.distribution == best.description == "time-major"


def recorded_pixels_by_streams(comm):
    done = run_on(
        recorded_with_gains(), comm.bcast(tempfile.mkdtemp()), comm, map={"pixelization": "numbered"},
        noise={"n_lag": 20}, solver={"max_iterations": 1},
    )  # fmt: skip
    assert done.environment.distribution == "streams"
    with pytest.raises(ConfigError, match="distribution cannot be 'mixed' for 3 detectors"):
        run_on(
            recorded_with_gains(), comm.bcast(tempfile.mkdtemp()), comm, map={"pixelization": "numbered"},
            noise={"n_lag": 20}, comm={"distribution": "mixed"},
        )  # fmt: skip


def both(comm):
    run_as_chosen(comm)
    recorded_pixels_by_streams(comm)


def test_a_run_deals_data_as_its_plan_says_and_recorded_pixels_by_streams():
    run_ranks(both, 2)
