"""Quantities as configurations are written with them, against the reader of units."""

from hypothesis import given, settings
from hypothesis import strategies as st

from petacomm.base.units import parse_quantity, units_by_dimension
from petamap.data.config.writer import format_quantity

finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(st.sampled_from(sorted(units_by_dimension())), finite)
def test_quantities_are_written_exactly(dimension, number):
    assert parse_quantity(format_quantity(number, dimension), dimension) == number


def test_units_of_written_quantities():
    assert format_quantity(parse_quantity("7.5 arcmin", "angle"), "angle") == "7.5 arcmin"
    assert format_quantity(64 * 2**20, "bytes") == "64 MiB"
    assert format_quantity(parse_quantity("50 mHz", "frequency"), "frequency") == "50 mHz"
    assert format_quantity(0.0, "time") == "0 s"
