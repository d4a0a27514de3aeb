"""Tests of tables: round trips of text and FITS, frames and conventions against oracles, hostile files."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError, DataError, UserError
from petamap.data.config import open_sources, parse_config
from petamap.data.formats.table import TableSource
from petamap.data.formats.table_options import TableOptions
from petamap.data.observation import read_flags, read_signal
from petamap.data.source import SourceContext
from petamap.noise.model import OneOverF
from petamap.pointing import quaternion

ARCSEC = np.pi / 180 / 3600
N = 240


def made(**changes):
    """Return the columns of a table of two detectors."""
    rng = np.random.default_rng(3)
    t = np.arange(N)
    columns = {
        "time": 1.7e9 + 0.25 * t,
        "ra": (350 + 0.2 * t) % 360,
        "dec": 10 * np.sin(0.05 * t),
        "psi_A": (3.0 * t) % 180,
        "psi_B": (3.0 * t + 90) % 180,
        "signal_A": rng.normal(size=N),
        "signal_B": rng.normal(size=N),
        "flags": (rng.random(N) < 0.2).astype(int) * 4,
    }
    return {name: values for name, values in (columns | changes).items() if values is not None}


def write_text(path: Path, columns, mark=",", head="") -> None:
    rows = zip(*columns.values(), strict=True)
    lines = [head + mark.join(columns), *(mark.join(repr(number.item()) for number in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def write_fits(path: Path, columns, units=None) -> None:
    codes = {"f": "D", "i": "J", "b": "L"}
    made = [
        fits.Column(name, codes[values.dtype.kind], array=values, unit=(units or {}).get(name))
        for name, values in columns.items()
    ]
    fits.BinTableHDU.from_columns(made, name="TOD").writeto(path, overwrite=True)


def read(path: Path, places=None, **options):
    source = TableSource(
        TableOptions(path=path.name, **options), SourceContext(path.parent, places=places or {})
    )
    return source.extend([])


BOTH = {"signal": "signal_*", "psi": "psi_*"}


@pytest.mark.parametrize(
    ("suffix", "mark", "head"),
    [(".csv", ",", ""), (".csv", ";", ""), (".tsv", "\t", ""), (".txt", "   ", "# "), (".fits", "", "")],
)
def test_round_trip(tmp_path, suffix, mark, head):
    columns, path = made(), tmp_path / f"night{suffix}"
    write_text(path, columns, mark, head) if mark else write_fits(path, columns)
    found = read(path, **BOTH)
    assert [one.name for one in found] == ["night-A", "night-B"]
    theta, phi = np.radians(90 - columns["dec"]), np.radians(columns["ra"])
    expected = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=1)
    for one, name in zip(found, "AB", strict=True):
        assert one.detectors == (name,) and one.intervals == ((0, N),) and one.frame == "equatorial"
        assert (one.start_time, one.unit) == (1.7e9, "K_CMB")
        assert one.sample_rate == pytest.approx(4.0, rel=1e-12)
        assert np.array_equal(read_signal(one, 0, 0, N), columns[f"signal_{name}"])
        assert np.array_equal(read_flags(one, 0, 0, N), columns["flags"] > 0)
        vectors, angles = one.pointing.directions(0, 0, N)
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-14)
        turns = 2 * columns[f"psi_{name}"] / 360 - angles / 2**32
        assert np.abs(turns - np.round(turns)).max() < 1e-9
        assert one.pointing.efficiency(0) == 1


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, N), min_size=2, max_size=6, unique=True).map(sorted))
def test_samples_do_not_depend_on_the_pieces(tmp_path_factory, edges):
    path = tmp_path_factory.mktemp("table") / "a.csv"
    write_text(path, made())
    (one, _) = read(path, **BOTH)
    for reader in (read_signal, read_flags):
        parts = [reader(one, 0, a, b) for a, b in pairwise(edges)]
        assert np.array_equal(np.concatenate(parts), reader(one, 0, edges[0], edges[-1]))


def test_detectors_with_common_pointing_are_one_observation(tmp_path):
    write_fits(tmp_path / "a.fits", made(psi=np.zeros(N)), {"signal_A": "uK_CMB", "signal_B": "uK_CMB"})
    (one,) = read(tmp_path / "a.fits", signal="signal_*")
    assert one.detectors == ("A", "B") and one.unit == "uK_CMB"
    (one,) = read(tmp_path / "a.fits", signal="SIGNAL_*", detectors=("B",))
    assert one.detectors == ("B",)
    assert np.array_equal(read_signal(one, 0, 0, N), made()["signal_B"])


def test_a_folder_has_an_observation_for_each_table(tmp_path):
    for name in ("night-2.csv", "night-1.csv", "notes.md"):
        write_text(tmp_path / name, made(psi=np.zeros(N)))
    found = TableSource(TableOptions(path=".", signal="signal_*"), SourceContext(tmp_path)).extend([])
    assert [one.name for one in found] == ["night-1", "night-2"]
    chosen = TableOptions(path=".", signal="signal_*", observations=("*2",))
    assert [one.name for one in TableSource(chosen, SourceContext(tmp_path)).extend([])] == ["night-2"]


def test_colatitude_radians_and_units_of_the_file(tmp_path):
    columns = made()
    write_text(tmp_path / "degrees.csv", columns)
    angles = {"theta": np.radians(90 - columns["dec"]), "phi": np.radians(columns["ra"])}
    columns = made(ra=None, dec=None, **angles, psi_A=np.radians(columns["psi_A"]))
    write_text(tmp_path / "radians.csv", columns)
    write_fits(tmp_path / "radians.fits", columns, dict.fromkeys(("theta", "phi", "psi_A"), "rad"))
    options = {"signal": "signal_A", "psi": "psi_A"}
    (expected,) = read(tmp_path / "degrees.csv", **options)
    for name, unit in (("radians.csv", "rad"), ("radians.fits", "")):
        (one,) = read(tmp_path / name, colatitude=True, angle_unit=unit, **options)
        for given_, wanted in zip(*(o.pointing.directions(0, 0, N) for o in (one, expected)), strict=True):
            assert np.abs((given_ - wanted).astype(np.int32 if given_.ndim == 1 else float)).max() < 10
        np.testing.assert_allclose(
            one.pointing.directions(0, 0, N)[0], expected.pointing.directions(0, 0, N)[0], rtol=0, atol=1e-14
        )
    with pytest.raises(ConfigError, match=r"column phi is in 'rad' \(set angle_unit = \"rad\"\)"):
        read(tmp_path / "radians.fits", colatitude=True, angle_unit="deg", **options)[0].pointing.boresight  # noqa: B018


def test_iau_angles_count_from_north_to_east(tmp_path):
    position = np.array([0.0, 45.0, 90.0, 30.0])
    columns = {"time": np.arange(4.0), "ra": np.full(4, 20.0), "dec": np.full(4, 30.0), "psi": position}
    write_text(tmp_path / "a.csv", columns | {"signal": np.zeros(4)})
    (one,) = read(tmp_path / "a.csv", polarization="IAU")
    lon, lat = np.radians([20.0, 30.0])
    north = np.array([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)])
    east = np.array([-np.sin(lon), np.cos(lon), 0.0])
    axis = quaternion.rotate(one.pointing.quaternions(0, 0, 4), [1.0, 0.0, 0.0])
    p = np.radians(position)[:, None]
    along = np.abs(np.sum(axis * (np.cos(p) * north + np.sin(p) * east), axis=1))
    np.testing.assert_allclose(along, 1, rtol=0, atol=1e-12)


def test_azimuth_and_elevation_against_astropy(tmp_path):
    from astropy import units
    from astropy.coordinates import ICRS, AltAz, EarthLocation, SkyCoord
    from astropy.time import Time
    from astropy.utils import iers

    seconds = np.arange(0.0, 600.0, 10.0)
    az, el = 150 + 0.05 * seconds, 50 + 0.01 * seconds
    site = EarthLocation.from_geodetic(-67.79 * units.deg, -22.96 * units.deg)
    columns = {"time": 1.7e9 + seconds, "az": az, "el": el, "psi": 0 * az, "signal": 0 * az}
    write_text(tmp_path / "a.csv", columns)
    options = {"site_latitude": np.radians(-22.96), "site_longitude": np.radians(-67.79)}
    (one,) = read(tmp_path / "a.csv", frame="horizontal", **options)
    with iers.conf.set_temp("auto_download", False), iers.conf.set_temp("iers_degraded_accuracy", "ignore"):
        frame = AltAz(obstime=Time(columns["time"], format="unix"), location=site)
        sky = SkyCoord(az * units.deg, el * units.deg, frame=frame).transform_to(ICRS())
    vectors = one.pointing.directions(0, 0, len(az))[0]
    assert quaternion.angle_between(vectors, sky.cartesian.xyz.value.T).max() < 35 * ARCSEC
    # X points down: towards smaller elevation
    (lower,) = read(_written(tmp_path / "b.csv", columns | {"el": el - 0.01}), frame="horizontal", **options)
    down = lower.pointing.directions(0, 0, len(az))[0] - vectors
    axis = quaternion.rotate(one.pointing.quaternions(0, 0, len(az)), [1.0, 0.0, 0.0])
    assert (np.sum(axis * down, axis=1) > 0.999 * np.linalg.norm(down, axis=1)).all()
    np.testing.assert_allclose(one.azimuth.azimuths(5, 30), np.radians(az[5:30]), rtol=1e-15)
    with pytest.raises(ConfigError, match=r"^run.toml:5: azimuth and elevation need a site"):
        read(tmp_path / "a.csv", {"frame": "run.toml:5"}, frame="horizontal")


def _written(path, columns):
    write_text(path, columns)
    return path


@pytest.mark.parametrize(("form", "unit", "epoch"), [("mjd", 86400, 40587.0), ("jd", 86400, 2440587.5)])
def test_formats_of_time(tmp_path, form, unit, epoch):
    path = _written(tmp_path / "a.csv", made(time=1.7e9 / unit + epoch + 30.0 * np.arange(N) / unit))
    one = read(path, time_format=form, **BOTH)[0]
    assert one.start_time == pytest.approx(1.7e9, abs=1e-4)
    assert one.sample_rate == pytest.approx(1 / 30, rel=1e-6)


def test_seconds_are_no_days(tmp_path):
    path = _written(tmp_path / "a.csv", made())
    for form in ("mjd", "jd"):
        with pytest.raises(DataError, match=rf"a.csv:2, column time: 1.7e\+09 is no {form.upper()} of 1970"):
            read(path, time_format=form, **BOTH)


def test_seconds_since_a_start_and_rows_without_times(tmp_path):
    path = _written(tmp_path / "a.csv", made(time=None, t=np.arange(N) * 0.1))
    one = read(path, time="t", start="2026-01-01T00:00:00", **BOTH)[0]
    assert (one.start_time, one.sample_rate) == (1767225600.0, pytest.approx(10))
    one = read(path, time="", sample_rate=5.0, start="2026-01-01T00:00:00", **BOTH)[0]
    assert (one.start_time, one.sample_rate, one.intervals) == (1767225600.0, 5.0, ((0, N),))


def test_missing_rows_end_an_observation_and_pointing_may_leap_there(tmp_path):
    columns = made(psi=np.zeros(N))
    columns["time"][100:] += 60.0
    columns["ra"][100:] = (columns["ra"][100:] + 170) % 360
    found = read(_written(tmp_path / "a.csv", columns), signal="signal_*")
    assert [one.name for one in found] == ["a-0000", "a-0001"]
    for one, rows in zip(found, (slice(0, 100), slice(100, N)), strict=True):
        n_samp = len(range(N)[rows])
        assert one.intervals == ((0, n_samp),) and one.sample_rate == pytest.approx(4)
        assert one.start_time == columns["time"][rows][0]
        lon = np.degrees(np.arctan2(*one.pointing.directions(1, 0, n_samp)[0].T[1::-1])) % 360
        np.testing.assert_allclose(lon, columns["ra"][rows], rtol=0, atol=1e-10)
        assert np.array_equal(read_signal(one, 1, 0, n_samp), columns["signal_B"][rows])
    columns["dec"][150] = np.nan
    later = read(_written(tmp_path / "a.csv", columns), signal="signal_*")[1]
    with pytest.raises(DataError, match=r"a.csv:152, column dec"):
        later.pointing.directions(0, 0, 10)


def test_gain_weight_and_mask(tmp_path):
    weight = np.full(N, 4.0)
    weight[10] = 0.0
    columns = made(psi=np.zeros(N), gain=np.linspace(1, 2, N), weight_A=weight, weight_B=weight / 4)
    path = _written(tmp_path / "a.csv", columns)
    (one,) = read(path, signal="signal_*", gain="gain", weight="weight_*", mask=3)
    assert np.flatnonzero(read_flags(one, 1, 0, N)).tolist() == [10]  # the flags are all 4
    np.testing.assert_array_equal(read_signal(one, 1, 5, 20), (columns["signal_B"] / columns["gain"])[5:20])
    assert one.noise.noise_model(0, 0) == OneOverF(0.25, 0.0, 0.0, -1.0)  # sigma 1/2 at 4 Hz
    assert one.noise.noise_model(1, 0) == OneOverF(0.5, 0.0, 0.0, -1.0)
    (one,) = read(path, signal="signal_*", mask=4)
    assert np.array_equal(read_flags(one, 0, 0, N), columns["flags"] == 4)
    columns["weight_A"] = np.where(np.arange(N) == 20, 5.0, weight)
    (one,) = read(_written(path, columns), signal="signal_*", weight="weight_*")
    with pytest.raises(DataError, match=r"a.csv:22, column weight_A: after 4 a weight of 5 \("):
        one.noise.noise_model(0, 0)


def test_a_focal_plane_about_the_pointing(tmp_path):
    path = _written(tmp_path / "a.csv", made(psi=np.zeros(N)))
    plane = '[[detector]]\nname = "B"\ntheta = "1 deg"\nphi = "90 deg"\nnet = "2 K s^0.5"\n'
    (tmp_path / "plane.toml").write_text(
        f'name = "two"\n{plane}{plane.replace("B", "A").replace("1 deg", "0 deg")}'
    )
    (one,) = read(path, signal="signal_*", focalplane="plane.toml")
    assert one.detectors == ("A", "B") and one.noise.noise_model(1, 0).net == 2.0
    a, b = (one.pointing.directions(k, 0, N)[0] for k in (0, 1))
    np.testing.assert_allclose(quaternion.angle_between(a, b), np.radians(1), rtol=0, atol=1e-12)
    assert ((np.cross(a, b)[:, 2]) > 0).all()  # Y is to the east
    (one,) = read(path, signal="", focalplane="plane.toml")
    assert one.detectors == ("B", "A") and one.signals == ()
    (tmp_path / "plane.toml").write_text(f'name = "one"\n{plane}')
    with pytest.raises(ConfigError, match="focal plane one has no detector 'A'"):
        read(path, signal="signal_*", focalplane="plane.toml")


def test_scaled_integers_and_null_of_fits(tmp_path):
    columns = [fits.Column(name, "D", array=made()[name]) for name in ("time", "ra", "dec")]
    raw = np.arange(N, dtype=np.int16)
    columns.append(fits.Column("signal", "I", array=raw))
    columns.append(fits.Column("null", "J", array=np.arange(N), null=7))
    fits.BinTableHDU.from_columns(columns).writeto(tmp_path / "a.fits")
    for key, value in (("TSCAL4", 0.5), ("TZERO4", 3.0)):
        fits.setval(tmp_path / "a.fits", key, value=value, ext=1)
    (one,) = read(tmp_path / "a.fits", psi="")
    np.testing.assert_allclose(read_signal(one, 0, 0, N), raw * 0.5 + 3)
    assert one.pointing.efficiency(0) == 0
    (one,) = read(tmp_path / "a.fits", psi="", signal="null")
    assert np.flatnonzero(np.isnan(read_signal(one, 0, 0, N))).tolist() == [7]


def numbers(change=None, line=None, text=None):
    """Return lines of a small table, one changed."""
    lines = ["time,ra,dec,psi,signal", *(f"{k},{10 + k},5,0,1.5" for k in range(6))]
    if line is not None:
        lines[line - 1] = text
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a.csv: is empty \(name a table"),
        ("\n\n# only\n", "a.csv: is empty"),
        ("time,ra,dec,psi,signal\n", "a.csv: has no rows"),
        ("1,2,3\n4,5,6\n", r"a.csv:1: begins with numbers, not with the names of the columns \(write a line"),
        (
            "time,ra,psi,signal\n0,1,2,3\n",
            r"a.csv: has no column 'dec' \(name it by lat = .*; columns: time, ra",
        ),
        ("time,ra,RA,dec,psi,signal,Ra\n" + "0,1,2,3,4,5,6\n" * 2, "times do not increase"),
        ("time,ra,ra,dec,psi,signal\n" + "0,1,2,3,4,5\n" * 2, "2 columns are called 'ra'"),
        (numbers(line=4, text="2,12,5,0,x1"), r"a.csv:4, column signal: 'x1' is no number \(write nan"),
        (numbers(line=4, text="2,,5,0,1"), "a.csv:4, column ra: '' is no number"),
        (numbers(line=4, text="2,12,5,0"), r"a.csv:4: 4 columns where there are 5 names \(complete"),
        (numbers(line=4, text="2,12,5,0,1,1"), "a.csv:4: 6 columns where there are 5 names"),
        (numbers(line=4, text="2,nan,5,0,1"), "a.csv:4, column ra: the pointing is nan, as in 1 of 6 rows"),
        (numbers(line=4, text="2,12,inf,0,1"), "a.csv:4, column dec: the pointing is inf"),
        (numbers(line=4, text="2,12,95,0,1"), r"a.csv:4, column dec: 95 deg is no latitude \(check"),
        (numbers(line=4, text="2,192,5,0,1"), "a.csv:4, column ra: turns by 170 deg from the row before"),
        (numbers(line=4, text="nan,12,5,0,1"), "a.csv:4, column time: the time is not finite"),
        (numbers(line=4, text="1,12,5,0,1"), "a.csv:4, column time: times do not increase: 1.0 is followed"),
        (numbers(line=4, text="1.2,12,5,0,1"), "a.csv:4, column time: is 0.2 s after the row before, most"),
        (numbers(line=1, text='"time,ra,dec,psi,signal'), "is no table|columns|has no column"),
        (numbers(line=3, text='1,"11,5,0,1'), "is no table: unexpected end of data"),
        ("ti\0me,ra,dec,psi,signal\n1,2,3,4,5\n", "has no column 'time'|is no table"),
    ],
)
def test_hostile_text_is_told(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        (one,) = read(tmp_path / "a.csv")
        one.pointing.directions(0, 0, one.n_samp)
    assert str(tmp_path / "a.csv") in caught.value.where


def test_lines_are_those_of_the_file_with_comments_between(tmp_path):
    lines = numbers().splitlines()
    lines[2:2] = ["# a note", "", '"1.5",10.5,5,"0",1.5']
    lines[-1] = "5,15,bad,0,1"
    (tmp_path / "a.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"a.csv:10, column dec: 'bad' is no number"):
        read(tmp_path / "a.csv")


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"time,ra\n\xff\xfe\n")
    with pytest.raises(DataError, match=r"a.csv: is no text in UTF-8 \(name a text or FITS table\)"):
        read(tmp_path / "a.csv")


def test_a_missing_column_that_the_configuration_names_is_told_with_its_line(tmp_path):
    write_text(tmp_path / "a.csv", made())
    text = '[map]\nn_side = 16\n[[source]]\nkind = "table"\npath = "a.csv"\n'
    text += 'signal = "signal_*"\nflags = "bad_*"\n'
    config = parse_config(text + 'psi = ""\n', tmp_path / "run.toml")
    with pytest.raises(
        ConfigError, match=r"run.toml:7: .*a.csv has no column 'bad_A' \(columns: time, ra, dec"
    ):
        open_sources(config)
    config = parse_config(text + 'psi = ""\n', tmp_path / "run.toml", ["source.0.signal=none_*"])
    with pytest.raises(ConfigError, match=r"command line: .*a.csv has no column 'none_\*'"):
        open_sources(config)
    with pytest.raises(ConfigError, match=r"signal = 'a\*b\*' has a \* that stands for no detector"):
        read(tmp_path / "a.csv", signal="a*b*")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": ""}, r"has no column of times \(give sample_rate\)"),
        ({"sample_rate": 1.0}, "its times tell a rate of 4 Hz, sample_rate is 1 Hz"),
        ({"flags": "signal_A"}, r"a.csv:\d+, column signal_A: a flag of "),
        ({"weight": "signal_A"}, r"a.csv:\d+, column signal_A: a weight of -"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path, options, message):
    write_text(tmp_path / "a.csv", made(psi=np.zeros(N)))
    with pytest.raises(DataError, match=message):
        (one,) = read(tmp_path / "a.csv", **({"signal": "signal_A"} | options))
        read_flags(one, 0, 0, N)


def test_a_folder_of_no_tables_is_told(tmp_path):
    with pytest.raises(DataError, match=r"no .csv, .* files here \(name a table"):
        TableSource(TableOptions(path="."), SourceContext(tmp_path)).extend([])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda raw: raw[:-2880], r"is no readable FITS table: File may have been truncated"),
        (lambda raw: raw[:3000], "is no readable FITS table|has no table"),
        (lambda raw: b"time,ra\n1,2\n", r"is no FITS file \(unpack it"),
        (lambda raw: b"", "is no FITS file"),
        (
            lambda raw: raw.replace(b"NAXIS2  =                  240", b"NAXIS2  =         999999999999"),
            "FITS table",
        ),
        (lambda raw: raw.replace(b"TFORM3  = 'D", b"TFORM3  = 'Q"), "FITS table|cannot be read"),
    ],
)
def test_damaged_fits_is_told(tmp_path, damage, message):
    path = tmp_path / "a.fits"
    write_fits(path, made(psi=np.zeros(N)))
    changed = damage(path.read_bytes())
    assert changed != path.read_bytes()
    path.write_bytes(changed)
    with pytest.raises(DataError, match=message):
        read(path, signal="signal_*")


def test_columns_of_text_and_vectors_of_fits(tmp_path):
    columns = [fits.Column(name, "D", array=made()[name]) for name in ("time", "ra", "dec")]
    columns.append(fits.Column("signal", "2D", array=np.zeros((N, 2))))
    columns.append(fits.Column("name", "3A", array=np.full(N, "abc")))
    fits.BinTableHDU.from_columns(columns, name="TOD").writeto(tmp_path / "a.fits")
    with pytest.raises(DataError, match=r"a.fits\[TOD\], column signal: holds values of shape \(2,\)"):
        read(tmp_path / "a.fits", psi="")
    with pytest.raises(DataError, match=r"a.fits\[TOD\], column name: holds text"):
        read(tmp_path / "a.fits", psi="", signal="name")
    with pytest.raises(DataError, match=r"a.fits: has no table 'TODD' \(did you mean 'TOD'\?\)"):
        read(tmp_path / "a.fits", table="TODD")
    with pytest.raises(DataError, match=r"a.fits\[TOD\], row 4, column ra: the pointing is nan"):
        columns[1].array[3] = np.nan
        fits.BinTableHDU.from_columns(columns, name="TOD").writeto(tmp_path / "a.fits", overwrite=True)
        read(tmp_path / "a.fits", psi="", signal="dec")[0].pointing.directions(0, 0, N)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 6), st.integers(0, 4), st.text(max_size=12), st.booleans())
def test_any_text_gives_a_table_or_an_error(tmp_path_factory, line, word, text, whole):
    lines = [row.split(",") for row in numbers().splitlines()]
    if whole:
        lines[line] = [text]
    else:
        lines[line][word] = text
    path = tmp_path_factory.mktemp("any") / "a.csv"
    path.write_text("\n".join(map(",".join, lines)), encoding="utf-8", errors="surrogateescape")
    try:
        for one in read(path):
            one.pointing.directions(0, 0, one.n_samp)
            read_signal(one, 0, 0, one.n_samp)
    except UserError as error:
        assert str(error).isprintable()
