"""Noise estimated from the data: near the truth, and the same on any number of ranks."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mpi import run_ranks
from small_runs import config, run_on
from small_systems import Models, Samples, spinning

from petacomm.base.errors import DataError
from petacomm.base.progress import SilentProgress
from petacomm.base.timers import Timers
from petacomm.mpi import SerialCommunicator
from petamap.data.observation import Observation
from petamap.mapmaking.noise_estimate import NoiseEstimator
from petamap.mapmaking.residual_streams import DrawnStreams, ReferenceNoise
from petamap.mapmaking.system_options import SystemOptions
from petamap.noise.model import OneOverF
from petamap.noise.psd import noise_psd
from petamap.noise.welch import WelchSegments
from petamap.pointing.recorded import RecordedPixels
from petamap.simulation.noise import SimulatedNoise
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map
from petamap.sky.numbered import NumberedPixels

TRUTH = (OneOverF(1.0, 0.2, 1e-3, -1.5), OneOverF(2.0, 0.05, 1e-3, -2.0))
N_SAMP, RATE = 40_000, 10.0


def scans(n_samp=N_SAMP):
    """Return a bright sky under 1/f noise, two intervals of different noise."""
    models = Models(tuple((TRUTH[d % 2], TRUTH[(d + 1) % 2]) for d in range(4)))
    bare = Observation(
        name="long", uid=3, n_samp=n_samp, sample_rate=RATE, detectors=tuple("abcd"),
        intervals=((0, n_samp // 2), (n_samp // 2, n_samp)), pointing=spinning(n_samp, 0.31, 4, 4),
        frame="galactic", noise=models,
    )  # fmt: skip
    pixels = np.empty(n_samp, np.int32)
    sky = np.zeros((4, n_samp))
    values = 30 * np.random.default_rng(2).standard_normal(Healpix(8, nest=True).n_pix)
    for detector in range(4):
        bare.pointing.expand(Healpix(8, nest=True), detector, 0, n_samp, pixels, None)
        sky[detector] = values[pixels]
    return replace(bare, signals=(Samples(sky), SimulatedNoise(bare, models, 9, 0)))


def models_of(made, pixelization, comm=None, **choices):
    return estimated([made], pixelization, comm, **choices).model_of


def estimated(made, pixelization, comm=None, max_rounds=4, tolerance=0.01, **choices):
    options = SystemOptions(n_lag=100, **choices)
    estimator = NoiseEstimator(
        made, pixelization, lambda observations, model_of: options, 200, comm or SerialCommunicator(),
        Timers(), SilentProgress(),
    )  # fmt: skip
    return estimator.estimate(max_rounds, tolerance)


def measured(model):
    """Return the frequencies that are measured, and the values there: all but the one below."""
    return model.frequencies[1:], model.values[1:]


def test_spectra_are_near_the_truth():
    made = scans()
    found, above = models_of(made, Healpix(8, nest=True)), []
    for detector in range(4):
        for interval in range(2):
            model = found(made, detector, interval)
            frequencies, values = measured(model)
            ratio = values / noise_psd(made.noise.noise_model(detector, interval), frequencies)
            assert np.average(ratio, weights=model.scatter[1:] ** -2.0) == pytest.approx(1, abs=0.05)
            assert np.std(np.log(ratio[frequencies > 0.1])) < 0.2
            above.append(np.average(ratio, weights=(frequencies > 1) / model.scatter[1:] ** 2))
    assert np.std(above) < 0.03 and np.mean(above) == pytest.approx(1, abs=0.015), above


def test_rounds_end_when_the_spectra_are_settled():
    made, pixelization = [scans(8000)], Healpix(8, nest=True)
    rounds = [estimated(made, pixelization, max_rounds=n, tolerance=0.0) for n in (1, 2, 3, 4)]
    assert [found.rounds for found in rounds] == [1, 2, 3, 4]
    changes = [found.change for found in rounds]
    assert changes[0] == np.inf and all(np.diff(changes) < 0) and changes[-1] < 0.01
    enough = estimated(made, pixelization, max_rounds=20, tolerance=1.01 * changes[2])
    assert enough.rounds == 3 and enough.change == changes[2] and enough.maps_converged


def test_reference_noise_has_its_spectrum_in_whatever_pieces():
    made = scans(8000)
    models = estimated([made], Healpix(8, nest=True), max_rounds=1).model_of
    drawn = DrawnStreams(2)
    noises = [ReferenceNoise(made, models, number, drawn) for number in range(30)]
    segments = WelchSegments(RATE, 1024, tuple(range(0, 2977, 512)))
    good, total = np.ones(4000, bool), 0.0
    for noise in noises:
        whole = np.zeros(8000)
        noise.add_signal(1, 0, 8000, whole)
        total = total + segments.power(whole[:4000], good)
    part = np.zeros(2000)
    noises[-1].add_signal(1, 3000, 5000, part)
    np.testing.assert_array_equal(part, whole[3000:5000])
    above = segments.frequencies > 0.5
    truth = noise_psd(models(made, 1, 0), segments.frequencies[above])
    assert total[above] / 30 == pytest.approx(truth, rel=0.3)
    assert (total[above] / 30 / truth).mean() == pytest.approx(1, abs=0.02)


def test_gains_do_not_enter_the_noise():
    made = scans(8000)
    pixels = np.stack([np.empty(8000, np.int32) for _ in range(4)])
    angles = np.empty((4, 8000), np.uint32)
    for detector in range(4):
        made.pointing.expand(Healpix(8, nest=True), detector, 0, 8000, pixels[detector], angles[detector])
    noise = replace(made, signals=made.signals[1:])
    found = []
    for gain in (1.0, 1e-6, 1e4):
        gains = np.full((4, 8000), gain, np.float32)
        pointing = RecordedPixels(pixels, NumberedPixels(768), angles=angles, gains=gains)
        known = replace(noise, pointing=pointing)
        found.append(models_of(known, NumberedPixels(768))(known, 1, 0))
    for other in found[1:]:
        np.testing.assert_allclose(other.values, found[0].values, rtol=1e-6)


def read(folder):
    return read_map(Path(folder) / "small_map.fits").values


def test_map_is_near_that_of_the_true_model(tmp_path):
    made = scans()
    chosen = {"map": {"n_side": 8}, "solver": {"tolerance": 1e-6}}
    maps = {}
    for kernel in ("model", "estimate", "white"):
        run_on([made], tmp_path / kernel, noise={"kernel": kernel, "n_lag": 200}, **chosen)
        maps[kernel] = read(tmp_path / kernel)
    noiseless = replace(made, signals=made.signals[:1])
    run_on([noiseless], tmp_path / "sky", noise={"kernel": "white"}, **chosen)
    # without the mean of I, which is a single draw of the slowest noise
    sky = read(tmp_path / "sky")
    errors = {kernel: np.nanstd(values - sky, axis=-1) for kernel, values in maps.items()}
    assert np.all(errors["estimate"] < 1.02 * errors["model"])
    assert np.all(errors["model"] < 0.5 * errors["white"])


def print_noise(comm):
    made = scans(6000)
    folder = comm.bcast(tempfile.mkdtemp())
    summary = run_on([made], folder, comm, noise={"kernel": "estimate", "n_lag": 50})
    if comm.rank == 0:
        print("FOUND", [product.sha256 for product in summary.products])


def test_any_number_of_ranks_finds_the_same(tmp_path):
    alone = run_on([scans(6000)], tmp_path, noise={"kernel": "estimate", "n_lag": 50})
    for n_ranks in (2, 3):
        assert (
            f"FOUND {[product.sha256 for product in alone.products]}" in run_ranks(print_noise, n_ranks).out
        )


def test_streams_too_short_are_refused_by_name():
    made = scans(60)
    with pytest.raises(DataError, match="good samples") as caught:
        models_of(made, Healpix(1, nest=True))
    assert "observation long, detector" in caught.value.where and "interval" in caught.value.where


def test_intervals_may_be_cut_for_the_estimate(tmp_path):
    summary = run_on([scans(6000)], tmp_path, noise={"kernel": "estimate", "n_lag": 50, "interval": 100.0})
    assert summary.solver.converged and summary.noise.rounds <= 5
    assert config(noise={"interval": 100.0}).noise.interval == 100.0
