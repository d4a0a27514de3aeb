"""Coadds of runs that have samples in common: what is certain is an error, what may be a warning."""

import re

import pytest
from small_runs import noisy_scans, run_on

from petacomm.base.errors import ConfigError
from petamap.cli.main import main
from petamap.data.config import open_sources, parse_config
from petamap.data.formats.volume_write import write_volume
from petamap.data.run_summary import Summary
from petamap.mapmaking import data_record
from petamap.mapmaking.coadd import coadd, data_warnings
from petamap.mapmaking.data_record import data_records
from petamap.mapmaking.run import run

SCAN = """
[run]
name = "{name}"
[map]
n_side = 4
stokes = "I"
[noise]
kernel = "white"
[[source]]
kind = "satellite"
n_det = 4
duration = "6 h"
sample_rate = "1 Hz"
n_observations = 2
"""
NOISE = '[[source]]\nkind = "noise"\nnet = "60 uK s^0.5"\n'
VOLUME = (
    '[run]\nname = "{name}"\n[map]\nn_side = 4\nstokes = "I"\n[[source]]\nkind = "volume"\npath = "{path}"\n'
)


@pytest.fixture
def made(tmp_path):
    """Return a function that makes a run of a configuration, with changes, and returns its folder."""

    def make(name, text=SCAN + NOISE, more="", path=""):
        run(parse_config(text.format(name=name, path=path) + more), out=tmp_path / name)
        return tmp_path / name

    return make


def warned(*folders):
    """Return the warnings of a coadd, which must not be refused."""
    return data_warnings(coadd(folders)[1])


def test_the_same_data_under_other_names_count_once(made):
    one, again = made("one"), made("again")
    with pytest.raises(ConfigError, match=r"again: has the map of .*one, to the bit .data count once"):
        coadd([one, again])
    smoother = made("smoother", more='[[source]]\nkind = "offsets"\n')
    with pytest.raises(ConfigError, match=r"86,400 samples or more that .*one has, too, of observation "):
        coadd([one, smoother])
    some = made("some", SCAN + 'detectors = ["*A"]\n' + NOISE)
    with pytest.raises(ConfigError, match=r"some: has 43,200 samples or more .*'satellite-0000' and 1 more"):
        coadd([one, some])


def test_other_detectors_observations_and_noise_are_other_data(made):
    parts = [
        made(name, SCAN.replace("[map]", f"seed = {ord(name)}\n[map]") + f'detectors = ["*{name}"]\n' + NOISE)
        for name in "AB"
    ]
    assert warned(*parts) == []
    halves = [made(f"h{n}", SCAN + f'observations = ["*-000{n}"]\n' + NOISE) for n in range(2)]
    assert warned(*halves) == []
    drawn = [made(f"s{n}", SCAN.replace("[map]", f"seed = {n}\n[map]") + NOISE) for n in range(2)]
    assert warned(*drawn) == []


def test_noise_that_is_drawn_twice_is_warned_of(made):
    parts = [made(name, SCAN + f'detectors = ["*{name}"]\n' + NOISE) for name in "AB"]
    (text,) = warned(*parts)
    assert text.startswith(
        "A and B draw the noise of observation 'satellite-0000' and 1 more by the same numbers"
    )
    nights = [made(name, SCAN + f'start = "2030-01-0{n}"\n' + NOISE) for n, name in ((1, "mon"), (2, "tue"))]
    (text,) = warned(*nights)
    assert text.startswith(
        "mon and tue draw the noise of observation 'satellite-0000' and 1 more by the same"
    )


def test_halves_that_cuts_make_are_warned_of(made, capsys, tmp_path):
    cut = '[[source]]\nkind = "cuts"\nbegin = "{} h"\nend = "{} h"\n'
    one = made("one", more=cut.format(0, 1.5))
    two = made("two", more=cut.format(1.5, 3))
    (text,) = warned(one, two)
    assert text.startswith("one and two both have observation 'satellite-0000' and 1 more, 86,400 samples of")
    assert main(["coadd", str(one), str(two), "-o", str(tmp_path / "sum")]) == 0
    assert "warning: one and two both have" in re.sub(r"\s+", " ", capsys.readouterr().err)
    three = made("three", more=cut.format(0, 1))
    with pytest.raises(ConfigError, match=r"three: has 14,400 samples or more"):
        coadd([one, three])


def test_files_are_told_from_each_other(made, tmp_path):
    for name in ("a", "b"):
        write_volume(tmp_path / f"{name}.h5", open_sources(parse_config(SCAN.format(name=name) + NOISE)))
    one = made("one", VOLUME, path=tmp_path / "a.h5")
    two = made("two", VOLUME, more='detectors = ["*A"]\n', path=tmp_path / "a.h5")
    with pytest.raises(ConfigError, match=r"two: has 43,200 samples or more that .*one has, too"):
        coadd([one, two])
    copy = made("copy", VOLUME, more='detectors = ["*A"]\n', path=tmp_path / "b.h5")
    (text,) = warned(one, copy)
    assert text.startswith("one and copy both have observation 'satellite-0000' and 1 more, 43,200 samples")


def test_data_in_memory_are_warned_of_and_a_coadd_tells_what_it_has(tmp_path):
    white = {"noise": {"kernel": "white"}, "map": {"n_side": 2}}
    scans = noisy_scans()
    for name, some in (("all", scans), ("second", scans[1:])):
        run_on(some, tmp_path / name, run={"name": name}, **white)
    (text,) = warned(tmp_path / "all", tmp_path / "second")
    assert text.startswith("all and second both have observation 'two', 6,000 samples")
    assert main(["coadd", *(str(tmp_path / n) for n in ("all", "second")), "-o", str(tmp_path / "c")]) == 0
    found = [one.name for data in Summary.read(tmp_path / "c").data for one in data.observations]
    assert found == ["one", "two", "two"]


def test_large_records_are_left_out_and_told(made, monkeypatch):
    one = made("one")
    monkeypatch.setattr(data_record, "_MOST_NAMES", 3)
    two = made("two", SCAN.replace("n_side", 'frame = "galactic"\nn_side').replace("6 h", "5 h") + NOISE)
    assert Summary.read(two).data == ()
    (text,) = warned(one, two)
    assert text.startswith("the summaries of two do not tell which observations they have")


def test_a_record_has_each_set_of_detectors_once():
    config = parse_config(SCAN.format(name="x") + NOISE)
    observations = open_sources(config)
    (data,) = data_records(config, observations)
    assert data.detectors == observations[0].detectors and len(data.observations) == 2
    assert data.observations[1].start == observations[1].start_time
