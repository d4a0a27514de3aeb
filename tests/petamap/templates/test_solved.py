"""Templates that a run has solved for are subtracted by the next one."""

import dataclasses

import numpy as np
import pytest
from changed_files import write_anew
from made_scans import ground

from petacomm.base.errors import ConfigError, DataError
from petamap import parse_config, read_map, run
from petamap.data.config import open_sources
from petamap.data.formats.amplitudes import ALL, AmplitudeTable, read_amplitudes, write_amplitudes
from petamap.data.observation import read_signal
from petamap.templates.template_signal import SolvedTemplate

FIELD = """
[run]
name = "field"
[map]
pixelization = "flat"
resolution = "1 deg"
frame = "equatorial"
[solver]
tolerance = 1e-9
[[source]]
kind = "ground"
n_det = 4
spacing = "2 deg"
sample_rate = "10 Hz"
duration = "40 min"
n_observations = 2
azimuth_min = "170 deg"
azimuth_max = "190 deg"
net = "300 uK s^0.5"
fknee = "50 mHz"
fmin = "5 mHz"
[[source]]
kind = "noise"
[[source]]
kind = "offsets"
simulate = "0.1 K"
[[source]]
kind = "azimuth-synchronous"
order = 2
simulate = "50 mK"
{own}
"""
SUBTRACTED = """
[[source]]
kind = "solved-templates"
path = "{path}"
"""


@pytest.fixture(scope="module", params=["", 'per = "run"'])
def solved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("solved")
    text = FIELD.format(own=request.param)
    run(parse_config(text, folder / "field.toml"), out=folder / "first")
    return folder, text + SUBTRACTED.format(path="first/field_amplitudes.fits")


def test_the_map_is_that_of_the_run_that_solved_for_them(solved):
    """With a = the solution, m of P^T N^-1 (d - T a) is the solution's m."""
    folder, text = solved
    summary = run(parse_config(text, folder / "field.toml"), out=folder / "again")
    assert not any(one.kind == "amplitudes" for one in summary.products)
    first, again = (read_map(folder / name / "field_map.fits").values for name in ("first", "again"))
    assert np.nanmax(np.abs(again - first)) < 1e-4 * np.nanstd(first)


def test_nothing_is_left_to_solve_for(solved):
    folder, text = solved
    run(parse_config(text + "solve = true", folder / "field.toml"), out=folder / "rest")
    first, rest = (read_amplitudes(folder / name / "field_amplitudes.fits") for name in ("first", "rest"))
    # offsets of detectors that see the same part of the field are not told from its mean
    own = np.array(rest.templates) == "azimuth-synchronous"
    assert np.abs(rest.values[own]).max() < 1e-6 * np.abs(first.values).max()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("order = 2", "order = 3"), "not 3"),
        (('kind = "offsets"', 'kind = "baselines"'), "has 0 amplitudes of baselines"),
        (("n_det = 4", "n_det = 8"), "detector"),
    ],
)
def test_other_templates_than_those_of_the_run(solved, wrong, message):
    folder, text = solved
    with pytest.raises(ConfigError, match=message) as caught:
        open_sources(parse_config(text.replace(*wrong), folder / "field.toml"))
    assert "field_amplitudes.fits" in str(caught.value)


def test_there_must_be_templates(solved):
    folder, _ = solved
    text = FIELD[: FIELD.index('[[source]]\nkind = "offsets"')]
    with pytest.raises(ConfigError, match="no template before it"):
        path = SUBTRACTED.format(path="first/field_amplitudes.fits")
        open_sources(parse_config(text + path, folder / "field.toml"))


def test_a_map_is_no_table_of_amplitudes(solved):
    folder, _ = solved
    with pytest.raises(DataError, match="no table of amplitudes"):
        read_amplitudes(folder / "first/field_map.fits")


def test_tables_are_read_as_they_are_written(tmp_path):
    table = AmplitudeTable(
        ["a", "a", ALL, "a"], ["x", "x", "x", ALL], ["one", "one", "two", "three"], np.array([0, 0, -1, 1]),
        np.array([1, 0, 0, 0]), np.array([3.0, 2.0, 5.0, 7.0]), np.array([True, True, False, True]),
    )  # fmt: skip
    write_amplitudes(tmp_path / "t.fits", table, "K_CMB", "id")
    found = read_amplitudes(tmp_path / "t.fits")
    assert found.unit == "K_CMB" and found.observations == table.observations
    np.testing.assert_array_equal(found.has_unit, table.has_unit)
    np.testing.assert_array_equal(found.of("a", "x", "one", 0), [2.0, 3.0])
    np.testing.assert_array_equal(found.of("b", "x", "two", 4), [5.0])
    np.testing.assert_array_equal(found.of("a", "y", "three", 1), [7.0])
    assert found.of("a", "x", "one", 1) is None and found.of("a", "y", "one", 0) is None


def test_a_template_of_some_detectors_is_subtracted_of_these():
    (one,) = open_sources(ground(more='[[source]]\nkind = "offsets"\n'))
    own = dataclasses.make_dataclass("Own", [], bases=(type(one.templates[0]),), frozen=True, eq=False)
    own.concerns = lambda self, detector, start, stop: detector == 0
    n = len(one.intervals)
    names, zeros, ones = [one.name] * n, np.zeros(n, np.int64), np.ones(n)
    of_first = [one.detectors[0]] * n
    table = AmplitudeTable(names, of_first, ["offsets"] * n, np.arange(n), zeros, ones, ones > 0)
    signal = SolvedTemplate(one, own(), table, "file")
    signal.check()
    start, stop = one.intervals[0]
    alone = dataclasses.replace(one, signals=(signal,))
    assert (read_signal(alone, 0, start, stop) == -1).all() and not read_signal(alone, 1, start, stop).any()


def test_damaged_amplitudes_are_refused(solved):
    path = solved[0] / "first" / "field_amplitudes.fits"
    whole, damaged, right = path.read_bytes(), solved[0] / "damaged.fits", read_amplitudes(path)
    refused = 0
    places = range(0, len(whole), 1 + len(whole) // 60)
    for place in places:
        write_anew(damaged, whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            found = read_amplitudes(damaged)
        except DataError as error:
            assert "damaged.fits" in str(error)
            refused += 1
        else:  # what fills a header up is no part of the table
            np.testing.assert_array_equal(found.values, right.values)
            assert (found.detectors, found.templates) == (right.detectors, right.templates)
    assert refused > len(places) / 2


def test_names_beyond_ascii_come_back(tmp_path):
    one = np.zeros(2, np.int64)
    table = AmplitudeTable(
        ["näme 1", ALL], ["é", "d[1]"], ["offsets"] * 2, one, one, np.ones(2), one == 0, "µV"
    )
    write_amplitudes(tmp_path / "a.fits", table, "µV", "x")
    found = read_amplitudes(tmp_path / "a.fits")
    assert (found.observations, found.detectors) == (table.observations, table.detectors)
    assert found.unit == "µV" and found.of("näme 1", "é", "offsets", 0) == 1
