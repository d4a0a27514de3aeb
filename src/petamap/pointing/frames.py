"""Coordinate frames: the constant rotations between sky frames, and the horizon of a site."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from petacomm.base.errors import require_known
from petacomm.base.typing import FloatArray
from petamap.pointing import quaternion

FRAMES = ("equatorial", "galactic", "ecliptic")
OFFSET = "offset"  # frame of offsets from a source, which may move: mapped as they are

# Rotations from equatorial (ICRS), (x, y, z, w), to astropy's Galactic and BarycentricMeanEcliptic (J2000).
_FROM_EQUATORIAL: dict[str, tuple[float, float, float, float]] = {
    "equatorial": (0.0, 0.0, 0.0, 1.0),
    "galactic": (-0.48321068123112765, 0.1962537406025645, 0.699229789236555, 0.48894744982242594),
    "ecliptic": (-0.20312295547899073, 4.663023617308873e-08, 2.6472029493161163e-08, 0.9791532387514618),
}

SIDEREAL_RATE = 2 * math.pi * 1.00273781191135448 / 86400  # radians per second of UT1
UNIX_EPOCH = 2440587.5  # Julian date
TT_MINUS_UTC = 69.184  # seconds, since 2017; an error of 1 s changes directions by 2e-6 arcsec


def frame_rotation(given: str, wanted: str) -> FloatArray:
    """Return the quaternion, (4,), that rotates vectors from frame `given` to frame `wanted`.

    Raises
    ------
    ConfigError
        If a frame is not known.
    """
    for name in (given, wanted):
        require_known("unknown frame", name, _FROM_EQUATORIAL)
    return quaternion.multiply(_FROM_EQUATORIAL[wanted], quaternion.conjugate(_FROM_EQUATORIAL[given]))


def horizon_to_equatorial(
    start_time: float, seconds: npt.ArrayLike, latitude: float, longitude: float
) -> FloatArray:
    """Return quaternions (n, 4) from the horizon frame to the equatorial (ICRS) frame.

    The horizon frame has X to the north, Y to the west and Z to the zenith. Precession and nutation
    (IAU 2006/2000A) are computed at the start; from there the Earth rotates uniformly. UT1 is taken as
    UTC, and aberration, refraction and polar motion are neglected: directions are within 35 arcsec of the
    complete transformation (13.5 from UT1, 20.8 from aberration).

    Parameters
    ----------
    start_time : float
        Unix seconds, UTC.
    seconds : (n,) float
        Times since the start.
    latitude, longitude : float
        Geodetic coordinates of the site in radians, east positive.
    """
    import erfa

    days = start_time / 86400
    terrestrial = days + TT_MINUS_UTC / 86400
    sidereal = erfa.gst06a(UNIX_EPOCH, days, UNIX_EPOCH, terrestrial)
    earth = quaternion.about_z(sidereal + longitude + SIDEREAL_RATE * np.asarray(seconds, float))
    zenith = quaternion.multiply(quaternion.about_y(math.pi / 2 - latitude), quaternion.about_z(math.pi))
    return quaternion.multiply(
        quaternion.conjugate(_precession(terrestrial)), quaternion.multiply(earth, zenith)
    )


def _precession(terrestrial: float) -> FloatArray:
    """Return the rotation from ICRS to the equator and equinox of a date (days of TT since `UNIX_EPOCH`).

    By the angles of Fukushima and Williams, bias included (IAU 2006/2000A).
    """
    import erfa

    gamma, phi, psi, epsilon = erfa.pfw06(UNIX_EPOCH, terrestrial)
    nutation_psi, nutation_epsilon = erfa.nut06a(UNIX_EPOCH, terrestrial)
    ecliptic = quaternion.multiply(quaternion.about_x(-phi), quaternion.about_z(-gamma))
    equinox = quaternion.multiply(
        quaternion.about_x(epsilon + nutation_epsilon), quaternion.about_z(psi + nutation_psi)
    )
    return quaternion.multiply(equinox, ecliptic)


def horizon_pointing(azimuth: npt.ArrayLike, elevation: npt.ArrayLike) -> FloatArray:
    """Return quaternions (..., 4) with Z at the given azimuth and elevation and X pointing down.

    Azimuth is measured from north to east. Angles are in radians, in the horizon frame of
    `horizon_to_equatorial`.
    """
    return quaternion.from_angles(
        math.pi / 2 - np.asarray(elevation, float), -np.asarray(azimuth, float), 0.0
    )
