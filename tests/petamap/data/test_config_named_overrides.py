"""Overrides of sources by kind, and of other tables by name."""

from pathlib import Path

import pytest

from petacomm.base.errors import ConfigError
from petamap.data.config import parse_config

TEXT = """\
[map]
n_side = 16
[[source]]
kind = "satellite"
duration = "1 h"
[[source]]
kind = "noise"
net = "1 mK s^0.5"
[[source]]
kind = "noise"
net = "2 mK s^0.5"
[[split]]
name = "halves"
by = "time"
"""


def read(*overrides):
    return parse_config(TEXT, Path("run.toml"), overrides)


def test_a_source_goes_by_its_kind():
    assert read("source.satellite.duration=3 h").sources[0].options.duration == 10800.0
    assert read("source.2.net=3 mK s^0.5").sources[2].options.net == pytest.approx(3e-3)


def test_a_split_goes_by_its_name():
    assert read("split.halves.n_parts=4").splits[0].n_parts == 4


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("source.noise.net=1 K s^0.5", r"2 sources are of kind 'noise' \(say which: source\.1\.net or "),
        ("source.satelite.duration=1 h", r"no source of kind 'satelite' \(did you mean 'satellite'\?\)"),
        ("source.satellite.n_sidee=1", r"unknown key 'source\.0\.n_sidee'"),
        ("source.satellite.kind=noise", "the kind of a source cannot be overridden"),
        ("split.thirds.n_parts=3", r"no split called 'thirds' \(known: halves\)"),
        ("band.low.frequency=1 GHz", r"no band called 'low' \(there is no band at all\)"),
        ("source.satellite=1", "unknown key 'source.satellite'"),
    ],
)  # fmt: skip
def test_what_is_not_one_table(override, said):
    with pytest.raises(ConfigError, match=said):
        read(override)
