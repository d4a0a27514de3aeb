"""Conventions of map files: pixels not observed, names of columns and frames, signs of polarization."""

from __future__ import annotations

import re

import numpy as np

from petacomm.base.typing import FloatArray

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


def parse_stokes(name: str) -> str | None:
    """Return I, Q or U if a column has one of the usual names of these, else None."""
    word = re.sub(r"[- ]", "_", name.strip().upper())
    return next((stokes for stokes, words in _STOKES_WORDS.items() if word in words), None)


def parse_frame(word: str) -> str | None:
    """Return the coordinate frame of a COORDSYS value, or None if it is not known."""
    upper = word.strip().upper()
    return next((frame for frame, words in _FRAME_WORDS.items() if upper in words), None)


def iau_to_cosmo_signs(names: tuple[str, ...]) -> FloatArray:
    """Return the factors of columns between the IAU and COSMO conventions: U changes sign."""
    return np.where(np.isin(names, _ODD_IN_U), -1.0, 1.0)
