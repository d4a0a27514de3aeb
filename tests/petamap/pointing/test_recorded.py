"""Tests of recorded pointing: pixel numbers, and antenna logs of real scans."""

import gzip
from pathlib import Path

import healpy
import numpy as np
import pytest

from petacomm.base.errors import DataError
from petamap.pointing import quaternion
from petamap.pointing.antenna import boresight_from_log, read_antenna_log
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.car import CarPatch
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels

LOGS = Path(__file__).parents[3] / "../shared/data/aste_deshima"
ARCSEC = np.pi / 180 / 3600


def log_path(name):
    path = LOGS / f"{name}.ant.gz"
    if not path.is_file():
        pytest.skip("the recorded scans are not available")
    return path


def expanded(pointing, n_pix, detector, start, stop):
    n = stop - start
    out = np.empty(n, np.int32), np.empty(n, np.uint32), np.empty(n, np.float32)
    pointing.expand(NumberedPixels(n_pix), detector, start, stop, *out)
    return out


def test_pixels_from_arrays_and_functions():
    table = np.arange(30).reshape(2, 15) % 7
    gains = np.linspace(0, 1, 30, dtype=np.float32).reshape(2, 15)
    for given in (table, table.tolist(), lambda d, a, b: table[d, a:b]):
        shape = {"n_det": 2, "n_samp": 15} if callable(given) else {}
        pointing = RecordedPixels(given, NumberedPixels(7), gains=gains, **shape)
        pixels, angles, weights = expanded(pointing, 7, 1, 3, 9)
        np.testing.assert_array_equal(pixels, table[1, 3:9])
        np.testing.assert_array_equal(weights, gains[1, 3:9])
        assert not angles.any() and pointing.has_gains and pointing.efficiency(1) == 0
    assert not RecordedPixels(table, NumberedPixels(7)).has_gains


def test_errors_name_the_sample():
    table = np.zeros((2, 9), int)
    table[1, 5] = 12
    with pytest.raises(DataError, match="detector 1, sample 5: pixel 12 of 12"):
        expanded(RecordedPixels(table, NumberedPixels(12)), 12, 1, 2, 9)
    gains = np.ones((2, 9))
    gains[0, 4] = np.nan
    with pytest.raises(DataError, match="detector 0, sample 4"):
        expanded(RecordedPixels(0 * table, NumberedPixels(12), gains=gains), 12, 0, 0, 9)
    with pytest.raises(DataError, match="no directions"):
        RecordedPixels(table, NumberedPixels(13)).directions(0, 0, 1)
    with pytest.raises(DataError, match="shape"):
        RecordedPixels(table, NumberedPixels(13), gains=gains[:, :4])
    with pytest.raises(DataError, match="samples"):
        expanded(RecordedPixels(table, NumberedPixels(20)), 20, 0, 5, 10)


def test_the_order_of_recorded_pixels_is_that_of_the_map():
    ring, nest = Healpix(4), Healpix(4, nest=True)
    numbers = np.arange(-1, 192)[None]
    for given, wanted, converted in (
        (ring, nest, healpy.ring2nest(4, numbers[0, 1:])), (nest, ring, healpy.nest2ring(4, numbers[0, 1:])),
        (ring, ring, numbers[0, 1:]),
    ):  # fmt: skip
        pixels = np.empty(193, np.int32)
        RecordedPixels(numbers, given).expand(wanted, 0, 0, 193, pixels, None)
        assert pixels[0] == -1
        np.testing.assert_array_equal(pixels[1:], converted)


@pytest.mark.parametrize("wanted", [Healpix(8), NumberedPixels(192), CarPatch.box((0, 0), (2, 2), 1)])
def test_recorded_pixels_are_mapped_on_no_others(wanted):
    pointing = RecordedPixels(np.zeros((1, 5), np.int32), Healpix(4))
    with pytest.raises(DataError, match=r"as healpix .*the map has .*map on the pixels that were recorded"):
        pointing.expand(wanted, 0, 0, 5, np.empty(5, np.int32), None)


def test_orion_raster_against_commanded_positions():
    path = log_path("20171113070539")
    antenna = read_antenna_log(path)
    text = gzip.decompress(path.read_bytes()).decode()
    rows = [row.split() for row in text.splitlines() if not row.startswith("#")][:-1]
    commanded = np.radians([[float(v) for v in row[1:3]] for row in rows])
    x, y, z = quaternion.rotate(antenna.quaternions("sky"), [0, 0, 1.0]).T
    theta, phi = np.arctan2(np.hypot(x, y), z), np.arctan2(y, x)
    on = antenna.scanning
    assert on.sum() == 1640
    east = (phi - commanded[:, 0])[on] * np.cos(commanded[on, 1]) / ARCSEC
    north = (np.pi / 2 - theta - commanded[:, 1])[on] / ARCSEC
    # the log and our transformation differ in their treatment of aberration: a constant of up to 30"
    assert abs(east.mean()) < 35 and abs(north.mean()) < 35
    assert east.std() < 1.5 and north.std() < 1.5


def test_extent_of_the_mars_raster():
    antenna = read_antenna_log(log_path("20171111110002"))
    offsets = quaternion.rotate(antenna.quaternions("offset"), [0, 0, 1.0])[antenna.scanning] / ARCSEC
    for axis in (1, 2):
        assert np.abs(offsets[:, axis]).max() == pytest.approx(121, abs=2.5)
    boresight, bad = boresight_from_log(antenna, 160.0, track="offset")
    assert boresight.spacing == pytest.approx(16, rel=1e-6)
    assert 0.55 < bad.mean() < 0.95 and len(bad) == boresight.n_samp
    given = quaternion.rotate(boresight.quaternions(0, len(bad)), [0, 0, 1.0])[~bad] / ARCSEC
    assert np.abs(given[:, 1:]).max() < 125


def test_uranus_daisy_contains_a_slew():
    antenna = read_antenna_log(log_path("20171115052750"))
    distance = antenna.distance()[antenna.scanning] / ARCSEC
    assert distance.max() == pytest.approx(1113, abs=3)
    assert np.mean(distance < 65) > 0.9  # the daisy; the rest is a slew, to be cut by distance


HEADER = "#time ra-prg\n"


def written(tmp_path, *rows):
    path = tmp_path / "made.ant"
    path.write_text(HEADER + "".join(rows))
    return path


def row(second, kind="SCAN", real="30.5 40.5"):
    return f"2017111111{0:02d}{second:04.1f} 1 2 30.3 40.1 {real} 0 0 0 0 0 0 9.5 30 40 30 40 {kind}\n"


def test_flags_of_a_log(tmp_path):
    kinds = ["GRAD", "SCAN", "SCAN", "SCAN", "TRAN", "ACC", "SCAN", "SCAN"]
    rows = [row(0.1 * i, kind, "999 999" if i == 2 else "30.5 40.5") for i, kind in enumerate(kinds)]
    antenna = read_antenna_log(written(tmp_path, *rows, "209 " + "999 " * 17 + "END\n"))
    np.testing.assert_array_equal(antenna.scanning, [False, True, False, True, False, False, True, True])
    # encoder values minus the pointing model; the programmed values where these are missing
    np.testing.assert_allclose(np.degrees(antenna.azimuth), [30.2, 30.2, 30.0, 30.2] + [30.2] * 4)
    np.testing.assert_allclose(np.degrees(antenna.elevation), [40.4, 40.4, 40.0, 40.4] + [40.4] * 4)
    _, bad = boresight_from_log(antenna, 20.0)
    good = np.flatnonzero(~bad)
    np.testing.assert_array_equal(good, [2, 6, 12, 13, 14])


def test_gaps_in_a_log_are_bad(tmp_path):
    antenna = read_antenna_log(written(tmp_path, *(row(t) for t in (0.0, 0.1, 0.2, 0.3, 0.9, 1.0))))
    _, bad = boresight_from_log(antenna, 10.0)
    np.testing.assert_array_equal(np.flatnonzero(bad), [4, 5, 6, 7, 8])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(0.0), row(0.2), row(0.1)], r"made.ant:4: times do not increase"),
        ([row(0.0), "20171111110000.1 3 4\n"], r"made.ant:3: 3 columns"),
        ([row(0.0), row(0.1).replace("30.5", "x0.5")], r"made.ant:3: could not convert"),
        ([row(0.0), row(0.1).replace("20171111", "2017AA11")], r"made.ant:3: .* no time"),
        ([row(0.0)], "fewer than two rows"),
    ],
)
def test_invalid_logs(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        read_antenna_log(written(tmp_path, *rows))


def test_truncated_gzip(tmp_path):
    content = gzip.compress("".join(row(0.1 * i) for i in range(100)).encode())
    (tmp_path / "cut.ant.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="cannot be read"):
        read_antenna_log(tmp_path / "cut.ant.gz")
