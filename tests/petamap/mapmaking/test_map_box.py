"""Images as large as the data need: they hold all good samples, and are the same on any number of ranks."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from mpi import run_ranks
from small_systems import compressed

from petacomm.base.errors import DataError
from petacomm.mpi import SerialCommunicator
from petamap.data.config import MapOptions, open_sources, parse_config
from petamap.data.observation import read_flags
from petamap.mapmaking import map_box
from petamap.mapmaking.target import target_pixelization

DEGREE = np.pi / 180


def short(**changes):
    """Return a scan of a small part of the sky."""
    made = compressed(np.random.default_rng(0), n_samp=400, speed=5e-4, **changes)
    return replace(made, frame="equatorial")


@pytest.mark.parametrize("kind", ["car", "flat"])
def test_an_image_without_size_holds_all_samples(kind):
    one = short()
    target = target_pixelization(MapOptions(pixelization=kind, resolution=0.2 * DEGREE), [one])
    pixels = np.empty(one.n_samp, np.int32)
    for detector in range(one.n_det):
        one.pointing.expand(target, detector, 0, one.n_samp, pixels, None)
        assert pixels.min() >= 0
    assert target.n_pix < 10_000


@pytest.mark.parametrize("latitude", [-86, 84, 89])
def test_rows_end_at_a_pole(tmp_path, latitude):
    """The mean of directions lies nearer to the pole than the samples farthest from it."""
    text = f"""
[map]
pixelization = "car"
resolution = "30 arcmin"
[[source]]
kind = "raster"
n_det = 2
sample_rate = "10 Hz"
duration = "10 min"
latitude = "{latitude} deg"
width = "14 deg"
height = "10 deg"
row_spacing = "1 deg"
speed = "1 deg/s"
frame = "galactic"
"""
    config = parse_config(text, tmp_path / "pole.toml")
    (one,) = open_sources(config)
    target = target_pixelization(config.map, [one])
    assert np.abs(target.edges[1]).max() <= 90 + 0.25
    pixels = np.empty(one.n_samp, np.int32)
    for detector in range(one.n_det):
        one.pointing.expand(target, detector, 0, one.n_samp, pixels, None)
        assert pixels[read_flags(one, detector, 0, one.n_samp) == 0].min() >= 0


def test_flagged_samples_do_not_widen_an_image():
    class AllButTheFirst:
        def or_flags(self, detector, start, stop, out):
            out[max(0, 10 - start) :] = 1

    options = MapOptions(pixelization="flat", resolution=0.05 * DEGREE)
    few = replace(short(), flags=(AllButTheFirst(),))
    assert target_pixelization(options, [few]).n_pix < target_pixelization(options, [short()]).n_pix / 4

    class All:
        def or_flags(self, detector, start, stop, out):
            out[:] = 1

    with pytest.raises(DataError, match="no good sample"):
        target_pixelization(options, [replace(short(), flags=(All(),))])


def test_samples_outside_intervals_do_not_widen_an_image():
    options = MapOptions(pixelization="flat", resolution=0.05 * DEGREE)
    few = replace(short(), intervals=((0, 5), (7, 10)))
    assert target_pixelization(options, [few]).n_pix < target_pixelization(options, [short()]).n_pix / 4


RASTER = """
[map]
pixelization = "{kind}"
resolution = "30 arcmin"
[[source]]
kind = "raster"
n_observations = 3
n_det = 5
sample_rate = "10 Hz"
duration = "10 min"
latitude = "-60 deg"
width = "14 deg"
height = "10 deg"
row_spacing = "1 deg"
speed = "1 deg/s"
frame = "galactic"
"""


def raster(kind):
    config = parse_config(RASTER.format(kind=kind))
    return config.map, open_sources(config)


def check_ranks(comm):
    for kind in ("car", "flat"):
        options, observations = raster(kind)
        expected = map_box.map_box(options, observations, SerialCommunicator())
        with mock.patch.object(map_box, "read_flags", wraps=read_flags) as read:
            assert map_box.map_box(options, observations, comm, n_threads=2) == expected
        assert comm.sum(read.call_count) == sum(one.n_det for one in observations)


def check_damage(comm):
    class Damaged:
        def or_flags(self, detector, start, stop, out):
            if detector == 4:
                raise DataError("is damaged", where=f"detector {detector}")

    options, observations = raster("flat")
    observations[1] = replace(observations[1], flags=(Damaged(),))
    with pytest.raises(DataError, match="detector 4: is damaged"):
        map_box.map_box(options, observations, comm)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("check", [check_ranks, check_damage])
def test_ranks_look_at_their_share_and_find_the_same(check, n_ranks):
    run_ranks(check, n_ranks)


@pytest.mark.parametrize("kind", ["car", "flat"])
def test_few_samples_of_many_detectors_find_what_many_do(kind, monkeypatch):
    options, observations = raster(kind)
    centre, size = map_box.map_box(options, observations, SerialCommunicator())
    monkeypatch.setattr(map_box, "_OF_ALL", 16 * 15)
    few_centre, few_size = map_box.map_box(options, observations, SerialCommunicator())
    np.testing.assert_allclose(few_centre, centre, rtol=0, atol=1.5)
    np.testing.assert_allclose(few_size, size, rtol=0, atol=2)
    assert few_size != size
