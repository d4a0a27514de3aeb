"""Bands of a run's streams: each by its own noise, the same on any ranks, and told."""

import tempfile
from dataclasses import replace

import numpy as np
import pytest
from cases import cases
from mpi import run_ranks
from small_runs import config, noisy_scans, run_on, sha_of
from small_systems import Models, make_system

from petacomm.base.errors import ConfigError, DataError
from petamap.mapmaking.bands import planned_bands, stream_bands
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.band import LOSS, choose_band
from petamap.noise.model import InverseLags, OneOverF
from petamap.noise.toeplitz import inverse_lags
from petamap.sky.healpix import Healpix

SLOW, FAST = OneOverF(1e-3, 0.5, 0.1, -1.5), OneOverF(1e-3, 0.5, 0.3, -1.5)
WHITE, GIVEN = OneOverF(1e-3), InverseLags(np.array([1e6, -3e5, 1e5]))
MIXED = Models(((SLOW,), (FAST,), (WHITE,), (GIVEN,)))


def mixed(noise=MIXED, n_samp=2000):
    return [replace(one, noise=noise) for one in noisy_scans(n_samp)]


def test_each_stream_has_the_band_of_its_noise():
    made = mixed()
    found = stream_bands(made, "auto")
    layout = TimeLayout(made, found.n_lag)
    lags = found.lags.of(np.arange(len(layout.streams)))
    for stream, n_lag in zip(layout.streams, lags, strict=True):
        one = made[stream.observation]
        model = one.noise.noise_model(stream.detector, stream.interval)
        assert n_lag == choose_band(model, one.sample_rate, stream.stop - stream.start).n_lag
    slow, fast, white, given = lags[:4]
    assert slow > fast > 2 == given > white == 0 == found.shortest
    assert 0 < found.loss <= LOSS
    assert found.describe().startswith(f"0 to {slow:,} lags: at most 0.0")


def test_shorter_bands_do_not_depend_on_longer_ones():
    made = mixed()
    bands = stream_bands(made, "auto")
    system = make_system(made, Healpix(4, nest=True), n_lag=bands.n_lag, stream_lags=bands.lags)
    for segment, kernel in zip(system.projection.local.segments, system.noise.kernel_of, strict=True):
        stream = system.layout.streams[segment.stream]
        one, n_lag = made[stream.observation], int(bands.lags.of(np.array([segment.stream]))[0])
        expected = np.zeros(bands.n_lag + 1)
        model = one.noise.noise_model(stream.detector, stream.interval)
        expected[: n_lag + 1] = inverse_lags(model, one.sample_rate, n_lag)
        np.testing.assert_array_equal(system.noise.lags[kernel], expected)


def test_a_number_gives_the_bits_of_the_choice(tmp_path):
    made = [replace(one, intervals=((0, one.n_samp),)) for one in mixed(Models(((SLOW,),)))[:1]]
    chosen = run_on(made, tmp_path / "auto", noise={"n_lag": "auto"})
    n_lag = chosen.noise.n_lag - 1
    given = run_on(made, tmp_path / "given", noise={"n_lag": n_lag})
    assert sha_of(given) == sha_of(chosen)
    assert given.noise == chosen.noise
    assert chosen.noise.shortest == n_lag + 1 and chosen.noise.loss <= LOSS
    shorter = run_on(made, tmp_path / "shorter", noise={"n_lag": 3})
    assert shorter.noise.loss > 10 * LOSS and shorter.noise.misstated > 0.2
    assert not any("longest band" in text for text in shorter.warnings)


def test_white_noise_has_no_lags(tmp_path):
    made = mixed(Models(((WHITE,),)))
    found = run_on(made, tmp_path / "auto", noise={"n_lag": "auto"})
    assert found.noise.n_lag == 1 and found.noise.loss == 0
    white = run_on(made, tmp_path / "white", noise={"kernel": "white"})
    assert sha_of(found) == sha_of(white) and white.noise.loss is None


def test_noise_slower_than_any_band_is_warned_of(tmp_path):
    made = mixed(Models(((OneOverF(1e-3, 0.5, 0.0, -2.0),),)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("petamap.noise.band._LENGTHS", [4])
        summary = run_on(made, tmp_path, noise={"n_lag": "auto", "interval": 29.0})
    (warning,) = (text for text in summary.warnings if "longest band" in text)
    assert "4 lags: at most" in warning and "shorter noise.interval" in warning


def found_by(comm, folders):
    for folder, kernel in zip(folders, ("model", "estimate"), strict=True):
        chosen = {"noise": {"n_lag": "auto", "kernel": kernel}, "solver": {"max_iterations": 4}}
        summary = run_on(mixed(), folder, comm, **chosen)
        yield f"FOUND {kernel} {summary.noise} {sha_of(summary) if summary.products else None}"


def print_bands(comm):
    for line in found_by(comm, comm.bcast([tempfile.mkdtemp() for _ in range(2)])):
        if comm.rank == 0:
            print(line)


@pytest.mark.parametrize("n_ranks", cases(5, long=(2,)))
def test_any_number_of_ranks_chooses_the_same(tmp_path, n_ranks):
    out = run_ranks(print_bands, n_ranks).out
    alone = found_by(None, (tmp_path / "model", tmp_path / "estimate"))
    assert all(line in out for line in alone)


def test_plans_know_the_bands_where_the_data_need_not_be_read():
    made = mixed()
    planned = planned_bands(config(noise={"n_lag": "auto"}), made)
    every = np.arange(len(planned.lags.streams))
    assert np.array_equal(planned.lags.of(every), stream_bands(made, "auto").lags.of(every))
    assert planned_bands(config(noise={"n_lag": "auto", "kernel": "white"}), made).n_lag == 0
    unknown = planned_bands(config(noise={"n_lag": "auto", "kernel": "estimate"}), made)
    assert unknown.loss is None and unknown.n_lag == 1077  # the longest interval
    assert unknown.describe() == "256 to 1,077 lags"
    bare = [replace(one, noise=None) for one in made]
    assert planned_bands(config(noise={"n_lag": 77}), bare).n_lag == 77
    with pytest.raises(ConfigError, match="no source gives the noise"):
        stream_bands(bare, "auto")


def test_wrong_models_are_named():
    wrong = mixed(Models(((SLOW,), (OneOverF(-1.0, 0.5, 0.1),))))
    for n_lag in ("auto", 10):
        with pytest.raises(DataError, match="net is -1") as caught:
            stream_bands(wrong, n_lag)
        assert wrong[0].detectors[1] in caught.value.where
