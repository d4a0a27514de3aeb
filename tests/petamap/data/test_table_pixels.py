"""Tests of tables with pixel numbers and responses: against pointing by angles, and what is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError, DataError
from petamap.data.config import open_sources, parse_config
from petamap.data.formats.table import TableSource
from petamap.data.formats.table_options import TableOptions
from petamap.data.source import SourceContext
from petamap.mapmaking.target import in_frame
from petamap.pointing.recorded import RecordedPixels
from petamap.sky.healpix import Healpix

N, TURN = 300, 2**32


def write(path: Path, columns) -> Path:
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(repr, map(float, row))) for row in rows)]))
    return path


def sight():
    t = np.arange(N)
    return {"time": 0.1 * t, "ra": (350 + 0.2 * t) % 360, "dec": 30 * np.sin(0.05 * t)}


def responses(psi, gain, efficiency):
    phi = np.radians(2 * psi)
    return gain, gain * efficiency * np.cos(phi), gain * efficiency * np.sin(phi)


def read(path, places=None, **options):
    made = TableOptions(path=path.name, signal="signal_*", **options)
    return TableSource(made, SourceContext(path.parent, places=places or {})).extend([])


def expanded(one, detector, pixelization, start=0, stop=N):
    n = stop - start
    out = np.empty(n, np.int32), np.empty(n, np.uint32), np.empty(n, np.float32)
    one.pointing.expand(pixelization, detector, start, stop, *out)
    return out


def angle_error(angles, psi):
    turns = angles / TURN - 2 * psi / 360
    return np.abs(turns - np.round(turns)).max() * TURN


def made_table(path, iau=False):
    rng = np.random.default_rng(4)
    psi, gain = rng.uniform(0, 180, (2, N)), rng.uniform(0.5, 2, (2, N)) * [[1], [-1]]
    columns = sight() | {"signal_A": rng.normal(size=N), "signal_B": rng.normal(size=N)}
    for name, angles, gains, e in zip("AB", psi, gain, (0.9, 1.0), strict=True):
        values = responses(180 - angles if iau else angles, gains, e)
        columns |= {f"w{key}_{name}": value for key, value in zip("IQU", values, strict=True)}
    directions = np.radians(90 - columns["dec"]), np.radians(columns["ra"])
    import healpy

    columns |= {"ring": healpy.ang2pix(16, *directions), "nest": healpy.ang2pix(16, *directions, nest=True)}
    return write(path, columns), columns, psi, gain


WEIGHTS = {"response_i": "wI_*", "response_q": "wQ_*", "response_u": "wU_*"}


@pytest.mark.parametrize("kind", ["angles", "ring", "nested"])
@pytest.mark.parametrize("iau", [False, True])
def test_responses_are_gain_angle_and_efficiency(tmp_path, kind, iau):
    path, columns, psi, gain = made_table(tmp_path / "a.csv", iau)
    pixels = {} if kind == "angles" else {"pixel": kind.removesuffix("ed"), "pixels": kind, "n_side": 16}
    (one,) = read(path, **WEIGHTS, **pixels, polarization="IAU" if iau else "COSMO")
    assert one.detectors == ("A", "B") and one.pointing.has_gains
    for detector, efficiency in enumerate((0.9, 1.0)):
        assert one.pointing.efficiency(detector) == pytest.approx(efficiency, abs=1e-12)
        for order in (False, True):
            found, angles, gains = expanded(one, detector, Healpix(16, nest=order))
            assert np.array_equal(found, columns["nest" if order else "ring"])
            np.testing.assert_allclose(gains, gain[detector], rtol=1e-7)
            assert angle_error(angles, psi[detector]) < 2 + 8 * (kind == "angles")


def test_angles_beside_pixels(tmp_path):
    path, columns, psi, _ = made_table(tmp_path / "a.csv")
    columns |= {"psi_A": psi[0], "psi_B": psi[1], "pix_A": columns["ring"], "pix_B": columns["ring"] - 1}
    (one,) = read(
        write(path, columns), pixel="pix_*", pixels="ring", n_side=16, psi="psi_*", detectors=("B",)
    )
    found, angles, gains = expanded(one, 0, Healpix(16))
    assert one.detectors == ("B",) and np.array_equal(found, columns["ring"] - 1)
    assert angle_error(angles, psi[1]) < 2 and (gains == 1).all() and one.pointing.efficiency(0) == 1


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, N), min_size=2, max_size=5, unique=True).map(sorted))
def test_samples_do_not_depend_on_the_pieces(tmp_path_factory, edges):
    path, *_ = made_table(tmp_path_factory.mktemp("table") / "a.csv")
    for options in ({}, {"pixel": "ring", "pixels": "ring", "n_side": 16}):
        (one,) = read(path, **WEIGHTS, **options)
        whole = expanded(one, 1, Healpix(16), edges[0], edges[-1])
        parts = [expanded(one, 1, Healpix(16), a, b) for a, b in pairwise(edges)]
        for values, pieces in zip(whole, zip(*parts, strict=True), strict=True):
            assert np.array_equal(np.concatenate(pieces), values)


def test_responses_turn_with_the_frame(tmp_path):
    """Angles in another frame are those of the same line of sight with psi."""
    path, columns, psi, _ = made_table(tmp_path / "a.csv")
    columns |= {"psi_A": psi[0], "psi_B": psi[1]}
    (one,) = in_frame(read(write(path, columns), **WEIGHTS, detectors=("A",)), "galactic")
    (other,) = in_frame(read(path, psi="psi_*", detectors=("A",)), "galactic")
    found, wanted = expanded(one, 0, Healpix(64)), expanded(other, 0, Healpix(64))
    assert np.array_equal(found[0], wanted[0])
    assert np.abs((found[1] - wanted[1]).astype(np.int32)).max() < 20


def test_flagged_samples_may_have_any_response_and_blind_samples_none(tmp_path):
    path, columns, _, _ = made_table(tmp_path / "a.csv")
    columns["flags"] = np.zeros(N)
    for key in ("wI_A", "wQ_A", "wU_A"):
        columns[key][[5, 9]] = np.nan, 0.0
    columns["flags"][5] = 1
    columns["ring"][5] = -1
    (one,) = read(write(path, columns), **WEIGHTS, pixel="ring", pixels="ring", n_side=16)
    assert one.pointing.efficiency(0) == pytest.approx(0.9)
    _, _, gains = expanded(one, 0, Healpix(16))
    assert (gains[[5, 9]] == 0).all() and np.count_nonzero(gains) == N - 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wQ_B": (7, np.nan)}, r"a.csv:9, column wQ_B, detector B, sample 7: the response is nan"),
        ({"wI_B": (7, 0.0)}, r"detector B, sample 7: the response is 0 where that to Q or U is not \(a diff"),
        ({"wI_B": (7, 3.0)}, r"sample 7: the response makes a polarization efficiency of 0\.\d+, .* is 1 \("),
        ({"ring": (7, 4000)}, r"a.csv:9, column ring: pixel 4000 of 3072 \(write 0 to 3071, or -1"),
        ({"ring": (7, 1.5)}, r"a.csv:9, column ring: pixel 1.5 of 3072"),
        ({"ring": (7, np.nan)}, r"a.csv:9, column ring: pixel nan of 3072"),
    ],
)
def test_wrong_numbers_are_told(tmp_path, change, message):
    path, columns, _, _ = made_table(tmp_path / "a.csv")
    for name, (row, value) in change.items():
        columns[name] = columns[name].astype(float)
        columns[name][row] = value
    (one,) = read(write(path, columns), **WEIGHTS, pixel="ring", pixels="ring", n_side=16)
    with pytest.raises(DataError, match=message):
        one.pointing.efficiency(1)
        expanded(one, 1, Healpix(16))


def test_an_efficiency_above_one_is_told(tmp_path):
    path, columns, _, _ = made_table(tmp_path / "a.csv")
    columns["wI_A"] = columns["wI_A"] / 2
    (one,) = read(write(path, columns), **WEIGHTS)
    with pytest.raises(
        DataError, match=r"a.csv, detector A: a polarization efficiency .* of 1.8, more than 1"
    ):
        one.pointing.efficiency(0)


def test_numbers_in_float32_have_the_same_efficiency(tmp_path):
    path, columns, _, _ = made_table(tmp_path / "a.csv")
    rounded = {key: np.float32(value) if key[0] == "w" else value for key, value in columns.items()}
    (one,) = read(write(path, rounded), **WEIGHTS)
    assert one.pointing.efficiency(0) == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pixel": "ring"}, "nobody says what pixels are numbered"),
        ({"pixels": "ring"}, "there is no column of pixels"),
        ({"pixel": "ring", "pixels": "ring"}, r"nobody says how many pixels there are \(give n_side\)"),
        ({"pixel": "ring", "pixels": "numbered"}, r"how many pixels there are \(give n_pix or image\)"),
        ({"pixel": "ring", "pixels": "ring", "n_side": 16, "lon": "ra"}, "line: lon is given beside pixel"),
        ({"response_q": "wQ_*"}, "response_q and response_u go together"),
        ({**WEIGHTS, "psi": "psi"}, "psi is given beside response_q"),
        ({**WEIGHTS, "focalplane": "planck-lfi"}, "response_i is given beside a focal plane"),
        (
            {"pixel": "ring", "pixels": "ring", "n_side": 16, "frame": "horizontal"},
            "pixels are not horizontal",
        ),
        ({"pixel": "nest", "pixels": "nested", "n_side": 12}, "n_side"),
    ],
)
def test_options_that_do_not_go_together(tmp_path, options, message):
    path, *_ = made_table(tmp_path / "a.csv")
    with pytest.raises(ConfigError, match=message):
        read(path, dict.fromkeys(options, "line"), **options)


def test_bare_numbers_make_numbered_pixels_without_a_frame(tmp_path):
    _, columns, _, _ = made_table(tmp_path / "a.csv")
    text = '[map]\npixelization = "numbered"\n[[source]]\nkind = "table"\npath = "a.csv"\n'
    text += 'signal = "signal_*"\npsi = ""\npixel = "ring"\npixels = "numbered"\nn_pix = 3072\n'
    (one,) = open_sources(parse_config(text, tmp_path / "run.toml"))
    assert one.frame is None and isinstance(one.pointing, RecordedPixels)
    found, angles, _ = expanded(one, 1, one.pointing.pixelization)
    assert np.array_equal(found, columns["ring"]) and not angles.any()
    assert one.pointing.efficiency(1) == 0
