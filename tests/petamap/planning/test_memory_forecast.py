"""Memory of planned runs: that of templates, common modes, splits and filters, as the run itself has it."""

import dataclasses
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from small_systems import two_level_of

from petacomm.base.progress import SilentProgress
from petacomm.mpi import SerialCommunicator
from petacomm.topology import load_machine
from petamap.data.config import open_sources, parse_config
from petamap.mapmaking.block_diagonal import BlockMatrix
from petamap.mapmaking.distribution import TIME_MAJOR
from petamap.mapmaking.setup import RunSetup
from petamap.mapmaking.splits import Splits
from petamap.mapmaking.template_memory import StreamFunctions, template_model_bytes
from petamap.planning import memory_forecast
from petamap.planning.memory_forecast import MemoryForecast, SampledFunctions
from petamap.planning.plan import plan
from petamap.planning.preconditioner_forecast import forecast_preconditioner
from petamap.planning.rank_samples import HeldSamples
from petamap.planning.scanned_run import ScannedRun
from petamap.simulation.seen_pixels import SeenPixels
from petamap.simulation.sky_costs import sky_costs

BASE = """
[map]
pixelization = "car"
resolution = "1 deg"
frame = "equatorial"
[noise]
n_lag = 256
[[source]]
kind = "ground"
n_det = 4
spacing = "1 deg"
sample_rate = "20 Hz"
duration = "40 min"
n_observations = 2
azimuth_min = "160 deg"
azimuth_max = "200 deg"
turnarounds = "keep"
hwp_frequency = "2 Hz"
[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "50 mHz"
fmin = "1 mHz"
"""
SOURCES = {
    "offsets": 'kind = "offsets"',
    "baselines": 'kind = "baselines"\nlength = "5 s"',
    "polynomials": 'kind = "polynomials"\norder = 3',
    "azimuth": 'kind = "azimuth-synchronous"\nbins = 150',
    "plate": 'kind = "plate-synchronous"\nlast = 4',
    "gains": 'kind = "dipole"\n[[source]]\nkind = "gain-drift"\nlength = "1 min"\nrms = 0.01',
    "common": 'kind = "common-mode"\nnet = "20 uK s^0.5"\nfknee = "100 mHz"\nfmin = "5 mHz"',
}


def configured(name="", more=""):
    source = f"[[source]]\n{SOURCES[name]}\n" if name else ""
    return parse_config(BASE + source + more, Path("x.toml"))


@cache
def made(name="", more=""):
    """Return the set-up of a run, and its system."""
    setup = RunSetup(configured(name, more), SerialCommunicator(), SilentProgress())
    setup.open(open_sources)
    splits = Splits(setup, Path())
    system = setup.set_up(splits=splits.n_parts)
    splits.set_up(system)
    return setup, system


def planned(name="", more="", ranks=1):
    found = plan(configured(name, more), ranks, load_machine("one-node"), n_threads=1)
    return {one.distribution.name: one for one in found.predictions if one.threads == 1}


def grown(name, more=""):
    """Return by how many bytes the run's own prediction is more than its base, and by how many the plan's."""
    _, system = made(name, more)
    base = planned()["time-major"].memory_kept - made()[1].memory.total + made()[1].memory.base
    return system.memory.total - system.memory.base, planned(name, more)["time-major"].memory_kept - base


@pytest.mark.parametrize("name", SOURCES)
def test_the_plan_grows_as_the_run_does(name):
    run, expected = grown(name)
    if name != "common":  # which has no templates
        expected -= memory_forecast._SPARSE_BYTES  # this process has them loaded
    # the plan does not know how long a pixel is seen, and takes the shortest visits that there may be
    assert 0.8 * run - 3e6 <= expected <= 1.35 * run + 3e6


def test_maps_of_splits_are_planned():
    run, expected = grown("offsets", '[[split]]\nname = "halves"\nby = "time"\n')
    assert run * 0.9 <= expected <= run * 1.8  # at most: of both parts and of all, of all pixels each


def test_rounds_that_estimate_the_noise_are_planned():
    estimated = BASE.replace("n_lag = 256", 'n_lag = 256\nkernel = "estimate"')
    setup = RunSetup(parse_config(estimated), SerialCommunicator(), SilentProgress())
    setup.open(open_sources)
    setup.set_up()
    predictions = plan(setup.config, 1, load_machine("one-node"), n_threads=1).predictions
    (found,) = {one.memory_kept for one in predictions if one.distribution.name == "time-major"}
    declared = planned()["time-major"].memory_kept
    # anew: what other tests have left in memory is in both
    beside = declared - made.__wrapped__()[1].memory.total
    assert found - beside == pytest.approx(setup.noise_estimate.predicted_bytes, rel=0.2)
    assert found > 1.02 * declared


def test_a_filter_has_a_model_of_templates_of_its_own():
    less, more = (
        planned("azimuth", f"[products]\nfiltered = {one}\n")["streams"].memory for one in ("false", "true")
    )
    run = ScannedRun.open(configured("azimuth"))
    sampled = SampledFunctions(run)
    streams = [sampled.of(number) for number in range(len(run.layout.streams))]
    assert more - less >= template_model_bytes(streams, 1 / 4096, 0).kept


def arrays_of(matrix):
    if isinstance(matrix, np.ndarray | BlockMatrix):
        return matrix.nbytes
    return sum(array.nbytes for array in (matrix.data, matrix.indices, matrix.indptr))


@pytest.mark.parametrize("name", ["offsets", "polynomials", "azimuth"])
def test_the_model_of_templates_is_as_large_as_predicted(name):
    _, system = made(name)
    model = two_level_of(system).inverse.model.templates
    held = [model._coupling, model._held, model._hats, *model._matrices]
    held += [part for one in (model._inverse, model._reduced) for part in (one._own, one._answers)]
    knots = float(model.noises.knots[-1]) / setup_samples(system)
    functions = system.projection.amplitudes.functions()
    found = template_model_bytes(functions, knots, system.projection.gaps.count()).kept
    assert 0.9 * sum(map(arrays_of, held)) < found < 2.2 * sum(map(arrays_of, held)) + 1e6


def setup_samples(system):
    return system.layout.streams.n_keys


def test_smooth_functions_take_little_and_those_of_intervals_are_kept_once():
    run, n_samp = ScannedRun.open(configured("gains")), 40 * 60 * 20 // 2
    one = SampledFunctions(run).of(3)
    assert one.own_bytes < n_samp and one.interval_bytes == 0 and one.n_amplitudes == 20
    sampled = SampledFunctions(ScannedRun.open(configured("azimuth")))
    first = sampled.of(0)
    assert first.own_bytes == 0 and first.interval_bytes >= 4 * n_samp and first.n_amplitudes == 150
    same = [0, 1, 2, 3] if run.layout.streams[1].observation == 0 else [0, 2, 4, 6]
    held = HeldSamples(0, 0, np.array(same))
    assert sampled.held(held) == (4 * 150, first.interval_bytes)
    assert sampled.held(dataclasses.replace(held, weight=2.5)) == (10 * 150, first.interval_bytes)
    assert SampledFunctions(ScannedRun.open(configured())).held(held) == (0, 0)


def test_bytes_of_dense_and_of_banded_matrices():
    one = StreamFunctions(10_000, 500, 4.0, 100, 0, 0)
    other = StreamFunctions(10_000, 600, 4.0, 120, 0, 0)
    dense, banded = (template_model_bytes([x], 1 / 16, 0) for x in (one, other))
    assert dense.kept > 24 * 500**2 and banded.kept < 24 * 600**2
    assert template_model_bytes([one], 1 / 16, 1000).kept - dense.kept == 56 * 1000
    assert template_model_bytes([], 1.0, 0).beside == 0


def test_streams_that_share_noise_have_one_matrix():
    alone, few, many = (StreamFunctions(10_000, 50, 4.0, 10, 0, 0, n) for n in (0, 8, 40))
    a, b, c = (template_model_bytes([one], 1 / 16, 0).kept for one in (alone, few, many))
    assert b - a == 12 * 8 * 50**2 and c == a


@pytest.mark.parametrize("name", ["offsets", "polynomials", "azimuth", "gains"])
def test_what_pixels_see_of_functions_is_as_large_as_predicted(name):
    _, system = made(name)
    model, functions = two_level_of(system).inverse.model, system.projection.amplitudes.functions()
    table = model._amplitude_visits.table
    n_samp, n_pixels = setup_samples(system), system.projection.n_local
    visits = len(model._visits.table) / n_samp
    less, more = (template_model_bytes(functions, 0.01, 0, *one).kept for one in ((), (visits, n_pixels)))
    assert table.nbytes < more - less < 8 * table.nbytes


def test_detectors_that_share_noise_are_dealt_time_major_alone():
    found = planned("common", ranks=2)
    assert list(found) == [TIME_MAJOR.name]
    n = np.array([one.memory for one in planned(ranks=2).values()])
    assert found[TIME_MAJOR.name].memory > n.min()


def test_leakage_of_temperature_that_is_not_known_yet_is_planned():
    more = '[[source]]\nkind = "leakage"\nrms = 0.01\n'
    found = planned(more=more)["streams"].memory - planned()["streams"].memory
    assert found > 0


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("ranks", [1, 3])
def test_all_kinds_have_a_plan(name, ranks):
    for prediction in planned(name, ranks=ranks).values():
        assert 50e6 < prediction.memory <= prediction.memory_kept < 1e9


def test_pixels_that_are_recorded_are_kept(tmp_path):
    rows = "\n".join(f"{k % 12},0,{k}" for k in range(400))
    (tmp_path / "a.csv").write_text(f"pixel,psi,signal\n{rows}\n")
    text = '[map]\nn_side = 1\nstokes = "I"\n[noise]\nkernel = "white"\n'
    text += '[[source]]\nkind = "table"\npath = "a.csv"\n'
    text += 'pixel = "pixel"\npixels = "ring"\nn_side = 1\ntime = ""\nsample_rate = "1 Hz"\n'
    text += 'frame = "galactic"\n[[source]]\nkind = "noise"\nnet = "1 K s^0.5"\n'
    found = plan(parse_config(text, tmp_path / "x.toml"), 1, load_machine("one-node"), n_threads=1)
    assert all(one.memory == one.memory_kept for one in found.predictions)


def test_skies_are_planned_as_they_are_held():
    sky = '[[source]]\nkind = "sky-spectra"\nn_side = 1024\nl_max = 500\n'
    local = planned(more=sky, ranks=2)["time-major"]
    with mock.patch.object(SeenPixels, "may_be_few", False):
        whole = planned(more=sky, ranks=2)["time-major"]
    assert whole.without_skies == local.without_skies
    for one, least, most in (local, 0, 0.25), (whole, 1, 1.5):
        more = 2 * (one.memory - one.without_skies[0])
        assert least <= more / (3 * 8 * 12 * 1024**2) < most
    run, memory = ScannedRun.open(configured(more=sky)), made(more=sky)[1].memory
    (foreseen,) = sky_costs(run.observations)
    assert foreseen.n_bytes == pytest.approx(memory.skies, rel=0.05)


def test_ranks_that_hold_as_much_are_looked_at_once(monkeypatch):
    looked_at = []
    of_rank = MemoryForecast._of_rank
    monkeypatch.setattr(
        MemoryForecast, "_of_rank", lambda *given: looked_at.append(given[-1]) or of_rank(*given)
    )
    found = planned()["time-major"].forecast
    run = ScannedRun.open(configured())
    preconditioner = forecast_preconditioner(configured(), run.observations, run.bands)
    forecast = MemoryForecast(configured(), run, preconditioner)
    ranks = [HeldSamples(1000 + 900 * (number % 3), 64, np.arange(1)) for number in range(3000)]
    looked_at.clear()
    most = forecast.of(found, 1, ranks)
    assert len(looked_at) == 3
    assert most == forecast.of(found, 1, ranks[:3]) > forecast.of(found, 1, ranks[:1])
