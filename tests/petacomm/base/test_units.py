"""Quantities with units, as in configurations."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.base.units import ARCMIN, ARCSEC, DEGREE, parse_quantity, units_by_dimension


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("180 deg", "angle", math.pi),
        ("  60   arcmin ", "angle", math.pi / 180),
        ("3600 arcsec", "angle", math.pi / 180),
        ("-1e3 mHz", "frequency", -1.0),
        ("1.5 h", "time", 5400.0),
        ("1 year", "time", 365.25 * 86400),
        ("60 uK s^0.5", "noise", 60e-6),
        ("2 K/Hz^0.5", "noise", math.sqrt(2)),
        ("1 GiB", "bytes", 2.0**30),
        ("250 nK", "temperature", 250e-9),
    ],
)
def test_values(text, dimension, value):
    assert parse_quantity(text, dimension) == pytest.approx(value, rel=1e-14)


def test_constants():
    assert pytest.approx(DEGREE) == 60 * ARCMIN and pytest.approx(DEGREE) == 3600 * ARCSEC


@pytest.mark.parametrize(
    ("text", "dimension", "words"),
    [
        ("7.5 arcmins", "angle", "arcmin"),
        ("7.5", "angle", "unknown angle unit ''"),
        ("7.5arcmin", "angle", "unit"),
        ("x deg", "angle", "not a number"),
        ("1 Hz", "time", "unknown time unit 'Hz'"),
        ("", "bytes", "unit"),
        ("1 2 deg", "angle", "unit"),
    ],
)
def test_invalid_quantities_are_errors(text, dimension, words):
    with pytest.raises(ConfigError) as caught:
        parse_quantity(text, dimension)
    assert words in str(caught.value) and caught.value.mend


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e290, max_value=1e290), st.data())
def test_all_units_of_all_dimensions_are_parsed(number, data):
    dimension = data.draw(st.sampled_from(sorted(units_by_dimension())))
    unit = data.draw(st.sampled_from(units_by_dimension()[dimension]))
    assert parse_quantity(f"{number!r} {unit}", dimension) == number * parse_quantity(f"1 {unit}", dimension)
