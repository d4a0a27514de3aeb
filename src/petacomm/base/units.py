"""Parsing of quantities with units; internal units are SI, radians and K_CMB."""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone
from typing import Any

from petacomm.base.errors import ConfigError, closest

ARCMIN = math.pi / 180 / 60
ARCSEC = ARCMIN / 60
DEGREE = math.pi / 180

# factor to the internal unit, by dimension
_FACTORS: dict[str, dict[str, float]] = {
    "angle": {"rad": 1.0, "deg": DEGREE, "arcmin": ARCMIN, "arcsec": ARCSEC},
    "speed": {"rad/s": 1.0, "deg/s": DEGREE, "arcmin/s": ARCMIN, "arcsec/s": ARCSEC},
    "acceleration": {"rad/s^2": 1.0, "deg/s^2": DEGREE, "arcmin/s^2": ARCMIN, "arcsec/s^2": ARCSEC},
    "frequency": {"Hz": 1.0, "mHz": 1e-3, "kHz": 1e3, "uHz": 1e-6, "MHz": 1e6, "GHz": 1e9},
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "day": 86400.0,
             "year": 31557600.0},
    "temperature": {"K": 1.0, "mK": 1e-3, "uK": 1e-6, "nK": 1e-9},
    "noise": {"K s^0.5": 1.0, "mK s^0.5": 1e-3, "uK s^0.5": 1e-6, "K/Hz^0.5": math.sqrt(0.5),
              "mK/Hz^0.5": 1e-3 * math.sqrt(0.5), "uK/Hz^0.5": 1e-6 * math.sqrt(0.5)},
    "bandwidth": {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9},
    "bytes": {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3},
}  # fmt: skip

# internal units as astropy writes them
_ASTROPY_UNITS = {
    "angle": "rad", "frequency": "Hz", "time": "s", "temperature": "K", "noise": "K s(1/2)",
    "spectrum": "K2 Hz-1",
}  # fmt: skip

# names of the words of units, in lower case; capitals make no difference to them
_NAMES: dict[str, tuple[str, ...]] = {
    "rad": ("radian", "radians"),
    "deg": ("degree", "degrees", "degs"),
    "arcmin": ("arcminute", "arcminutes", "arcmins"),
    "arcsec": ("arcsecond", "arcseconds", "arcsecs"),
    "Hz": ("hertz",), "mHz": ("millihertz",), "kHz": ("kilohertz",), "uHz": ("microhertz", "μhz"),
    "MHz": ("megahertz",), "GHz": ("gigahertz",),
    "s": ("second", "seconds", "sec", "secs"), "ms": ("millisecond", "milliseconds"),
    "us": ("microsecond", "microseconds", "μs"), "ns": ("nanosecond", "nanoseconds"),
    "min": ("minute", "minutes", "mins"), "h": ("hour", "hours", "hr", "hrs"),
    "day": ("days", "d"), "year": ("years", "yr", "yrs"),
    "K": ("kelvin", "kelvins"), "mK": ("millikelvin", "millikelvins"),
    "uK": ("microkelvin", "microkelvins", "muk", "μk"), "nK": ("nanokelvin", "nanokelvins"),
    "B": ("byte", "bytes"), "kB": ("kilobyte", "kilobytes"), "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"), "KiB": ("kibibyte", "kibibytes"), "MiB": ("mebibyte", "mebibytes"),
    "GiB": ("gibibyte", "gibibytes"),
}  # fmt: skip

# symbols that capitals cannot turn into others, as they do mHz and MHz (mega), mK and MK, or GB and Gb (bits)
_CASELESS = (
    "rad", "deg", "arcmin", "arcsec", "Hz", "kHz", "uHz", "GHz", "s", "us", "ns", "min", "h", "day", "year",
    "uK", "nK",
)  # fmt: skip

_SYMBOL_OF = {symbol.casefold(): symbol for symbol in _CASELESS} | {
    name.casefold(): symbol for symbol, names in _NAMES.items() for name in names
}
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_PERCENTAGE = re.compile(r"(?P<number>[0-9]{1,9}(\.[0-9]{1,9})?)% of (?P<whole>\w+)", re.ASCII)


def split_quantity(text: str) -> tuple[str, str]:
    """Return the number and the unit of a text, with or without a space between them."""
    text = text.strip()
    found = _NUMBER.match(text)
    number = found[0] if found else text.partition(" ")[0]
    return number, " ".join(text[len(number) :].split())


def parse_quantity(text: str, dimension: str) -> float:
    """Return a quantity such as ``"7.5 arcmin"`` as a number in the internal unit of `dimension`.

    A space before the unit may be left out, as in ``"3h"``. Names of units are understood beside their
    symbols, ``"2 hours"`` as ``"2 h"``, in capitals or not; so are symbols, ``"10 hz"``, unless capitals
    would make another unit of them, as of mHz and MHz.

    Raises
    ------
    ConfigError
        If the text is not a number followed by a unit of that dimension.
    """
    number, unit = split_quantity(text)
    factors = _FACTORS[dimension]
    symbol = unit if unit in factors else _WORD.sub(_symbol, unit)
    if symbol not in factors:
        raise ConfigError(
            f"unknown {dimension} unit '{unit}' in '{text}'", mend=_understood(symbol, list(factors))
        )
    try:
        return float(number) * factors[symbol]
    except ValueError:
        raise ConfigError(
            f"'{text}' is not a number with a unit", mend=f'write it like "7.5 {symbol}"'
        ) from None


def as_number(value: Any, dimension: str) -> float:
    """Return a number as it is, text as `parse_quantity` does, quantities of astropy as `plain_values`."""
    if isinstance(value, str):
        return parse_quantity(value, dimension)
    number: float = value if quantity_of(value) is None else float(plain_values(value, dimension))
    return number


def quantity_of(value: Any) -> Any:
    """Return a quantity of astropy, also that of a column of a table; None of what has no unit."""
    if getattr(value, "unit", None) is None:
        return None
    return value if hasattr(value, "to_value") else getattr(value, "quantity", None)


def plain_values(value: Any, dimension: str, what: str | None = None) -> Any:
    """Return a quantity of astropy in the internal unit of `dimension`, without a unit; others as they are.

    Noise per root of hertz is converted to that of samples, as text is: K/Hz^0.5 are sqrt(0.5) K s^0.5.

    Parameters
    ----------
    value : Quantity, Column, number or array
    dimension : str
    what : str, optional
        What it is, for errors.

    Raises
    ------
    ConfigError
        If the unit is not of that dimension.
    """
    quantity = quantity_of(value)
    if quantity is None:
        return value
    per_root_hertz = dimension == "noise" and any(str(one).endswith("Hz") for one in quantity.unit.bases)
    try:
        # without equivalencies that other packages enable for all, by which a length may be a frequency
        plain = quantity.to_value(_ASTROPY_UNITS[dimension], equivalencies=None)
    except ValueError:
        raise ConfigError(f"'{value.unit}' is no unit of {dimension}", where=what, mend=None) from None
    return math.sqrt(0.5) * plain if per_root_hertz else plain


def parse_percentage(text: str, whole: str) -> float:
    """Return the fraction that text such as ``"1% of noise"`` says, above 0 and up to 1.

    Raises
    ------
    ConfigError
        If it is not a percentage of that.
    """
    match = _PERCENTAGE.fullmatch(text)
    if match is None or match["whole"] != whole:
        raise ConfigError(f"'{text}' is not a percentage of {whole}", mend=f'write it like "1% of {whole}"')
    fraction = float(match["number"]) / 100
    if not 0 < fraction <= 1:
        raise ConfigError(f"'{text}' is out of bounds", mend="allowed: above 0%, up to 100%")
    return fraction


def _symbol(word: re.Match[str]) -> str:
    """Return the symbol that a word of a unit stands for, or the word."""
    return _SYMBOL_OF.get(word[0].casefold(), word[0])


def _understood(unit: str, units: list[str]) -> str:
    """Return a remedy that names the most similar unit, if there is just one, and all."""
    same = [known for known in units if known.casefold() == unit.casefold()]
    meant = same[0] if len(same) == 1 else None if same else closest(unit, units)
    question = f"did you mean '{meant}'? " if meant else f"{' or '.join(same)}? " if same else ""
    return f"{question}understood: {', '.join(units)}, and their names, as {_names_of(units[0])}"


def _names_of(unit: str) -> str:
    """Return a unit with its words spelled out."""
    return _WORD.sub(lambda word: _NAMES[word[0]][0], unit)


def units_by_dimension() -> dict[str, tuple[str, ...]]:
    """Return the known units of each dimension."""
    return {name: tuple(factors) for name, factors in _FACTORS.items()}


def unit_spellings(word: str) -> tuple[str, ...]:
    """Return the spellings of a word of a unit: its symbol, and its names in lower case."""
    return (word, *_NAMES.get(word, ()))


def parse_utc(text: str) -> float:
    """Return the Unix time of a text such as ``2026-01-01T00:00:00``, in UTC unless it has a zone.

    Raises
    ------
    ConfigError
        If the text is not a time.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"'{text}' is no time", mend="write it like 2026-01-01T00:00:00") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
