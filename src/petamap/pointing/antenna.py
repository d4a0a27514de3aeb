"""Antenna logs as the ASTE 10 m telescope writes them: recorded pointing of real scans."""

from __future__ import annotations

import calendar
import dataclasses
import gzip
import io
import os
import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, BoolArray, FloatArray
from petacomm.base.units import DEGREE
from petamap.pointing import frames, quaternion
from petamap.pointing.boresight import Boresight, from_times
from petamap.pointing.scan_strategies import tilted

# ASTE, Pampa la Bola, geodetic
LATITUDE = -22.971657 * DEGREE
LONGITUDE = -67.703280 * DEGREE

_N_COLUMNS = 19
_MISSING = 999.0
_LARGEST = 1 << 28  # bytes unpacked; ten hours of log are 5e7

Track = Literal["sky", "offset"]


@dataclass(frozen=True, eq=False)
class AntennaLog:
    """A log row by row: Unix seconds, then angles in radians.

    `azimuth` and `elevation` are those really reached, freed of the telescope's pointing model, or those
    programmed where the encoders' values are missing; `centre` is the source's (azimuth, elevation), (n, 2).
    `scanning` says which rows are on the map (type SCAN and nothing missing): turn-arounds, slews and
    calibrations are not.
    """

    times: FloatArray
    azimuth: FloatArray
    elevation: FloatArray
    centre: FloatArray
    scanning: BoolArray

    def quaternions(self, track: Track = "sky") -> FloatArray:
        """Return boresight quaternions (n, 4), X pointing down.

        Parameters
        ----------
        track : "sky" or "offset"
            Equatorial (ICRS) coordinates, to the accuracy of `frames.horizon_to_equatorial`; or offsets from
            the source, which may move: azimuth (times cos elevation) and elevation become longitude and
            latitude about (0, 0), along great circles.
        """
        if track == "sky":
            horizon = frames.horizon_to_equatorial(self.times, LATITUDE, LONGITUDE)
            return quaternion.multiply(horizon, frames.at_horizon(self.azimuth, self.elevation))
        difference = np.mod(self.azimuth - self.centre[:, 0] + np.pi, 2 * np.pi) - np.pi
        offsets = tilted(difference * np.cos(self.elevation), self.elevation - self.centre[:, 1])
        return quaternion.multiply(quaternion.about_y(np.pi / 2), offsets)

    @property
    def rate(self) -> float:
        """Typical rows a second."""
        return 1.0 / float(np.median(np.diff(self.times)))

    def within(self, distance: float) -> AntennaLog:
        """Return the log with the rows farther than `distance` (radians) from the source not `scanning`."""
        return dataclasses.replace(self, scanning=self.scanning & (self.distance() <= distance))

    def distance(self) -> FloatArray:
        """Return the angle (radians) of each row from the source."""
        return quaternion.angle_between(
            quaternion.rotate(self.quaternions("offset"), [0.0, 0.0, 1.0]), [1.0, 0.0, 0.0]
        )


def read_log(path: str | os.PathLike[str]) -> AntennaLog:
    """Read a log, gzipped or plain: 19 columns at 10 Hz, in degrees, hours and UTC.

    Raises
    ------
    DataError
        Naming file and line, for a row that cannot be read and times that do not increase.
    """
    rows, lines = _rows(path)
    times = np.array([_unix(row[0], f"{path}:{line}") for row, line in zip(rows, lines, strict=True)])
    back = np.flatnonzero(~(np.diff(times) > 0))
    if len(back):
        raise DataError(
            "times do not increase", where=f"{path}:{lines[back[0] + 1]}", mend="sort the rows by time"
        )
    table = np.empty((len(rows), _N_COLUMNS - 2))
    for i, (row, line) in enumerate(zip(rows, lines, strict=True)):
        try:
            table[i] = [float(word) for word in row[1:-1]]
        except ValueError as error:
            raise DataError(str(error), where=f"{path}:{line}") from None
    return _log(times, table, np.array([row[-1] for row in rows]))


def _rows(path: str | os.PathLike[str]) -> tuple[list[list[str]], list[int]]:
    rows, lines = [], []
    for line, text in enumerate(_text(path).splitlines(), start=1):
        words = text.split()
        if not words or words[0].startswith("#") or words[-1] == "END":
            continue
        if len(words) != _N_COLUMNS:
            raise DataError(f"{len(words)} columns where there are {_N_COLUMNS}", where=f"{path}:{line}")
        rows.append(words)
        lines.append(line)
    if len(rows) < 2:
        raise DataError("has fewer than two rows", where=str(path))
    return rows, lines


def _text(path: str | os.PathLike[str]) -> str:
    try:
        with open(path, "rb") as file:
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
        year, month, day, hour, minute = (
            int(word[a:b]) for a, b in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12))
        )
        return calendar.timegm((year, month, day, hour, minute, 0)) + float(word[12:])
    except (ValueError, OverflowError):
        raise DataError(f"'{word}' is no time yyyymmddHHMMSS.s", where=where) from None


def _log(times: FloatArray, table: FloatArray, kind: AnyArray) -> AntennaLog:
    programmed, real, plain, centre = (table[:, a : a + 2] for a in (2, 4, 13, 15))
    sound = np.isfinite(table) & (np.abs(table) < _MISSING)
    missing: BoolArray = ~np.all(sound[:, [2, 3, 4, 5, 13, 14, 15, 16]], axis=1)
    model = np.mod(programmed - plain + 180.0, 360.0) - 180.0
    reached = np.where(missing[:, None], plain, real - model) * DEGREE
    keep = np.flatnonzero(np.isfinite(reached).all(axis=1) & np.all(sound[:, 13:15], axis=1))
    return AntennaLog(
        times[keep],
        reached[keep, 0],
        reached[keep, 1],
        centre[keep] * DEGREE,
        ((kind == "SCAN") & ~missing)[keep],
    )


def boresight_of(
    log: AntennaLog, sample_rate: float, *, track: Track = "sky", rotation: FloatArray | None = None
) -> tuple[Boresight, BoolArray]:
    """Return the boresight of samples at `sample_rate` (Hz) from the first to the last row, and the bad
    samples.

    Bad are samples not between two rows that are `scanning`, at most two typical steps apart.
    """
    n_samp = int((log.times[-1] - log.times[0]) * sample_rate * (1 + 1e-12)) + 1
    q = log.quaternions(track)
    if rotation is not None:
        q = quaternion.multiply(rotation, q)
    boresight = from_times(
        log.times, q, start_time=float(log.times[0]), sample_rate=sample_rate, n_samp=n_samp
    )
    clock = log.times[0] + np.arange(n_samp) / sample_rate
    tiny = 1e-6 / sample_rate
    before = np.clip(np.searchsorted(log.times, clock + tiny, "right") - 1, 0, len(log.times) - 1)
    after = np.clip(np.searchsorted(log.times, clock - tiny, "left"), 0, len(log.times) - 1)
    gap = log.times[after] - log.times[before] > 2 * np.median(np.diff(log.times))
    return boresight, ~(log.scanning[before] & log.scanning[after]) | gap
