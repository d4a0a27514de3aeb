"""Quantities with units, as in configurations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from petacomm.base.errors import ConfigError
from petacomm.base.units import (
    ARCMIN,
    ARCSEC,
    DEGREE,
    as_number,
    parse_quantity,
    plain_values,
    unit_spellings,
    units_by_dimension,
)


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
        ("2 hours", "time", 7200.0),
        ("3h", "time", 10800.0),
        ("1e-3s", "time", 1e-3),
        ("60uK s^0.5", "noise", 60e-6),
        ("2 Hours", "time", 7200.0),
        ("90 sec", "time", 90.0),
        ("3 minutes", "time", 180.0),
        ("1 D", "time", 86400.0),
        ("10 hz", "frequency", 10.0),
        ("150 GHZ", "frequency", 150e9),
        ("3 millihertz", "frequency", 3e-3),
        ("5 \N{MICRO SIGN}K", "temperature", 5e-6),
        ("5 \N{GREEK SMALL LETTER MU}Hz", "frequency", 5e-6),
        ("180 Degrees", "angle", math.pi),
        ("180 degrees/second", "speed", math.pi),
        ("60 arcminutes", "angle", math.pi / 180),
        ("60 microkelvin s^0.5", "noise", 60e-6),
        ("60 muK s^0.5", "noise", 60e-6),
        ("2 kelvin/hertz^0.5", "noise", math.sqrt(2)),
        ("1 gibibyte", "bytes", 2.0**30),
    ],
)
def test_values(text, dimension, value):
    assert parse_quantity(text, dimension) == pytest.approx(value, rel=1e-14)


def test_names_give_the_same_bits_as_symbols():
    for dimension, units in units_by_dimension().items():
        for unit in units:
            for name in unit_spellings(unit):
                assert parse_quantity(f"7.3 {name}", dimension) == parse_quantity(f"7.3 {unit}", dimension)


def test_constants():
    assert pytest.approx(DEGREE) == 60 * ARCMIN and pytest.approx(DEGREE) == 3600 * ARCSEC


@pytest.mark.parametrize(
    ("text", "dimension", "words"),
    [
        (
            "7.5 arcmens",
            "angle",
            "did you mean 'arcmin'? understood: rad, deg, arcmin, arcsec, and their names",
        ),
        ("10 mhz", "frequency", "mHz or MHz? understood: Hz, mHz"),
        ("3 MK", "temperature", "did you mean 'mK'?"),
        ("3 Ms", "time", "did you mean 'ms'?"),
        ("3 furlongs", "time", "(understood: s, ms, us, ns, min, h, day, year, and their names, as second)"),
        ("64 gb", "bytes", "did you mean 'GB'?"),
        ("7.5", "angle", "unknown angle unit ''"),
        ("7.5arcmens", "angle", "unknown angle unit 'arcmens' in '7.5arcmens' (did you mean 'arcmin'?"),
        ("1e3", "time", "unknown time unit ''"),
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


@pytest.mark.parametrize(
    ("text", "dimension"),
    [("90 arcmin", "angle"), ("20 mHz", "frequency"), ("2 h", "time"), ("3 uK", "temperature"),
     ("60 uK s(1/2)", "noise"), ("60 uK / Hz(1/2)", "noise")],
)  # fmt: skip
def test_quantities_of_astropy_are_as_text(text, dimension):
    units = pytest.importorskip("astropy.units")
    quantity = units.Quantity(text)
    as_text = text.replace(" / ", "/").replace("(1/2)", "^0.5")
    assert as_number(quantity, dimension) == pytest.approx(as_number(as_text, dimension), rel=1e-14)
    np.testing.assert_allclose(
        plain_values(quantity * np.arange(3.0), dimension), as_number(as_text, dimension) * np.arange(3.0)
    )
    with pytest.raises(ConfigError, match="width: 'm' is no unit of"):
        plain_values(units.Quantity("3 m"), dimension, "width")


def test_what_other_packages_hold_to_be_equivalent_is_not():
    units = pytest.importorskip("astropy.units")
    with (
        units.set_enabled_equivalencies(units.spectral()),
        pytest.raises(ConfigError, match="'m' is no unit of frequency"),
    ):
        plain_values(units.Quantity("3 m"), "frequency")


def test_what_has_no_unit_stays_as_it_is():
    array = np.arange(3.0)
    assert plain_values(array, "angle") is array and as_number(2.5, "time") == 2.5


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e290, max_value=1e290), st.data())
def test_all_units_of_all_dimensions_are_parsed(number, data):
    dimension = data.draw(st.sampled_from(sorted(units_by_dimension())))
    unit = data.draw(st.sampled_from(units_by_dimension()[dimension]))
    value = number * parse_quantity(f"1 {unit}", dimension)
    assert (
        parse_quantity(f"{number!r} {unit}", dimension)
        == parse_quantity(f"{number!r}{unit}", dimension)
        == value
    )
