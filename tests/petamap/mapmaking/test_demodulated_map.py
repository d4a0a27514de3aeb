"""The map of demodulated streams of a run: its sky, its templates, its bits on any ranks, its errors."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from cases import cases
from mpi import check_same_on_ranks

from petacomm.base.errors import ConfigError
from petacomm.base.progress import SilentProgress
from petacomm.mpi import SerialCommunicator
from petamap.data.config import open_sources, parse_config
from petamap.data.observation import read_flags, read_signal
from petamap.mapmaking.demodulated_map import demodulated_observations, demodulated_system
from petamap.mapmaking.filter_and_bin import FilterAndBin
from petamap.mapmaking.right_hand_side import right_hand_side
from petamap.mapmaking.run import run
from petamap.mapmaking.setup import RunSetup
from petamap.sky.map_file import read_map

FIELD = """
[run]
name = "field"
[map]
pixelization = "flat"
resolution = "1 deg"
frame = "equatorial"
[solver]
tolerance = 1e-8
[products]
sky = true
demodulated = true
report = false
[demodulation]
bandwidth = "1.5 Hz"
dilate = false
[[source]]
kind = "ground"
n_det = 4
spacing = "1 deg"
sample_rate = "25 Hz"
duration = "4 min"
azimuth_min = "172 deg"
azimuth_max = "188 deg"
hwp_frequency = "2.5 Hz"
[[source]]
kind = "sky-spectra"
n_side = 64
fwhm = "3 deg"
interpolation = "bilinear"
scale = 10.0
"""
OFFSETS = """
[[source]]
kind = "offsets"
simulate = "1 mK"
"""
SLOW = """
[[source]]
kind = "time-constants"
tau = "20 ms"
simulate = true
[[source]]
kind = "noise"
net = "60 uK s^0.5"
fknee = "0.5 Hz"
fmin = "10 mHz"
[[source]]
kind = "time-constants"
tau = "20 ms"
dilate = false
"""
QUIET = """
[[source]]
kind = "noise"
net = "1 uK s^0.5"
scale = 0.0
"""


def configured(text):
    return parse_config(text, Path("field.toml"))


def products(config, out, comm=None):
    found = {product.kind: product for product in run(config, out=out, comm=comm).products}
    return found, lambda kind: read_map(out / found[kind].file).values


def test_a_sky_within_the_band_is_recovered(tmp_path):
    found, values = products(configured(FIELD + QUIET), tmp_path)
    assert found["demodulated"].name == "map of demodulated streams"
    sky, streams = values("sky"), values("demodulated")
    good = np.isfinite(streams).all(axis=0) & (values("hits")[0] > 200)
    assert good.sum() > 20
    # where their samples fall in a pixel differs
    error = (streams - sky)[:, good].std(axis=1) / sky[:, good].std(axis=1)
    assert (error < 0.03).all()


def test_streams_of_detectors_that_see_a_sky_see_it_themselves():
    whole = FIELD.replace(
        "scale = 10.0", 'scale = 10.0\n[[source]]\nkind = "demodulation"\nbandwidth = "1.5 Hz"'
    )
    ground, sky = (
        whole[: whole.index('[[source]]\nkind = "sky')],
        whole[whole.index('[[source]]\nkind = "sky') :],
    )
    source = sky[sky.index('[[source]]\nkind = "demod') :]
    seen, direct = (
        open_sources(configured(text))[0] for text in (whole, ground + source + "\n" + sky[: -len(source)])
    )
    for stream in range(6):
        good = read_flags(seen, stream, 0, seen.n_samp) == 0
        one, other = (read_signal(each, stream, 0, seen.n_samp)[good] for each in (seen, direct))
        assert good.sum() > 200
        if stream % 3 == 0:
            largest = np.abs(other).max()  # of I, which polarization has twice the rejection of
        assert np.abs(one - other).max() < 1e-3 * largest  # kinks between pixels have high frequencies


def setup_of(text):
    config = configured(text)
    setup = RunSetup(config, SerialCommunicator(), SilentProgress())
    setup.open(open_sources)
    setup.system = setup.set_up()
    return setup


def system_of(text):
    setup = setup_of(text)
    return demodulated_system(setup, demodulated_observations(setup))


def test_templates_are_fitted_to_intensity_alone():
    setup = setup_of(FIELD + OFFSETS + QUIET)
    streams = demodulated_observations(setup)
    (template,) = streams[0].templates
    assert [template.concerns(stream, 0, 100) for stream in range(4)] == [True, False, False, True]
    system = demodulated_system(setup, streams)
    solution = FilterAndBin(system).solution()
    assert (np.abs(solution.gaps) > 1e-5).sum() == 4
    bare = FilterAndBin(system_of(FIELD + QUIET)).map_of_data()
    found = FilterAndBin(system).map_of_data()
    good = np.isfinite(bare).all(axis=1)
    # offsets are at 4 f in streams of polarization, where nothing is let through
    np.testing.assert_allclose(found[good, 1:], bare[good, 1:], rtol=0, atol=1e-6)


def test_maps_of_noise_have_the_chi_squared_of_their_unknowns():
    text = (
        FIELD[: FIELD.index('[[source]]\nkind = "sky')]
        .replace("sky = true", "")
        .replace("demodulated = true", "")
    )
    text += SLOW[SLOW.index('[[source]]\nkind = "noise') : SLOW.rindex("[[source]]")]
    text += '[[source]]\nkind = "demodulation"\nbandwidth = "1.5 Hz"\ndilate = false\n'
    found = []
    for seed in range(6):
        setup = setup_of(text.replace('name = "field"', f'name = "field"\nseed = {seed}'))
        system = setup.system
        rhs = right_hand_side(system).unknowns
        solution = system.solver().solve(rhs, 1e-8, 500)
        alive = ~system.statistics.dead
        found.append((rhs.pixels[alive] * solution.map.pixels[alive]).sum() / (3 * alive.sum()))
    assert np.mean(found) == pytest.approx(1, abs=4 * np.sqrt(2 / (6 * 3 * alive.sum())))


def test_a_run_without_a_plate_says_so_before_it_begins(tmp_path):
    text = FIELD.replace('hwp_frequency = "2.5 Hz"', "")
    with pytest.raises(ConfigError, match="there is no half-wave plate to demodulate"):
        run(configured(text + QUIET), out=tmp_path)
    assert not list(tmp_path.glob("*.fits"))
    twice = FIELD + QUIET + '[[source]]\nkind = "demodulation"\n'
    with pytest.raises(ConfigError, match="is demodulated already"):
        run(configured(twice), out=tmp_path)


def _sums(comm):
    with tempfile.TemporaryDirectory() as folder:
        found, _ = products(configured(FIELD + SLOW + OFFSETS), Path(comm.bcast(folder)), comm)
        bits = [found[kind].sha256 for kind in ("demodulated", "map") if kind in found]
        return comm.allgather(bits)[0]


@pytest.mark.parametrize("n_ranks", cases(3, long=(2,)))
def test_ranks_do_not_change_a_bit(n_ranks):
    check_same_on_ranks(_sums, n_ranks)
