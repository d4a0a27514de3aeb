"""Signals of templates with amplitudes that are drawn."""

import numpy as np
import pytest
from made_scans import ground

from petacomm.base.errors import ConfigError
from petamap import parse_config, read_map, run
from petamap.data.config import open_sources
from petamap.data.observation import read_signal
from petamap.data.run_summary import Summary
from petamap.report.amplitude_data import read_amplitude_data


def opened(options):
    more = f'[[source]]\nkind = "azimuth-synchronous"\norder = 2\n{options}\n'
    return open_sources(ground(more=more))


def test_the_signal_is_that_of_the_template():
    (observation,) = opened('simulate = "1 K"\ndrift = "30 s"')
    start, stop = observation.intervals[0]
    matrix = observation.templates[0].term(observation, start, stop).matrix(0, stop - start).toarray()
    signals = [observation.signals[-1]]
    for detector in range(2):
        whole = np.zeros(stop - start)
        signals[0].add_signal(detector, start, stop, whole)
        found = np.linalg.lstsq(matrix, whole, rcond=None)[0]
        assert np.abs(matrix @ found - whole).max() < 1e-9 and 0.3 < np.std(found) < 2
        part = np.zeros(100)
        signals[0].add_signal(detector, start + 57, start + 157, part)
        np.testing.assert_array_equal(part, whole[57:157])


def test_amplitudes_in_common_are_drawn_once():
    (one,) = opened('simulate = "1 K"\nall_detectors = true')
    (own,) = opened('simulate = "1 K"')
    values = [
        [read_signal(each, d, 0, 500) - read_signal(opened("")[0], d, 0, 500) for d in (0, 1)]
        for each in (one, own)
    ]
    np.testing.assert_allclose(values[0][0], values[0][1], rtol=0, atol=1e-12)
    assert np.abs(values[1][0] - values[1][1]).max() > 0.1


def test_what_is_not_solved_for_is_no_template():
    (one,) = opened('simulate = "1 K"\nsolve = false')
    assert not one.templates and len(one.signals) == 1 + len(opened("solve = false")[0].signals)


CONFIG = """
[run]
name = "field"
[map]
pixelization = "flat"
resolution = "1 deg"
frame = "equatorial"
[noise]
kernel = "{kernel}"
[solver]
tolerance = 1e-9
[products]
sky = true
[[source]]
kind = "ground"
n_det = 6
spacing = "2 deg"
sample_rate = "10 Hz"
duration = "10 min"
n_observations = 2
azimuth_min = "170 deg"
azimuth_max = "190 deg"
net = "60 uK s^0.5"
[[source]]
kind = "sky-spectra"
n_side = 32
[[source]]
kind = "noise"
[[source]]
kind = "azimuth-synchronous"
order = 2
{simulate}
"""


def test_the_map_has_none_of_it(tmp_path):
    maps = []
    for simulate in ("", 'simulate = "1 mK"'):
        run(parse_config(CONFIG.format(kernel="model", simulate=simulate)), out=tmp_path / str(len(maps)))
        maps.append(read_map(tmp_path / str(len(maps)) / "field_map.fits").values)
    np.testing.assert_allclose(maps[1], maps[0], rtol=0, atol=1e-4 * np.nanstd(maps[0]))
    (told,) = read_amplitude_data(Summary.read(tmp_path / "1"), tmp_path / "1")
    assert told["name"] == "azimuth-synchronous" and told["unit"] == "K_CMB" and told["n"] == 2 * 2 * 6
    assert len(told["detectors"]) == 6 and 0.5e-3 < np.mean(told["rms"]) < 1.5e-3
    sky = read_map(tmp_path / "0/field_sky.fits").values
    assert 1e-5 < np.nanstd(sky[0]) < 2e-4 and np.array_equal(np.isnan(sky), np.isnan(maps[0]))


def test_the_estimate_of_the_noise_has_none_of_it(tmp_path):
    """Pickup of 1 K must not be noise of the first round."""
    lags = []
    for number, simulate in enumerate(("", 'simulate = "1 K"')):
        summary = run(
            parse_config(CONFIG.format(kernel="estimate", simulate=simulate)), out=tmp_path / str(number)
        )
        lags.append(summary.noise.n_lag)
    assert lags[0] == lags[1]


def test_the_sky_needs_a_source(tmp_path):
    text = CONFIG.format(kernel="model", simulate="").replace(
        'kind = "sky-spectra"\nn_side = 32', 'kind = "noise"'
    )
    with pytest.raises(ConfigError, match="no source simulates a sky"):
        run(parse_config(text), out=tmp_path)
