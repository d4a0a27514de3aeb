"""Tests of noise from files: spectra, lags of columns, MADmap's files; and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

import petamap
from petacomm.base.errors import ConfigError, DataError
from petamap.data.config import open_sources, parse_config
from petamap.data.formats.madmap1_write import write_madmap1
from petamap.data.formats.noise_table import NoiseTableOptions, NoiseTableSource
from petamap.data.observation import DetectorNoise, Observation
from petamap.data.source import SourceContext
from petamap.noise.model import InverseLags, OneOverF
from petamap.noise.psd import noise_psd
from petamap.noise.toeplitz import inverse_lags
from petamap.pointing.recorded import RecordedPixels
from petamap.simulation.noise import SimulatedNoise
from petamap.sky.healpix import Healpix

N = 64
MODELS = {"A": OneOverF(1e-3, 0.1, 1e-3, -1.0), "B": OneOverF(2e-3, 0.3, 1e-3, -1.5)}


def observation(name="night", n_samp=N, detectors=("A", "B")):
    return Observation(
        name=name, uid=1, n_samp=n_samp, sample_rate=5.0, detectors=detectors, intervals=((0, n_samp),)
    )


def read(path: Path, *observations, places=None, **options):
    source = NoiseTableSource(
        NoiseTableOptions(path=path.name, **options), SourceContext(path.parent, places=places or {})
    )
    return source.extend(observations or [observation()])


def write(path: Path, columns) -> Path:
    rows = zip(*columns.values(), strict=True)
    text = [",".join(columns), *(",".join(repr(float(x)) for x in row) for row in rows)]
    path.write_text("\n".join(text))
    return path


def spectra():
    frequencies = np.geomspace(1e-3, 2.5, 30)
    return {"frequency": frequencies} | {
        f"psd_{name}": noise_psd(model, frequencies) for name, model in MODELS.items()
    }


def lag_columns(n_lag=12):
    return {f"lags_{name}": inverse_lags(model, 5.0, n_lag) for name, model in MODELS.items()}


@pytest.mark.parametrize("suffix", [".csv", ".fits"])
def test_spectra_of_detectors(tmp_path, suffix):
    columns, path = spectra(), tmp_path / f"noise{suffix}"
    if suffix == ".fits":
        made = [fits.Column(name, "D", array=values) for name, values in columns.items()]
        fits.BinTableHDU.from_columns(made).writeto(path)
    else:
        write(path, columns)
    (one,) = read(path, observation(detectors=("B", "A")), psd="psd_*", scale=4.0)
    for detector, name in enumerate("BA"):
        model = one.noise.noise_model(detector, 0)
        assert np.array_equal(model.frequencies, columns["frequency"])
        np.testing.assert_allclose(model.values, 4 * columns[f"psd_{name}"], rtol=1e-15)
    (one,) = read(path, psd="psd_A")
    assert one.noise.noise_model(1, 0) is one.noise.noise_model(0, 0)


def test_lags_of_detectors_without_zeros_at_the_end(tmp_path):
    columns = lag_columns()
    columns["lags_A"] = np.concatenate([inverse_lags(MODELS["A"], 5.0, 5), np.zeros(7)])
    (one,) = read(write(tmp_path / "noise.csv", columns), lags="lags_*", scale=4.0)
    a, b = (one.noise.noise_model(detector, 0) for detector in (0, 1))
    np.testing.assert_allclose(a.lags, columns["lags_A"][:6] / 4, rtol=1e-15)
    np.testing.assert_allclose(b.lags, columns["lags_B"] / 4, rtol=1e-15)


def test_chosen_observations_alone_get_it(tmp_path):
    path = write(tmp_path / "noise.csv", lag_columns())
    found = read(path, observation("day"), observation("night"), lags="lags_*", observations=("night",))
    assert found[0].noise is None and found[1].noise is not None


def filters(folder: Path, observations):
    """Write MADmap's files of observations."""
    pixels = RecordedPixels(np.zeros((2, N), np.int32), Healpix(1, nest=True))
    noise = DetectorNoise(tuple(InverseLags(inverse_lags(model, 5.0, 8)) for model in MODELS.values()))
    made = [dataclasses.replace(one, pointing=pixels, noise=noise) for one in observations]
    folder.mkdir()
    write_madmap1(folder.parent / "stream.tod", folder, made, Healpix(1, nest=True))
    return folder, noise


def test_files_of_madmap(tmp_path):
    two = [observation("day"), observation("night")]
    path, noise = filters(tmp_path / "filters", two)
    for one in read(path, *two):
        for detector in range(2):
            model = one.noise.noise_model(detector, 0)
            assert np.array_equal(model.lags, noise.noise_model(detector, 0).lags)
    with pytest.raises(
        DataError, match=r"4 inverse-noise files for 6 detectors of 3 observations \(one a det"
    ):
        read(path, *two, observation("more"))
    with pytest.raises(DataError, match=r"invntt.2, detector A: is of 64 samples, observation more has 65"):
        read(path, two[0], observation("more", N + 1))
    once, _ = filters(tmp_path / "once", two[:1])
    assert all(np.array_equal(one.noise.noise_model(1, 0).lags, model.lags) for one in read(once, *two))


def test_a_run_knows_the_noise_that_the_table_tells(tmp_path):
    write(tmp_path / "noise.csv", {"frequency": spectra()["frequency"], "psd": spectra()["psd_A"]})
    text = '[map]\nn_side = 8\n[[source]]\nkind = "satellite"\nn_det = 2\n'
    text += 'sample_rate = "1 Hz"\nduration = "1 h"\n'
    text += '[[source]]\nkind = "noise-table"\npath = "noise.csv"\npsd = "psd"\n'
    text += '[[source]]\nkind = "noise"\n'
    (one,) = open_sources(parse_config(text, tmp_path / "run.toml"))
    assert np.array_equal(one.noise.noise_model(1, 0).values, spectra()["psd_A"]) and len(one.signals) == 1


def three(name="night", uid=1):
    """Return an observation of three intervals."""
    intervals = ((0, 4000), (4000, 8000), (8500, 12_000))
    return Observation(
        name=name, uid=uid, n_samp=12_000, sample_rate=5.0, detectors=("A", "B"), intervals=intervals
    )


NIGHT = {"net_A": [1e-3, 2e-3, 4e-3], "net_B": [5e-3, 6e-3, 7e-3], "knee": [0.1, 0.2, 0.3]}


@pytest.mark.parametrize("suffix", [".csv", ".fits"])
def test_noise_of_intervals(tmp_path, suffix):
    path = write(tmp_path / "night.csv", NIGHT)
    if suffix == ".fits":
        path = tmp_path / "night.fits"
        columns = [fits.Column(name, "D", array=values) for name, values in NIGHT.items()]
        fits.BinTableHDU.from_columns(columns).writeto(path)
    (one,) = read(path, three(), net="net_*", fknee="knee", scale=4.0)
    for interval, knee in enumerate(NIGHT["knee"]):
        for detector, name in enumerate("AB"):
            found = one.noise.noise_model(detector, interval)
            assert found == OneOverF(2 * NIGHT[f"net_{name}"][interval], knee, 0.0, -1.0)
    both = read(path, three(), three("day", 2), net="net_*")  # the same rows for each
    assert all(day.noise.noise_model(0, 2) == OneOverF(4e-3) for day in both)
    twice = write(tmp_path / "twice.csv", {"net": np.arange(1, 7.0), "slope": -np.arange(1, 7.0) / 4})
    first, second = read(twice, three(), three("day", 2), net="net", alpha="slope", fknee="", fmin="")
    assert second.noise.noise_model(1, 0) == OneOverF(4.0, alpha=-1.0)
    assert first.noise.noise_model(1, 2) == OneOverF(3.0, alpha=-0.75)


def test_simulated_noise_and_weights_differ_by_interval(tmp_path):
    (one,) = read(write(tmp_path / "night.csv", NIGHT), three(), net="net_*")
    noise = SimulatedNoise(one, one.noise, seed=1, realization=0)
    drawn = np.zeros(one.n_samp)
    noise.add_signal(0, 0, one.n_samp, drawn)
    for (start, stop), net in zip(one.intervals, NIGHT["net_A"], strict=True):
        assert np.std(drawn[start:stop]) == pytest.approx(net * np.sqrt(5.0), rel=0.05)
    assert not drawn[8000:8500].any()
    pixels = np.arange(one.n_samp) % 12
    looks = RecordedPixels(np.stack([pixels, pixels]), Healpix(1, nest=True), efficiencies=[0.0, 0.0])
    day = dataclasses.replace(one, pointing=looks, signals=(noise,), frame="galactic")
    maps = petamap.make_map([day], n_side=1, stokes="I", progress=False)
    seen = [(start, stop, row) for start, stop in one.intervals for row in "AB"]
    weight = sum(
        (np.arange(start, stop) % 12 == 0).sum() / (5.0 * NIGHT[f"net_{row}"][k // 2] ** 2)
        for k, (start, stop, row) in enumerate(seen)
    )
    np.testing.assert_allclose(maps.covariance.values[0, 0], 1 / weight, rtol=1e-6)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"net_A": [1, 2, 0], "net_B": [1, 1, 1]}, r"csv:4, column net_A: is 0, not a positive number"),
        ({"net_A": [1, np.nan, 1], "net_B": [1, 1, 1]}, r"csv:3, column net_A: is nan, not a positive"),
        ({"net_A": [1, 1], "net_B": [1, 1]}, r"has 2 rows for 3 intervals of 1 observations \(a row an int"),
        ({"net_A": [1, 1, 1]}, "has no column 'net_B'"),
        (
            {"net_A": [1] * 3, "net_B": [1] * 3, "fknee": [0, 0, -1]},
            r"csv:4, column fknee: is -1, not a freq",
        ),
    ],
)
def test_what_are_no_parameters_is_told(tmp_path, columns, message):
    path = write(tmp_path / "night.csv", columns)
    with pytest.raises((ConfigError, DataError), match=message):
        read(path, three(), net="net_*", **({"fknee": "fknee"} if "fknee" in columns else {}))


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"lags": [1.0, 0.6, 0.6]},
            {"lags": "lags"},
            r"noise.csv, column lags: its lags have a negative spec",
        ),
        ({"lags": [-1.0, 0.1]}, {"lags": "lags"}, "column lags: inverse noise at lag 0 is -1, not positive"),
        ({"lags": [0.0, 0.0]}, {"lags": "lags"}, "inverse noise at lag 0 is 0, not positive"),
        ({"lags": [1.0, np.nan]}, {"lags": "lags"}, "inverse noise lag at entry 1 is nan, not finite"),
        ({"frequency": [1.0, 2.0], "psd": [1.0, 0.0]}, {"psd": "psd"}, "PSD value at entry 1 is 0, not pos"),
        (
            {"frequency": [2.0, 1.0], "psd": [1.0, 1.0]},
            {"psd": "psd"},
            "PSD frequency at entry 1 is 1, not ab",
        ),
        ({"f": [1.0, 2.0], "psd": [1.0, 1.0]}, {"psd": "psd"}, "has no column 'frequency'"),
        ({"frequency": [1.0], "psd_A": [1.0]}, {"psd": "psd_*"}, "has no column 'psd_B'"),
    ],
)
def test_what_is_no_noise_is_told(tmp_path, columns, options, message):
    path = write(tmp_path / "noise.csv", columns)
    with pytest.raises(DataError, match=message):
        read(path, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"line: no column tells the noise \(give psd, lags or net"),
        ({"net": "a", "lags": "b"}, "line: lags is given beside net"),
        ({"psd": "a", "fknee": "b"}, "fknee without net"),
        ({"psd": "a", "lags": "b"}, "line: psd is given beside lags"),
        ({"psd": "a", "scale": 0.0}, "line: scale is 0, not positive"),
        ({"lags": "lags_*", "observations": ("dusk",)}, "line: no observation 'dusk'"),
    ],
)
def test_options_that_do_not_fit_are_told(tmp_path, options, message):
    path = write(tmp_path / "noise.csv", lag_columns())
    with pytest.raises(ConfigError, match=message):
        read(path, places=dict.fromkeys(("path", *options), "line"), **options)
