"""Pointing of a table: directions and polarization angles of all rows, as a boresight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError, DataError, require_known
from petacomm.base.typing import FloatArray
from petacomm.base.units import ARCMIN, ARCSEC, DEGREE
from petamap.data.formats.hdf5 import add_location
from petamap.data.formats.table_columns import TableLayout
from petamap.data.formats.table_rows import TableRows
from petamap.pointing import quaternion
from petamap.pointing.boresight import Boresight, compress_boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.focalplane import FocalPlane
from petamap.pointing.frames import horizon_to_equatorial

_UNITS = {"deg": DEGREE, "rad": 1.0, "arcmin": ARCMIN, "arcsec": ARCSEC}
_SPELLINGS = {"degree": "deg", "degrees": "deg", "radian": "rad", "radians": "rad"}


@dataclass(frozen=True)
class AngleConvention:
    """What the angles of a table mean.

    Attributes
    ----------
    unit : str
        "deg", "rad", "arcmin" or "arcsec"; empty for that of the file, degrees where it tells none.
    colatitude : bool
        Latitudes are counted from the pole.
    iau : bool
        Polarization angles are counted from north to east, not from south to east (COSMO).
    site : (float, float), optional
        Latitude and longitude of the site, radians, if angles are azimuth and elevation.
    thin : float
        Accuracy, in radians, to which boresights are thinned out; 0 keeps all samples.
    """

    unit: str = ""
    colatitude: bool = False
    iau: bool = False
    site: tuple[float, float] | None = None
    thin: float = 0.0


def read_pointing(
    rows: TableRows, layout: TableLayout, convention: AngleConvention, plane: FocalPlane | None
) -> CompressedPointing:
    """Return the pointing of the detectors of a table.

    The boresight looks along (lon, lat), or is Rz(lon) Ry(pi/2 - lat) Rz(psi). Azimuths turn the other way:
    lon = -az. From zenith towards smaller azimuth is then from north to east.

    Parameters
    ----------
    rows : TableRows
    layout : TableLayout
        What the columns are.
    convention : AngleConvention
    plane : FocalPlane, optional
        Detectors about the boresight; without one all look along it.

    Raises
    ------
    DataError
        If an angle is not finite, or a latitude beyond the pole; names row and column.
    ConfigError
        If a detector is not in the focal plane.
    """
    names = (layout.lon, layout.lat, layout.psi)
    lon, lat, psi = (table_angles(rows, name, convention.unit) if name else np.zeros(1) for name in names)
    theta = lat if convention.colatitude else np.pi / 2 - lat
    beyond = np.flatnonzero((theta < -1e-9) | (theta > np.pi + 1e-9))
    if len(beyond):
        row = int(beyond[0])
        what = f"{np.degrees(lat[row]):g} deg is no {'colatitude' if convention.colatitude else 'latitude'}"
        raise DataError(what, where=rows.place(row, layout.lat), mend="check colatitude and angle_unit")
    roll = np.pi - psi if convention.iau and layout.psi else psi
    if convention.site is None:
        knots = quaternion.from_angles(theta, lon, roll)
    else:
        horizon = horizon_to_equatorial(rows.start_time, rows.seconds, *convention.site)
        knots = quaternion.multiply(horizon, quaternion.from_angles(theta, -lon, roll))
    if plane is None:
        knots = _without_half_turns(knots)
    _check_turns(rows, layout.lon, knots)
    with add_location(str(rows.path)):
        thin = convention.thin / ARCSEC
        boresight = compress_boresight(knots, thin) if thin else Boresight(knots, len(knots))
        if plane is None:
            epsilon = np.full(len(layout.detectors), 0.0 if layout.psi else 1.0)
            along = np.tile([0.0, 0.0, 0.0, 1.0], (len(layout.detectors), 1))
            return CompressedPointing(boresight, along, epsilon=epsilon)
        own = detectors_of(plane, layout.detectors)
        return CompressedPointing(
            boresight, own.quaternions, epsilon=own.values("epsilon"), gamma=own.values("psi")
        )


def detectors_of(plane: FocalPlane, names: tuple[str, ...]) -> FocalPlane:
    """Return the focal plane of detectors in their order.

    Raises
    ------
    ConfigError
        If one is not in it.
    """
    known = {detector.name: detector for detector in plane.detectors}
    for name in names:
        require_known(f"focal plane {plane.name} has no detector", name, known)
    return FocalPlane(plane.name, tuple(known[name] for name in names))


def table_angles(
    rows: TableRows, name: str, unit: str, start: int = 0, stop: int | None = None
) -> FloatArray:
    """Return the angles of samples [start, stop) of a column, float64 (n,), radians.

    Parameters
    ----------
    rows : TableRows
    name : str
        Column.
    unit : str
        "deg", "rad", "arcmin" or "arcsec"; empty for that of the file, degrees where it tells none.
    start, stop : int
        Samples; all of them by default.

    Raises
    ------
    ConfigError
        If the file gives another unit, or one that is no angle.
    DataError
        If an angle is not finite; names row and column.
    """
    said = rows.table.unit(name)
    given = _SPELLINGS.get(said.lower(), said.lower())
    if given and (given not in _UNITS or unit not in ("", given)):
        mend = f'set angle_unit = "{given}"' if given in _UNITS else "give deg, rad, arcmin or arcsec"
        raise ConfigError(f"column {name} is in '{said}'", where=str(rows.path), mend=mend)
    values = rows.column(name)[start:stop].astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        what = f"the pointing is {values[bad[0]]}, as in {len(bad)} of {len(values)} rows"
        mend = "remove such rows: where rows are missing, an observation ends"
        raise DataError(what, where=rows.place(start + int(bad[0]), name), mend=mend)
    radians: FloatArray = values * _UNITS[unit or given or "deg"]
    return radians


def _without_half_turns(knots: FloatArray) -> FloatArray:
    """Return attitudes without rolls by half a turn, which polarization angles modulo 180 deg make."""
    step = quaternion.multiply(quaternion.conjugate(knots[:-1]), knots[1:])
    flips = np.cumsum(np.abs(step[:, 2]) > np.abs(step[:, 3])) % 2 == 1
    turned = quaternion.multiply(knots[1:], quaternion.about_z(np.pi))
    return np.concatenate([knots[:1], np.where(flips[:, None], turned, knots[1:])])


def _check_turns(rows: TableRows, name: str, knots: FloatArray) -> None:
    cosines = np.abs(np.sum(knots[1:] * knots[:-1], axis=1))
    wide = np.flatnonzero(cosines <= np.cos(np.pi / 4))
    if len(wide):
        turn = np.degrees(2 * np.arccos(cosines[wide[0]]))
        mend = "rows less than 90 deg apart are needed; check angle_unit"
        where = rows.place(int(wide[0]) + 1, name)
        raise DataError(f"turns by {turn:.0f} deg from the row before", where=where, mend=mend)
