"""Parsing of quantities with units; internal units are SI, radians and K_CMB."""

from __future__ import annotations

import math

from petacomm.base.errors import ConfigError, did_you_mean

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


def parse_quantity(text: str, dimension: str) -> float:
    """Return a quantity such as ``"7.5 arcmin"`` as a number in the internal unit of `dimension`.

    Raises
    ------
    ConfigError
        If the text is not a number followed by a unit of that dimension.
    """
    number, _, unit = text.strip().partition(" ")
    factors = _FACTORS[dimension]
    unit = unit.strip()
    if unit not in factors:
        raise ConfigError(
            f"unknown {dimension} unit '{unit}' in '{text}'", mend=did_you_mean(unit, list(factors))
        )
    try:
        return float(number) * factors[unit]
    except ValueError:
        raise ConfigError(
            f"'{text}' is not a number with a unit", mend=f'write it like "7.5 {unit}"'
        ) from None


def units_by_dimension() -> dict[str, tuple[str, ...]]:
    """Return the known units of each dimension."""
    return {name: tuple(factors) for name, factors in _FACTORS.items()}
