"""Sky frames: the constant rotations between them, and the turning horizon of a site."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import ConfigError, did_you_mean
from petacomm.base.typing import FloatArray
from petamap.pointing import quaternion

Frame = Literal["equatorial", "galactic", "ecliptic"]
FRAMES: tuple[Frame, ...] = ("equatorial", "galactic", "ecliptic")

# From equatorial (ICRS) coordinates, (x, y, z, w): astropy's Galactic, BarycentricMeanEcliptic of J2000.
_FROM_EQUATORIAL: dict[str, tuple[float, float, float, float]] = {
    "equatorial": (0.0, 0.0, 0.0, 1.0),
    "galactic": (-0.48321068123112765, 0.1962537406025645, 0.699229789236555, 0.48894744982242594),
    "ecliptic": (-0.20312295547899073, 4.663023617308873e-08, 2.6472029493161163e-08, 0.9791532387514618),
}

_SIDEREAL_RATE = 2 * math.pi * 1.00273781191135448 / 86400  # radians a second of UT1
_UNIX_EPOCH = 2440587.5  # Julian date
_TT_MINUS_UTC = 69.184  # seconds, since 2017; a second of it is worth 2e-6 arcsec here


def rotation(given: str, wanted: str) -> FloatArray:
    """Return the quaternion that turns vectors of frame `given` into those of frame `wanted`.

    Raises
    ------
    ConfigError
        For an unknown frame.
    """
    for name in (given, wanted):
        if name not in _FROM_EQUATORIAL:
            raise ConfigError(f"unknown frame '{name}'", mend=did_you_mean(name, list(_FROM_EQUATORIAL)))
    return quaternion.multiply(_FROM_EQUATORIAL[wanted], quaternion.conjugate(_FROM_EQUATORIAL[given]))


def horizon_to_equatorial(unix_seconds: npt.ArrayLike, latitude: float, longitude: float) -> FloatArray:
    """Return the quaternions (n, 4) from the horizon (X north, Y west, Z zenith) to equatorial (ICRS)
    coordinates.

    Precession and nutation (IAU 2006/2000A) are those of the first time given; from there the Earth turns
    uniformly. UT1 is taken as UTC, and aberration, refraction and polar motion are left out: directions are
    within 35 arcsec of the complete chain (13.5 from UT1, 20.8 from aberration).

    Parameters
    ----------
    unix_seconds : (n,) float
    latitude, longitude : float
        Geodetic, east positive, radians.
    """
    import erfa

    times = np.atleast_1d(np.asarray(unix_seconds, dtype=np.float64))
    days = times[0] / 86400
    terrestrial = days + _TT_MINUS_UTC / 86400
    sidereal = erfa.gst06a(_UNIX_EPOCH, days, _UNIX_EPOCH, terrestrial)
    of_date = quaternion.from_matrix(erfa.pnm06a(_UNIX_EPOCH, terrestrial))
    turn = quaternion.about_z(sidereal + longitude + _SIDEREAL_RATE * (times - times[0]))
    zenith = quaternion.multiply(quaternion.about_y(math.pi / 2 - latitude), quaternion.about_z(math.pi))
    return quaternion.multiply(quaternion.conjugate(of_date), quaternion.multiply(turn, zenith))


def at_horizon(azimuth: npt.ArrayLike, elevation: npt.ArrayLike) -> FloatArray:
    """Return quaternions that look at azimuth (from north to east) and elevation, X pointing down.

    Radians, in the frame of `horizon_to_equatorial`.
    """
    return quaternion.from_angles(
        math.pi / 2 - np.asarray(elevation, float), -np.asarray(azimuth, float), 0.0
    )
