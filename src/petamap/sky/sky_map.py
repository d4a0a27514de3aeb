"""A map in memory, and what names, units and conventions of map files mean."""

from __future__ import annotations

import re
from dataclasses import dataclass

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes

UNSEEN = -1.6375e30  # HEALPix: the value of a pixel not observed

# coordinate frames: COORDSYS as written, and the words found in files
FRAME_LETTERS = {"galactic": "G", "equatorial": "C", "ecliptic": "E"}
_FRAME_WORDS = {
    "galactic": ("G", "GAL", "GALACTIC"),
    "equatorial": ("C", "Q", "CEL", "CELESTIAL", "EQUATORIAL", "EQU", "RADEC", "ICRS", "FK5"),
    "ecliptic": ("E", "ECL", "ECLIPTIC"),
}
_STOKES_WORDS = {
    "I": ("I", "T", "TEMPERATURE", "INTENSITY", "I_STOKES", "STOKES_I"),
    "Q": ("Q", "Q_POLARISATION", "Q_POLARIZATION", "Q_STOKES", "STOKES_Q"),
    "U": ("U", "U_POLARISATION", "U_POLARIZATION", "U_STOKES", "STOKES_U"),
}
# columns that change sign between the IAU and COSMO conventions
_ODD_IN_U = ("U", "IU", "QU")
_PREFIXES = {"": 1.0, "m": 1e-3, "milli": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "micro": 1e-6, "n": 1e-9}
_KELVIN = re.compile(
    r"\(?(?P<prefix>milli|micro|[munµμ]?) ?K(?:elvin)?"
    r"[_ ,(]*(?i:cmb|thermodynamic|thermo)?\)*(?P<power>(?:\^|\*\*)2)?"
)


@dataclass(frozen=True)
class SkyMap:
    """Columns of numbers on pixels.

    Attributes
    ----------
    values : float64 array, shape (n_columns, n_pix)
        nan where a pixel was not observed.
    pixelization : Pixelization
    names : tuple of str
        Of the columns: ``("I", "Q", "U")``, or whatever the file calls them.
    units : tuple of str
        Of the columns; ``K_CMB`` or ``K_CMB^2`` where the file has any prefix of kelvin, else as in the file,
        empty where unknown.
    frame : str or None
        equatorial, galactic or ecliptic; None where unknown.
    polarization : str or None
        ``COSMO`` where there are columns that depend on it (IAU is converted), else None.
    warnings : tuple of str
        What had to be assumed.
    """

    values: FloatArray
    pixelization: Pixelization
    names: tuple[str, ...]
    units: tuple[str, ...]
    frame: str | None = None
    polarization: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def stokes(self) -> Stokes | None:
        """The Stokes parameters, None where the columns are others."""
        joined = "".join(self.names)
        return Stokes(joined) if joined in ("I", "QU", "IQU") else None

    @property
    def unit(self) -> str:
        """The unit of all columns.

        Raises
        ------
        DataError
            If they have different ones.
        """
        if len(set(self.units)) > 1:
            raise DataError(f"the columns have different units: {', '.join(self.units)}")
        return self.units[0]


def stokes_of_name(name: str) -> str | None:
    """Return I, Q or U where a column is called by one of their usual names, else None."""
    word = re.sub(r"[- ]", "_", name.strip().upper())
    return next((stokes for stokes, words in _STOKES_WORDS.items() if word in words), None)


def frame_of_word(word: str) -> str | None:
    """Return the frame that a COORDSYS value means, None for none."""
    upper = word.strip().upper()
    return next((frame for frame, words in _FRAME_WORDS.items() if upper in words), None)


def to_kelvin(unit: str) -> tuple[float, str]:
    """Return the factor from a unit to K_CMB (or K_CMB^2) and its name; (1, unit) where it is no such unit.

    >>> to_kelvin("mK")
    (0.001, 'K_CMB')
    """
    match = _KELVIN.fullmatch(unit.strip())
    if match is None:
        return 1.0, unit.strip()
    factor = _PREFIXES[match["prefix"]]
    return (factor * factor, "K_CMB^2") if match["power"] else (factor, "K_CMB")


def is_polarized(names: tuple[str, ...]) -> bool:
    """Return whether any column depends on the polarization convention."""
    return any(name in _ODD_IN_U for name in names)


def iau_signs(names: tuple[str, ...]) -> list[float]:
    """Return the factors of columns between IAU and COSMO: U is counted the other way."""
    return [-1.0 if name in _ODD_IN_U else 1.0 for name in names]
