"""Sky maps in memory, and the interpretation of column names, units and frames of map files."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray
from petamap.sky.pixelization import Pixelization
from petamap.sky.stokes import Stokes

UNSEEN = -1.6375e30  # HEALPix convention for pixels not observed

# coordinate frames: COORDSYS as written, and the values accepted when reading
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
# columns that change sign between the IAU and COSMO polarization conventions
_ODD_IN_U = ("U", "IU", "QU")
_PREFIXES = {"": 1.0, "m": 1e-3, "milli": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "micro": 1e-6, "n": 1e-9}
_KELVIN = re.compile(
    r"\(?(?P<prefix>milli|micro|[munµμ]?) ?K(?:elvin)?"
    r"[_ ,(]*(?i:cmb|thermodynamic|thermo)?\)*(?P<power>(?:\^|\*\*)2)?"
)
_RAYLEIGH_JEANS = re.compile(r"K.*(?:rj|rayleigh|antenna)", re.IGNORECASE)


@dataclass(frozen=True)
class SkyMap:
    """Map in memory: one or more columns of values on pixels.

    Parameters
    ----------
    values : float64 array, shape (n_columns, n_pix)
        nan where a pixel was not observed.
    pixelization : Pixelization
        Pixelization of the columns.
    names : tuple of str
        Names of the columns: ``("I", "Q", "U")``, or the names in the file.
    units : tuple of str
        Units of the columns: ``K_CMB`` or ``K_CMB^2`` if the file has kelvin with any prefix, else as in the
        file; empty if unknown.
    frame : str or None
        equatorial, galactic or ecliptic; None if unknown.
    polarization : str or None
        ``COSMO`` if a column depends on the convention (IAU is converted when reading), else None.
    warnings : tuple of str
        Assumptions made because the file does not give the information.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> sky = petamap.Healpix(1)
    >>> values = np.zeros((3, sky.n_pix))
    >>> sky_map = petamap.SkyMap(values, sky, ("I", "Q", "U"), ("K_CMB",) * 3, frame="galactic")
    >>> sky_map.stokes.value, sky_map.unit
    ('IQU', 'K_CMB')
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
        """Stokes parameters of the columns; None if the columns are not Stokes parameters."""
        joined = "".join(self.names)
        return Stokes(joined) if joined in ("I", "QU", "IQU") else None

    @property
    def unit(self) -> str:
        """Unit of all columns.

        Raises
        ------
        DataError
            If the columns have different units.
        """
        if len(set(self.units)) > 1:
            raise DataError(f"the columns have different units: {', '.join(self.units)}")
        return self.units[0]


def parse_stokes(name: str) -> str | None:
    """Return I, Q or U if a column has one of the usual names of these, else None."""
    word = re.sub(r"[- ]", "_", name.strip().upper())
    return next((stokes for stokes, words in _STOKES_WORDS.items() if word in words), None)


def parse_frame(word: str) -> str | None:
    """Return the coordinate frame of a COORDSYS value, or None if it is not known."""
    upper = word.strip().upper()
    return next((frame for frame, words in _FRAME_WORDS.items() if upper in words), None)


def to_kelvin(unit: str) -> tuple[float, str]:
    """Return the factor from a unit to K_CMB or K_CMB^2 and the new unit; (1, unit) for other units.

    >>> to_kelvin("mK")
    (0.001, 'K_CMB')
    """
    match = _KELVIN.fullmatch(unit.strip())
    if match is None:
        return 1.0, unit.strip()
    factor = _PREFIXES[match["prefix"]]
    return (factor * factor, "K_CMB^2") if match["power"] else (factor, "K_CMB")


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


def iau_to_cosmo_signs(names: tuple[str, ...]) -> FloatArray:
    """Return the factors of columns between the IAU and COSMO conventions: U changes sign."""
    return np.where(np.isin(names, _ODD_IN_U), -1.0, 1.0)
