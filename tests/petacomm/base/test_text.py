"""Numbers with units, as tables show them."""

import pytest

from petacomm.base.text import format_bytes, format_seconds


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (0.5, "0.5 B"),
        (999, "999 B"),
        (999.6, "1 kB"),
        (1000, "1 kB"),
        (1024, "1.02 kB"),
        (999_400, "999 kB"),
        (999_600, "1 MB"),
        (1_310_720, "1.31 MB"),
        (2.5e12, "2.5 TB"),
        (3.25e15, "3.25 PB"),
        (4.5e18, "4,500 PB"),
    ],
)
def test_bytes_have_the_unit_of_which_there_is_one_or_more(n_bytes, text):
    assert format_bytes(n_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "digits", "text"),
    [
        (None, 4, "-"),
        (0.0, 3, "0 us"),
        (4.34e-5, 3, "43.4 us"),
        (9.996e-4, 3, "1 ms"),
        (9.996e-4, 4, "999.6 us"),
        (0.9996, 3, "1 s"),
        (-2.5e-3, 3, "-2.5 ms"),
        (2345.0, 3, "2,340 s"),
        (86400.0, 4, "86,400 s"),
    ],
)
def test_seconds_too(seconds, digits, text):
    assert format_seconds(seconds, digits) == text
