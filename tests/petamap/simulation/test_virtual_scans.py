"""Tests of sources of scans."""

import zlib
from pathlib import Path

import numpy as np
import pytest

from petacomm.base.errors import ConfigError, DataError
from petamap.data.source import SourceContext, source_class
from petamap.noise.model import OneOverF
from petamap.pointing import frames, quaternion
from petamap.sky.healpix import Healpix

LOGS = Path(__file__).parents[3] / "../shared/data/aste_deshima"
DEGREE = np.pi / 180


def observations(kind, folder=Path(), before=(), **options):
    source = source_class(kind)
    return source(source.options(**options), SourceContext(folder)).extend(before)


def bad_samples(observation):
    bad = np.zeros(observation.n_samp, np.uint8)
    for flags in observation.flags:
        flags.or_flags(0, 0, observation.n_samp, bad)
    return bad.astype(bool)


def test_planck_lfi_at_30_ghz():
    made = observations(
        "satellite", focalplane="planck-lfi", detectors=("LFI27", "LFI28"), duration=7200.0, n_observations=3,
        interval=600.0, name="lfi",
    )  # fmt: skip
    assert [o.name for o in made] == ["lfi-0000", "lfi-0001", "lfi-0002"]
    assert all(o.uid == zlib.crc32(o.name.encode()) for o in made)
    assert sum(o.n_samp for o in made) == round(7200 * 32.507936507936506)
    first, second, _ = made
    assert first.detectors == ("LFI27S", "LFI27M", "LFI28S", "LFI28M")
    assert second.start_time == pytest.approx(first.start_time + first.n_samp / first.sample_rate)
    assert first.intervals[0] == (0, 19505) and first.intervals[-1][1] == first.n_samp
    assert first.noise.noise_model(1, 0) == OneOverF(
        pytest.approx(2.1053752551467145e-4), pytest.approx(0.17453), pytest.approx(1.15e-5), -0.927379
    )
    assert first.pointing.efficiency(0) == 1 and not first.flags
    assert first.meta["pointing_error_arcsec"] < 0.1 and min(first.meta["knot_spacing"]) >= 128
    assert first.pointing.nbytes < 0.5 * first.n_samp


def test_short_year():
    # half a year later the spin axis, the mean of the line of sight over a spin, is reversed
    made = observations(
        "satellite", n_det=1, sample_rate=1.0, duration=2 * 86400.0, year=4 * 86400.0, precession_angle=0.0,
        frame="ecliptic",
    )[0]  # fmt: skip
    looks = made.pointing.directions(0, 0, made.n_samp)[0]
    first, middle, last = (looks[at : at + 60].mean(axis=0) for at in (0, 86400 - 30, made.n_samp - 60))
    np.testing.assert_allclose(first, -last, rtol=0, atol=0.002)
    assert abs(first @ middle) < 0.002 and abs(first[2]) < 0.002
    with pytest.raises(ConfigError, match="year"):
        observations("satellite", n_det=1, sample_rate=1.0, year=0.0)


def test_consecutive_observations():
    whole = observations("satellite", n_det=1, sample_rate=20.0, duration=3600.0)[0]
    parts = observations("satellite", n_det=1, sample_rate=20.0, duration=3600.0, n_observations=4)
    together = np.concatenate([o.pointing.directions(0, 0, o.n_samp)[0] for o in parts])
    np.testing.assert_allclose(together, whole.pointing.directions(0, 0, whole.n_samp)[0], rtol=0, atol=1e-6)


def test_repointings_of_a_satellite_are_cut():
    options = {"n_det": 1, "sample_rate": 2.0, "duration": 4 * 3600.0, "repointing_period": 3600.0}
    made = observations("satellite", repointing_time=360.0, **options)[0]
    bad = bad_samples(made).reshape(4, 7200)
    assert not bad[:, :6480].any() and bad[:, 6480:].all()
    assert not observations("satellite", repointings="keep", **options)[0].flags
    steady = observations("satellite", n_det=1, sample_rate=2.0, duration=4 * 3600.0)[0]
    apart = made.pointing.directions(0, 0, 28800)[0] - steady.pointing.directions(0, 0, 28800)[0]
    assert 0.5 < np.degrees(np.abs(apart).max()) * 60 < 3  # half a step
    with pytest.raises(ConfigError, match="repointings"):
        observations("satellite", repointing_time=3600.0, **options)


def test_half_wave_plate_is_continuous():
    options = {"n_det": 1, "sample_rate": 20.0, "duration": 600.0, "hwp_frequency": 2.3, "hwp_angle": 0.4}
    whole = observations("satellite", **options)[0].pointing.directions(0, 0, 12000)[1]
    parts = observations("satellite", n_observations=3, **options)
    angles = np.concatenate([o.pointing.directions(0, 0, o.n_samp)[1] for o in parts])
    off = (angles.astype(np.int64) - whole + 2**31) % 2**32 - 2**31
    assert np.abs(off).max() * 2 * np.pi / 2**32 < 1e-5
    plain = observations("satellite", n_det=1, sample_rate=20.0, duration=600.0)[0]
    still = plain.pointing.directions(0, 0, 9)[1]
    turning = (whole[:9].astype(np.int64) - still) % 2**32 * 2 * np.pi / 2**32
    expected = np.mod(4 * (0.4 + 2 * np.pi * 2.3 * np.arange(9) / 20), 2 * np.pi)  # gamma is 0
    np.testing.assert_allclose(turning, expected, rtol=0, atol=1e-7)


def test_year_of_planck_covers_the_sky():
    made = observations("satellite", n_det=1, sample_rate=0.5, duration=365 * 86400.0, frame="ecliptic",
                        spin_period=3600.0 * 7)[0]  # fmt: skip
    pixels = np.empty(made.n_samp, np.int32)
    made.pointing.expand(Healpix(8, nest=True), 0, 0, made.n_samp, pixels, None)
    assert len(np.unique(pixels)) == 768


def test_frames_of_the_map():
    scans = {
        f: observations("satellite", n_det=1, sample_rate=1.0, duration=300.0, frame=f)[0]
        for f in frames.FRAMES
    }
    sight = {f: o.pointing.directions(0, 0, 300)[0] for f, o in scans.items()}
    turned = quaternion.rotate(frames.frame_rotation("ecliptic", "galactic"), sight["ecliptic"])
    np.testing.assert_allclose(turned, sight["galactic"], rtol=0, atol=1e-9)
    assert {f: o.frame for f, o in scans.items()} == {f: f for f in frames.FRAMES}
    rotated = scans["ecliptic"].pointing.rotated(frames.frame_rotation("ecliptic", "galactic"))
    for given, expected in zip(
        rotated.directions(0, 0, 300), scans["galactic"].pointing.directions(0, 0, 300), strict=True
    ):
        np.testing.assert_allclose(
            given.astype(float), expected.astype(float), rtol=0, atol=1e-9 * given.max()
        )


def test_ground_scan_and_its_turnarounds():
    options = {"sample_rate": 50.0, "duration": 1800.0, "net": 3e-4, "fknee": 0.1, "alpha": -1.0, "n_det": 6}
    made = observations("ground", **options)[0]
    bad = bad_samples(made)
    leg, turn = 80.0, np.pi  # 80 degrees at 1 deg/s; turn-arounds with at most 1 deg/s^2
    assert bad.mean() == pytest.approx(turn / (leg + turn), rel=0.05)
    assert not bad[:3999].any() and bad[4001:4156].all() and not bad[4159:8155].any()
    assert not observations("ground", turnarounds="keep", **options)[0].flags
    assert made.noise.noise_model(5, 0).net == 3e-4
    declination = np.degrees(np.arcsin(made.pointing.directions(0, 0, made.n_samp)[0][:, 2]))
    low, high = -22.96 - 40, -22.96 + 40  # 40 degrees from the zenith, towards the south
    assert low - 0.5 < declination.min() and declination.max() < high


def test_flags_do_not_depend_on_the_sample_range():
    made = observations("ground", sample_rate=50.0, duration=900.0)[0]
    whole = bad_samples(made)
    for start, stop in [(0, 10), (3990, 4010), (4050, 4060), (4090, 9000), (0, made.n_samp)]:
        part = np.zeros(stop - start, np.uint8)
        part[:2] = 1
        made.flags[0].or_flags(1, start, stop, part)
        np.testing.assert_array_equal(part[2:], whole[start + 2 : stop])


def test_position_angles_of_rasters():
    box = {"longitude": 1.0, "latitude": -0.3, "width": DEGREE, "height": 0.5 * DEGREE}
    motion = {"row_spacing": DEGREE / 30, "speed": DEGREE / 10, "acceleration": DEGREE / 2}
    made = observations(
        "raster", sample_rate=50.0, n_det=1, duration=1200.0, n_observations=2, **box, **motion
    )
    centre = quaternion.conjugate(quaternion.from_angles(np.pi / 2 + 0.3, 1.0, 0.0))
    spans = []
    for o in made:
        sight = quaternion.rotate(centre, o.pointing.directions(0, 0, o.n_samp)[0])[~bad_samples(o)]
        spans.append(np.ptp(sight[:, :2], axis=0) / DEGREE)
    np.testing.assert_allclose(spans, [[0.5, 1.0], [1.0, 0.5]], rtol=0, atol=0.01)
    daisy = observations("raster", pattern="daisy", width=DEGREE, sample_rate=50.0, duration=60.0)[0]
    assert not daisy.flags


def test_recorded_mars():
    path = LOGS / "20171111110002.ant.gz"
    if not path.is_file():
        pytest.skip("the recorded scans are not here")
    options = {"folder": LOGS, "path": path.name, "track": "offset", "sample_rate": 40.0, "n_det": 1}
    made = observations("recorded", **options)[0]
    bad = bad_samples(made)
    sight = made.pointing.directions(0, 0, made.n_samp)[0][~bad]
    assert 0.1 < 1 - bad.mean() < 0.5
    assert np.abs(sight[:, 1:]).max() * 206265 < 125
    near = observations("recorded", max_distance=100 / 206265, **options)[0]
    assert bad_samples(near).mean() > bad.mean()
    kept = bad_samples(observations("recorded", turnarounds="keep", **options)[0])
    assert kept.sum() == pytest.approx(9.6 * 40, abs=2)  # the log has a gap without pointing
    default = observations("recorded", folder=LOGS, path=path.name)[0]
    assert default.sample_rate == pytest.approx(10.0)


def test_sources_append():
    first = observations("satellite", sample_rate=1.0, duration=100.0)
    both = observations("ground", before=first, sample_rate=10.0, duration=100.0)
    assert [o.name for o in both] == ["satellite", "ground"] and both[0] is first[0]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("satellite", {}, "sample rate is not known"),
        ("satellite", {"focalplane": "planck-lfi"}, "different rates"),
        ("satellite", {"focalplane": "planck-lfi", "detectors": ("HFI",)}, "no detector 'HFI'"),
        ("satellite", {"sample_rate": 1.0, "duration": 2.0, "n_observations": 5}, "2 samples for 5"),
        ("satellite", {"sample_rate": 1e300}, "3600 s at 1e\\+300 Hz are more than 2.8e\\+14 samples"),
        ("satellite", {"sample_rate": 1e300, "duration": 1e300}, "more than 2.8e\\+14 samples"),
        ("satellite", {"sample_rate": 1.0, "start": "yesterday"}, "no time"),
        ("ground", {"sample_rate": 1.0, "azimuth_min": 4.0}, "azimuth_max"),
        ("raster", {"sample_rate": 1.0, "row_spacing": 0.0}, "must be positive"),
        ("raster", {"sample_rate": 1.0, "speed": 0.0}, "speed"),
    ],
)
def test_invalid_options(kind, options, message):
    with pytest.raises(ConfigError, match=message):
        observations(kind, **options)


def test_missing_log(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        observations("recorded", folder=tmp_path, path="none.ant")
