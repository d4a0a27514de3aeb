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
from petamap.mapmaking.noise_estimate import estimated_models
from petamap.mapmaking.system import SystemOptions
from petamap.noise.model import OneOverF
from petamap.noise.psd import noise_psd
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
    return estimated_models(
        [made],
        pixelization,
        SystemOptions(n_lag=100, **choices),
        comm or SerialCommunicator(),
        Timers(),
        SilentProgress(),
    )


def test_spectra_are_near_the_truth():
    made = scans()
    found = models_of(made, Healpix(8, nest=True))
    for detector in range(4):
        for interval in range(2):
            model = found(made, detector, interval)
            truth = noise_psd(made.noise.noise_model(detector, interval), model.frequencies)
            ratio = model.values / truth
            assert np.exp(np.mean(np.log(ratio))) == pytest.approx(1, abs=0.1)
            assert np.std(np.log(ratio[model.frequencies > 0.1])) < 0.2
            above = model.frequencies > 1
            # the noise of the binned map, 1/f stripes included, counts as well
            assert 0.95 < ratio[above].mean() < 1.15


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
    errors = {kernel: np.nanstd(values - read(tmp_path / "sky")) for kernel, values in maps.items()}
    assert errors["estimate"] < 1.05 * errors["model"] < 0.9 * errors["white"]


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
    assert summary.solver.converged
    assert config(noise={"interval": 100.0}).noise.interval == 100.0
