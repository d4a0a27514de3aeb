"""What `petamap check` expects a scan to see, against the system that a run sets up."""

from dataclasses import replace

import numpy as np
import pytest
from small_runs import run_on
from small_systems import compressed, make_system, recorded

from petamap.data.config import open_sources, parse_config
from petamap.mapmaking import coverage
from petamap.mapmaking.coverage import estimate_coverage
from petamap.mapmaking.target import prepare_observations
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import SampledPlate, UniformPlate
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels
from petamap.sky.stokes import Stokes

GRID = Healpix(8, nest=True)


@pytest.mark.parametrize("stokes", ["I", "QU", "IQU"])
@pytest.mark.parametrize("flagged", [0.0, 0.3])
def test_all_samples_find_what_the_run_finds(stokes, flagged):
    made = [compressed(np.random.default_rng(1), flagged=flagged), compressed(np.random.default_rng(2), 500)]
    made[1] = replace(made[1], name="other", uid=2, intervals=((10, 200), (300, 500)))
    made = [replace(one, noise=made[0].noise) for one in made]
    system = make_system(made, GRID, stokes=stokes, n_lag=8, rcond_min=0.2)
    found = estimate_coverage(made, GRID, Stokes(stokes), 0.2)
    hits, dead = system.statistics.hits, system.statistics.dead
    assert (found.n_pix, found.n_seen) == (GRID.n_pix, np.count_nonzero(hits))
    assert found.n_looked_at == found.n_samp == 4 * 2500
    # the run weighs detectors by their noise, which is nearly the same here
    assert abs(found.n_mapped - np.count_nonzero((hits > 0) & ~dead)) <= 0.05 * found.n_seen
    assert found.used == pytest.approx(hits[~dead].sum() / 10_000, abs=0.05)


@pytest.mark.parametrize("plate", [None, UniformPlate(0.2, 0.3), SampledPlate(0.3 * np.arange(2000))])
def test_some_of_many_samples(plate):
    one = compressed(np.random.default_rng(1))
    pointing = CompressedPointing(one.pointing.boresight, one.pointing.detectors, plate=plate)
    one = replace(one, pointing=pointing)
    whole, part = (estimate_coverage([one], GRID, Stokes.IQU, 1e-3, most) for most in (8000, 1000))
    assert (part.n_looked_at, part.n_samp, part.merged, part.n_pix) == (1000, 8000, 16, 48)
    assert whole.is_exact and not part.is_exact
    for name in ("n_seen", "n_mapped"):
        share, expected = getattr(part, name) / part.n_pix, getattr(whole, name) / whole.n_pix
        assert share == pytest.approx(expected, abs=0.25)
    assert part.used == pytest.approx(whole.used, abs=0.1)
    sparse = pointing.decimated(8)
    for detector in (0, 3):
        vectors, angles = sparse.directions(detector, 0, 250)
        np.testing.assert_allclose(
            vectors, pointing.directions(detector, 0, 2000)[0][::8], rtol=0, atol=1e-12
        )
        exact = pointing.directions(detector, 0, 2000)[1][::8]
        assert np.abs((angles - exact).astype(np.int32)).max() < 16


def test_recorded_pixels_and_pixels_outside():
    one = recorded(np.random.default_rng(3), n_samp=3000, n_pix=12, outside=0.5)
    found = estimate_coverage([one], NumberedPixels(12), Stokes.I, 0.0, 3000)
    assert found.n_seen == found.n_mapped == found.n_pix == 6 and found.n_looked_at == 3000
    assert found.used == pytest.approx(0.5, abs=0.1)


def test_a_run_that_uses_few_of_its_samples_says_so(tmp_path):
    one = recorded(np.random.default_rng(3), n_samp=3000, n_pix=12, flagged=0.4, outside=0.4)
    one = replace(one, intervals=((0, 2500),))
    summary = run_on([one], tmp_path, map={"pixelization": "numbered"}, noise={"n_lag": 5})
    (said,) = (text for text in summary.warnings if text.startswith("ONLY"))
    used = summary.totals.samples_used / 6000
    assert said.startswith(f"ONLY {used:.1%} OF THE SAMPLES MAKE THIS MAP: of 6,000 are ")
    assert "flagged or outside the map, 1,000 outside the stationary intervals" in said
    most = recorded(np.random.default_rng(3), n_samp=3000, n_pix=12, flagged=0.2)
    summary = run_on([most], tmp_path / "most", map={"pixelization": "numbered"}, noise={"n_lag": 5})
    assert not any(text.startswith("ONLY") for text in summary.warnings)


FIELD = """
[map]
n_side = 512
stokes = "I"
frame = "equatorial"
[[source]]
kind = "raster"
n_det = 1000
spacing = "2 arcmin"
sample_rate = "100 Hz"
duration = "40 day"
n_observations = 400
longitude = "40 deg"
latitude = "20 deg"
width = "12 deg"
height = "12 deg"
row_spacing = "4 arcmin"
speed = "2 deg/s"
acceleration = "2 deg/s^2"
turnarounds = "cut"
"""


def test_a_small_field_of_many_sweeps_is_found_from_few_of_its_observations(monkeypatch):
    config, looked = parse_config(FIELD), []
    observations = prepare_observations(config, open_sources(config))
    decimated = CompressedPointing.decimated
    monkeypatch.setattr(coverage, "_MOST_KNOTS", 1 << 18)
    monkeypatch.setattr(
        CompressedPointing, "decimated", lambda one, stride: looked.append(one) or decimated(one, stride)
    )
    found = estimate_coverage(observations, Healpix(512, nest=True), Stokes.I, 0.0, 1 << 20)
    assert 2 <= len(looked) < 20 and not found.is_exact and found.n_looked_at < 1 << 21
    field = (12 + 2 * 0.6) ** 2 / 41253  # with half of the field of view on each side
    assert 0.7 * field < found.n_seen / found.n_pix < 3 * field
