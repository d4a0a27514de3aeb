"""Antenna logs of the ASTE 10 m telescope: recorded pointing of real scans."""

from __future__ import annotations

import calendar
import gzip
import io
import os
import zlib
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import require_file
from petacomm.base.typing import AnyArray, BoolArray, FloatArray
from petacomm.base.units import DEGREE
from petamap.pointing import frames, quaternion
from petamap.pointing.boresight import Boresight, boresight_from_times
from petamap.pointing.scan_strategies import tilt_rotation

# geodetic coordinates of ASTE, Pampa la Bola
LATITUDE = -22.971657 * DEGREE
LONGITUDE = -67.703280 * DEGREE

_N_COLUMNS = 19
_MISSING = 999.0
_LARGEST = 1 << 28  # bytes, uncompressed; a log of ten hours has 5e7


@dataclass(frozen=True, eq=False)
class AntennaLog:
    """Rows of an antenna log.

    Attributes
    ----------
    times : (n,) float64
        Unix seconds.
    azimuth, elevation : (n,) float64
        Radians. Measured by the encoders, with the pointing model of the telescope removed; the programmed
        values where the encoder values are missing.
    centre : (n, 2) float64
        Azimuth and elevation of the source, radians.
    scanning : (n,) bool
        Rows of type SCAN without missing values. Turn-arounds, slews and calibrations are False.
    """

    times: FloatArray
    azimuth: FloatArray
    elevation: FloatArray
    centre: FloatArray
    scanning: BoolArray

    def quaternions(self, track: str = "sky") -> FloatArray:
        """Return boresight quaternions (n, 4), with X pointing down.

        Parameters
        ----------
        track : "sky" or "offset"
            "sky": equatorial (ICRS) coordinates, with the accuracy of `frames.horizon_to_equatorial`.
            "offset": offsets from the source, which may move. Azimuth (times cos elevation) and elevation
            become longitude and latitude about (0, 0), along great circles.
        """
        if track == "sky":
            start = float(self.times[0])
            horizon = frames.horizon_to_equatorial(start, self.times - start, LATITUDE, LONGITUDE)
            return quaternion.multiply(horizon, frames.horizon_pointing(self.azimuth, self.elevation))
        difference = np.mod(self.azimuth - self.centre[:, 0] + np.pi, 2 * np.pi) - np.pi
        offsets = tilt_rotation(difference * np.cos(self.elevation), self.elevation - self.centre[:, 1])
        return quaternion.multiply(quaternion.about_y(np.pi / 2), offsets)

    @property
    def rate(self) -> float:
        """Median sampling rate in Hz."""
        return 1.0 / float(np.median(np.diff(self.times)))

    def distance(self) -> FloatArray:
        """Return the angular distance (radians) of each row from the source, (n,)."""
        return quaternion.angle_between(
            quaternion.rotate(self.quaternions("offset"), [0.0, 0.0, 1.0]), [1.0, 0.0, 0.0]
        )


def read_antenna_log(path: str | os.PathLike[str]) -> AntennaLog:
    """Read an antenna log, plain or compressed by gzip: 19 columns at 10 Hz, in degrees, hours and UTC.

    Raises
    ------
    DataError
        If a row cannot be read or times do not increase; names file and line.
    """
    rows = _rows(path)
    times = np.array([_unix(words[0], where) for where, words in rows])
    back = np.flatnonzero(~(np.diff(times) > 0))
    if len(back):
        where, _ = rows[back[0] + 1]
        raise DataError("times do not increase", where=where, mend="sort the rows by time")
    table = np.empty((len(rows), _N_COLUMNS - 2))
    for i, (where, words) in enumerate(rows):
        try:
            table[i] = [float(word) for word in words[1:-1]]
        except ValueError as error:
            raise DataError(str(error), where=where) from None
    return _antenna_log(times, table, np.array([words[-1] for _, words in rows]))


def _rows(path: str | os.PathLike[str]) -> list[tuple[str, list[str]]]:
    """Return file and line of each row, and its words."""
    rows = []
    for line, text in enumerate(_text(path).splitlines(), start=1):
        words = text.split()
        if not words or words[0].startswith("#") or words[-1] == "END":
            continue
        if len(words) != _N_COLUMNS:
            raise DataError(f"{len(words)} columns where there are {_N_COLUMNS}", where=f"{path}:{line}")
        rows.append((f"{path}:{line}", words))
    if len(rows) < 2:
        raise DataError("has fewer than two rows", where=str(path))
    return rows


def _text(path: str | os.PathLike[str]) -> str:
    try:
        with open(require_file(path), "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stream: io.BufferedIOBase = gzip.GzipFile(fileobj=file) if packed else file
            content = stream.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot be read: {error}", where=str(path)) from error
    if len(content) > _LARGEST:
        raise DataError(f"is larger than {_LARGEST >> 20} MiB", where=str(path), mend="cut it in pieces")
    return content.decode("ascii", errors="replace")


def _unix(word: str, where: str) -> float:
    try:
        to_minute = [int(word[a:b]) for a, b in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12))]
        return calendar.timegm((*to_minute, 0)) + float(word[12:])
    except (ValueError, OverflowError):
        raise DataError(f"'{word}' is no time yyyymmddHHMMSS.s", where=where) from None


def _antenna_log(times: FloatArray, table: FloatArray, kind: AnyArray) -> AntennaLog:
    programmed, measured, without_model, centre = (table[:, a : a + 2] for a in (2, 4, 13, 15))
    valid = np.isfinite(table) & (np.abs(table) < _MISSING)
    missing: BoolArray = ~np.all(valid[:, [2, 3, 4, 5, 13, 14, 15, 16]], axis=1)
    with np.errstate(invalid="ignore"):  # of rows that are not kept
        model = np.mod(programmed - without_model + 180.0, 360.0) - 180.0
    position = np.where(missing[:, None], without_model, measured - model) * DEGREE
    keep = np.flatnonzero(np.isfinite(position).all(axis=1) & np.all(valid[:, 13:15], axis=1))
    return AntennaLog(
        times[keep],
        position[keep, 0],
        position[keep, 1],
        centre[keep] * DEGREE,
        ((kind == "SCAN") & ~missing)[keep],
    )


def boresight_from_log(
    log: AntennaLog, sample_rate: float, *, track: str = "sky", rotation: FloatArray | None = None
) -> tuple[Boresight, BoolArray]:
    """Return the boresight of samples at `sample_rate` (Hz), and the mask of bad samples.

    Samples reach from the first to the last row. A sample is good between two rows that are `scanning` and at
    most two median steps apart. `rotation` is applied from the left to all quaternions.
    """
    n_samp = int((log.times[-1] - log.times[0]) * sample_rate * (1 + 1e-12)) + 1
    q = log.quaternions(track)
    if rotation is not None:
        q = quaternion.multiply(rotation, q)
    boresight = boresight_from_times(
        log.times, q, start_time=float(log.times[0]), sample_rate=sample_rate, n_samp=n_samp
    )
    clock = log.times[0] + np.arange(n_samp) / sample_rate
    tiny = 1e-6 / sample_rate
    before = np.clip(np.searchsorted(log.times, clock + tiny, "right") - 1, 0, len(log.times) - 1)
    after = np.clip(np.searchsorted(log.times, clock - tiny, "left"), 0, len(log.times) - 1)
    gap = log.times[after] - log.times[before] > 2 * np.median(np.diff(log.times))
    return boresight, ~(log.scanning[before] & log.scanning[after]) | gap
