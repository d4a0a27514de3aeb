"""Units of maps: K_CMB, K_RJ and MJy/sr with their prefixes, conversions, products and ratios."""

from __future__ import annotations

import re

import numpy as np

from petacomm.base.arguments import require_text
from petacomm.base.errors import ConfigError, DataError
from petacomm.base.units import unit_spellings
from petamap.sky.component_spectra import BOLTZMANN, thermodynamic_conversion

SPEED_OF_LIGHT = 299792458.0  # m/s
_LEAST_FREQUENCY = 1e6  # Hz: a smaller number was meant in GHz
_JANSKY = 1e-26  # W / (m^2 Hz)

_PREFIXES = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "micro": 1e-6, "m": 1e-3, "milli": 1e-3,
    "k": 1e3, "M": 1e6,
}  # fmt: skip
_KELVIN = re.compile(
    r"\(?(?P<prefix>milli|micro|[munµμ]?) ?K(?:elvin)?"
    r"[_ ,(]*(?i:cmb|thermodynamic|thermo)?\)*(?P<power>(?:\^|\*\*)?2)?"
)
_KELVIN_RJ = re.compile(
    r"\(?(?P<prefix>milli|micro|[munµμ]?) ?K(?:elvin)?[_ ,(]*(?i:rj|rayleigh[- ]?jeans)\)*"
    r"(?P<power>(?:\^|\*\*)2)?"
)
_INTENSITY = re.compile(
    r"\(?(?P<prefix>[kMmunµμ]?)Jy(?: ?/ ?sr| sr(?:\^|\*\*)?-1)\)?(?P<power>(?:\^|\*\*)2)?"
)
_BASES = {"K_CMB": _KELVIN, "K_RJ": _KELVIN_RJ, "Jy/sr": _INTENSITY}
# words for units of temperature, whose capitals make no difference; of mK they do, as MK is mega
_SYMBOL_OF = {
    word.casefold(): symbol
    for symbol in ("K", "mK", "uK", "nK")
    for word in unit_spellings(symbol)
    if word not in ("K", "mK")
}
_WORD = re.compile(r"[^\W\d_]+")
# what may be meant as a unit of temperature
_LIKE_KELVIN = re.compile(
    r"(?<![a-z])(?:[munµμ]|milli|micro|nano)?[ -]?k(?:elvins?)?(?![a-z])", re.IGNORECASE
)
_RAYLEIGH_JEANS = re.compile(r"K.*(?:rj|rayleigh|antenna)", re.IGNORECASE)


def to_kelvin(unit: str) -> tuple[float, str]:
    """Return the factor from a unit to K_CMB or K_CMB^2 and the new unit; (1, unit) for other units.

    >>> to_kelvin("mK")
    (0.001, 'K_CMB')
    """
    match = _KELVIN.fullmatch(_in_symbols(require_text(unit, "unit")))
    if match is None:
        return 1.0, unit.strip()
    factor = _PREFIXES[match["prefix"]]
    return (factor * factor, "K_CMB^2") if match["power"] else (factor, "K_CMB")


def _in_symbols(unit: str) -> str:
    """Return a unit with symbols for the words of units of temperature."""
    return _WORD.sub(lambda word: _SYMBOL_OF.get(word[0].casefold(), word[0]), unit.strip())


def temperature_factor(unit: str) -> float | None:
    """Return the factor from a unit of temperature, of petamap or of astropy, to K_CMB; None for others.

    >>> temperature_factor("microkelvin"), temperature_factor("K_RJ")
    (1e-06, None)
    """
    factor, kelvin = to_kelvin(unit)
    if kelvin == "K_CMB":
        return factor
    return _of_astropy(unit) if _parse(unit) is None and _LIKE_KELVIN.search(unit) else None


def _of_astropy(unit: str) -> float | None:
    """Return the factor from a unit that astropy reads as one of temperature to K; None for others."""
    import warnings

    from astropy import units

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", units.UnitsWarning)
            return float(units.Unit(unit).to(units.K))
    except (ValueError, TypeError, units.UnitsError):
        return None


def is_misspelled_kelvin(unit: str) -> bool:
    """Return whether a unit seems to be one of temperature, but is none that is understood."""
    if (
        not unit
        or _parse(unit) is not None
        or not _LIKE_KELVIN.fullmatch(re.sub(r"(?i)[_ (]*cmb\)?$", "", unit))
    ):
        return False
    return temperature_factor(unit) is None


def unit_card(unit: str) -> str:
    """Return a unit as FITS writes it, in ASCII: micro is u."""
    return re.sub("[µμ]", "u", unit).encode("ascii", "backslashreplace").decode()


def unit_mend(unit: str, wanted: str) -> str:
    """Return how a map in `unit` is made one in `wanted`: the remedy of an error."""
    if not unit:
        return f'say unit = "{wanted}", if the map is in it'
    if _RAYLEIGH_JEANS.search(unit) and wanted == "K_CMB":
        return (
            "multiply its values by (e^x - 1)^2 / (x^2 e^x), x = frequency / 56.79 GHz, as "
            "astropy.units.thermodynamic_temperature does, and write K_CMB as its unit (TUNITn)"
        )
    return f"convert its values to {wanted}, and its unit (TUNITn)"


def convert_unit(unit: str, wanted: str, frequency: float | None) -> tuple[float, str]:
    """Return the factor from one unit to another and how the other is written.

    T_RJ = T_CMB / u, and the intensity is 2 nu^2 k T_RJ / c^2, with u the K_CMB of one K_RJ
    (`component_spectra`): small differences, at one frequency.

    Parameters
    ----------
    unit, wanted : str
        K_CMB, K_RJ or Jy/sr with any prefix, or the square of one.
    frequency : float or None
        Hz; needed between different ones of these three.

    Raises
    ------
    ConfigError
        If `wanted` is not known, or the frequency is missing.
    DataError
        If the map's unit is not known, or one of the two is a square.
    """
    old, new = _parse(unit), _parse(wanted)
    if new is None:
        raise ConfigError(f"unknown unit '{wanted}' of a map", mend=f"known: {_known()}")
    if old is None:
        said = f"is '{unit}'" if unit else "is not known"
        raise DataError(f"the unit of the map {said}, which has no conversion to {wanted}")
    if old[2] != new[2]:
        raise DataError(f"'{unit}' and '{wanted}' differ in their power", mend='write squares as "uK_CMB^2"')
    factor = old[0] / new[0]
    if old[1] != new[1]:
        if frequency is None:
            example = f'to_unit("{wanted}", frequency="70 GHz")'
            raise ConfigError(f"from {unit} to {wanted} depends on the frequency", mend=f"say {example}")
        if np.ndim(frequency) or not np.isfinite(frequency) or frequency < _LEAST_FREQUENCY:
            raise ConfigError(f"a frequency of {frequency} Hz", mend='say its unit: frequency="100 GHz"')
        factor *= _in_kelvin_rj(old[1], frequency) / _in_kelvin_rj(new[1], frequency)
    return factor ** new[2], _spelled(wanted, new[1], new[2])


def _parse(unit: str) -> tuple[float, str, int] | None:
    """Return factor of the prefix, base and power of a unit; None for others."""
    require_text(unit, "unit")
    for base, pattern in _BASES.items():
        match = pattern.fullmatch(_in_symbols(unit))
        if match is not None:
            return _PREFIXES[match["prefix"]], base, 2 if match["power"] else 1
    return None


def _known() -> str:
    return "K_CMB, K_RJ and Jy/sr with a prefix (uK_CMB, MJy/sr), and their squares (K_CMB^2)"


def _in_kelvin_rj(base: str, frequency: float) -> float:
    """Return the K_RJ of one K_CMB, K_RJ or Jy/sr."""
    if base == "K_CMB":
        return 1.0 / float(thermodynamic_conversion(np.array(frequency)))
    return 1.0 if base == "K_RJ" else _JANSKY * SPEED_OF_LIGHT**2 / (2 * BOLTZMANN * frequency**2)


def _spelled(unit: str, base: str, power: int) -> str:
    """Return a unit as maps of petamap write it."""
    match = _BASES[base].fullmatch(_in_symbols(unit))
    prefix = (
        {"micro": "u", "milli": "m", "µ": "u", "μ": "u"}.get(match["prefix"], match["prefix"])
        if match
        else ""
    )
    return squared_unit(prefix + base) if power == 2 else prefix + base


def squared_unit(unit: str) -> str:
    """Return the square of a unit."""
    return f"({unit})^2" if re.search(r"[ /]", unit) else f"{unit}^2"


def product_unit(one: str, other: str) -> str:
    """Return the unit of a product.

    >>> product_unit("K_CMB", ""), product_unit("K_CMB", "K_CMB")
    ('K_CMB', 'K_CMB^2')
    """
    if not one or not other:
        return one or other
    if one == f"1/{other}" or other == f"1/{one}":
        return ""
    return squared_unit(one) if one == other else f"{one} {other}"


def ratio_unit(one: str, other: str) -> str:
    """Return the unit of a ratio.

    >>> ratio_unit("K_CMB", "K_CMB"), ratio_unit("K_CMB^2", "K_CMB"), ratio_unit("", "K_CMB")
    ('', 'K_CMB', '1/K_CMB')
    """
    if one == other or not other:
        return "" if one == other else one
    if one == squared_unit(other):
        return other
    divisor = f"({other})" if re.search(r"[ /]", other) else other
    return f"{one or 1}/{divisor}"
