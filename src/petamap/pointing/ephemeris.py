"""Directions of the Sun, the Moon and the planets, by ERFA's ephemerides: without files and a network."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import require_known
from petacomm.base.typing import FloatArray
from petamap.pointing import frames, quaternion

AU = 149597870700.0  # m
EQUATOR, ECCENTRICITY_SQUARED = 6378137.0, 0.00669437999014  # of the Earth (WGS84); m
_LIGHT_TIME = 499.004783836  # seconds, of an AU
_PLANETS = {"mercury": 1, "venus": 2, "mars": 4, "jupiter": 5, "saturn": 6, "uranus": 7, "neptune": 8}
BODIES = ("sun", "moon", *_PLANETS)


def body_directions(body: str, times: npt.ArrayLike, site: tuple[float, float] | None = None) -> FloatArray:
    """Return the astrometric directions of a body, seen from the centre of the Earth or from a site.

    Light time is taken into account, aberration (20.5 arcsec) is not. Of the ephemerides (epv00; moon98 after
    Meeus 1998; plan94 after Simon et al. 1994), the largest errors are below 1 arcsec for the Sun, 12 arcsec
    for the Moon, and 4, 5, 17, 71, 81, 86 and 11 arcsec in the longitudes of the planets about the Sun.

    Parameters
    ----------
    body : str
        One of `BODIES`.
    times : (n,) float
        Unix seconds.
    site : (float, float), optional
        Geodetic latitude and longitude (east positive) of the observer in radians, at sea level; without it
        the Moon is up to a degree away. Its precession is that of the first of the times.

    Returns
    -------
    float64 (n, 3)
        Unit vectors, equatorial (ICRS).

    Raises
    ------
    ConfigError
        If the body is not known.
    """
    require_known("unknown body", body, BODIES)
    seconds = np.atleast_1d(np.asarray(times, np.float64))
    vectors = _geocentric(body, seconds, 0.0)
    vectors = _geocentric(body, seconds, _LIGHT_TIME * np.linalg.norm(vectors, axis=1))
    if site is not None:
        vectors = vectors - site_positions(seconds, *site) / AU
    directions: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return directions


def site_positions(times: npt.ArrayLike, latitude: float, longitude: float) -> FloatArray:
    """Return the position of a site at sea level against the centre of the Earth.

    Parameters
    ----------
    times : (n,) float
        Unix seconds.
    latitude, longitude : float
        Geodetic, radians, east positive.

    Returns
    -------
    float64 (n, 3)
        Metres, equatorial (ICRS).
    """
    seconds = np.asarray(times, np.float64)
    sine, cosine = math.sin(latitude), math.cos(latitude)
    radius = EQUATOR / math.sqrt(1 - ECCENTRICITY_SQUARED * sine**2)
    # to the north, to the west and to the zenith of the ellipsoid
    local = [
        -radius * ECCENTRICITY_SQUARED * sine * cosine,
        0.0,
        radius * (1 - ECCENTRICITY_SQUARED * sine**2),
    ]
    start = float(seconds[0])
    return quaternion.rotate(frames.horizon_to_equatorial(start, seconds - start, latitude, longitude), local)


def _geocentric(body: str, times: FloatArray, delay: FloatArray | float) -> FloatArray:
    """Return the position of a body `delay` seconds ago against the Earth now, AU, (n, 3)."""
    import erfa

    now = (times + frames.TT_MINUS_UTC) / 86400
    then = (times + frames.TT_MINUS_UTC - delay) / 86400
    heliocentric, barycentric = (part["p"] for part in erfa.epv00(frames.UNIX_EPOCH, now))
    if body == "moon":
        moved = erfa.epv00(frames.UNIX_EPOCH, then)[1]["p"] - barycentric  # 40 km while light is on its way
        position: FloatArray = erfa.moon98(frames.UNIX_EPOCH, then)["p"] + moved
    elif body == "sun":
        position = -heliocentric
    else:
        position = erfa.plan94(frames.UNIX_EPOCH, then, _PLANETS[body])["p"] - heliocentric
    return position
