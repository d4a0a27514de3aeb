"""The ground example, made smaller: its sources, its gaps, and a real telescope's track."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from science_runs import GROUND, configured, maps
from scipy import stats

from petacomm.base.options import option
from petamap.data.config import load_config
from petamap.data.config.model import SourceConfig
from petamap.mapmaking.run import run
from petamap.simulation.point_sources import PointSourcesSource

LOGS = Path(__file__).parents[2] / "../shared/data/aste_deshima"
ARCMIN = np.pi / 180 / 60


def sources_of(config):
    """Return longitude, latitude, amplitude and fwhm of the sources injected, (n, 4)."""
    options = next(source.options for source in config.sources if source.kind == "point-sources")
    return PointSourcesSource(options, None)._table


def amplitudes(products, sources, pixel, radius):
    """Fit each source and a background to the map around it; return amplitudes and their white errors.

    A source is wider in the map than in the sky by the pixel, whose variance is size^2 / 12 along each axis.
    """
    directions = products["map"].pixelization.directions_of(np.arange(products["map"].pixelization.n_pix))
    values, weights = products["map"].values[0], 1 / products["covariance"].values[0]
    found = []
    for lon, lat, _, fwhm in sources:
        place = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
        distance = np.sqrt(2 * np.maximum(1 - directions @ place, 0))
        near = (distance < radius) & np.isfinite(values)
        beam = (fwhm / np.sqrt(8 * np.log(2))) ** 2
        seen = beam + pixel**2 / 12
        shape = beam / seen * np.exp(-(distance[near] ** 2) / (2 * seen))
        design = np.stack([shape, np.ones(near.sum())], axis=1)
        normal = design.T @ (weights[near, None] * design)
        amplitude = np.linalg.solve(normal, design.T @ (weights[near] * values[near]))[0]
        found.append((amplitude, np.sqrt(np.linalg.inv(normal)[0, 0])))
    return np.array(found).T


@pytest.mark.long
def test_sources_are_recovered_within_their_errors(tmp_path):
    """Errors come from maps of noise alone, fitted at the same places: chi-squared p > 0.001."""
    config = configured("ground", *GROUND)
    sources = sources_of(config)
    found, white = amplitudes(maps(config, tmp_path / "sky"), sources, ARCMIN, 12 * ARCMIN)
    empty = []
    for number in range(1, 6):
        alone = configured("ground", *GROUND, f"run.realization={number}", without=("point-sources",))
        empty.append(amplitudes(maps(alone, tmp_path / str(number)), sources, ARCMIN, 12 * ARCMIN)[0] / white)
    error = white * np.sqrt(np.mean(np.square(empty)))
    chi2 = float(np.sum(((found - sources[:, 2]) / error) ** 2))
    assert stats.f.sf(chi2 / len(sources), len(sources), np.size(empty)) > 0.001
    assert np.all(np.abs(found - sources[:, 2]) < 4 * error)
    assert found[0] > 15 * error[0]  # the errors do not excuse everything
    assert np.sqrt(np.mean(np.square(empty))) < 3  # nor are they far above those of white noise


@dataclasses.dataclass(frozen=True)
class Rubbish:
    """A signal that is wild wherever a sample is flagged, and nothing elsewhere."""

    flags: tuple

    def add_signal(self, detector, start, stop, out):
        bad = np.zeros(stop - start, np.uint8)
        for part in self.flags:
            part.or_flags(detector, start, stop, bad)
        where = np.flatnonzero(bad)
        out[where] += np.where(where % 2, 1e30, np.nan)


@dataclasses.dataclass(frozen=True)
class RubbishOptions:
    """Flagged samples become nan or 10^30."""

    scale: float = option(1.0, help="not used")


class RubbishSource:
    options = RubbishOptions

    def __init__(self, options, context):
        pass

    def extend(self, observations):
        return [dataclasses.replace(o, signals=(*o.signals, Rubbish(o.flags))) for o in observations]


@pytest.mark.parametrize("flags", cases("exact", long=("levels", "cut")))
def test_what_flagged_samples_hold_does_not_change_a_bit(tmp_path, monkeypatch, flags):
    module = types.ModuleType("rubbish")
    module.RubbishSource = RubbishSource
    monkeypatch.setitem(sys.modules, "rubbish", module)
    monkeypatch.setitem(sys.modules["petamap.data.source"]._KINDS, "rubbish", "rubbish:RubbishSource")
    short = ("source.0.duration=8 min", "solver.max_iterations=3")
    config = configured("ground", *GROUND, f"solver.flags={flags}", *short)
    spoilt = dataclasses.replace(config, sources=(*config.sources, SourceConfig("rubbish", RubbishOptions())))
    clean, dirty = (run(one, out=tmp_path / name) for one, name in ((config, "clean"), (spoilt, "dirty")))
    assert clean.totals.samples_flagged > 0.1 * clean.totals.samples
    assert [p.sha256 for p in clean.products] == [p.sha256 for p in dirty.products]


def test_a_detector_without_a_good_sample_is_told_and_left_out(tmp_path):
    summary = run(configured("ground", *GROUND, "solver.max_iterations=1"), out=tmp_path)
    assert any("no sample of detector 0001A makes the map" in text for text in summary.warnings)


def test_a_recorded_track_finds_the_source_put_into_it(tmp_path):
    """ASTE's raster of Mars, with detectors, noise and a source of ours."""
    log = LOGS / "20171111110002.ant.gz"
    if not log.is_file():
        pytest.skip("the recorded scans are not here")
    text = f"""
[run]
name = "aste"
[map]
pixelization = "flat"
resolution = "8 arcsec"
stokes = "I"
[noise]
n_lag = 256
[solver]
tolerance = 1e-9
[[source]]
kind = "recorded"
path = {json.dumps(str(log))}
track = "offset"
sample_rate = "160 Hz"
n_det = 7
spacing = "10 arcsec"
net = "200 uK s^0.5"
fknee = "1 Hz"
fmin = "10 mHz"
[[source]]
kind = "point-sources"
sources = ["10 arcsec, -20 arcsec, 2 mK, 30 arcsec"]
[[source]]
kind = "noise"
"""
    (tmp_path / "aste.toml").write_text(text)
    config = load_config(tmp_path / "aste.toml")
    products = maps(config, tmp_path / "out")
    found, white = amplitudes(products, sources_of(config), 8 / 60 * ARCMIN, 1.2 * ARCMIN)
    assert abs(found[0] - 2e-3) < 4 * white[0] and white[0] < 0.1e-3
