"""Centre and size of a map that holds the data, found from directions of good samples on all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.threads import map_threads
from petacomm.base.typing import FloatArray
from petacomm.base.units import DEGREE
from petacomm.mpi import Communicator, agree_on_errors
from petamap.data.config import MapOptions
from petamap.data.observation import Observation, read_flags
from petamap.data.read_ahead import forget_pieces

# Samples of a detector from which the extent of the data is found, and of all detectors.
_OF_DETECTOR, _FEWEST, _OF_ALL = 4096, 16, 1 << 23
# Samples whose directions are in memory at once.
_PIECE = 1 << 18
# Degrees added around them, for samples between.
_MARGIN = 0.02
# Directions are summed as multiples of this: exactly, hence in any order.
_GRAIN = 2.0**-30
_GOLDEN = (5**0.5 - 1) / 2


class _Stream(NamedTuple):
    """A detector of an observation, and its number among all."""

    number: int
    observation: Observation
    detector: int


def map_box(
    options: MapOptions, observations: Sequence[Observation], comm: Communicator, n_threads: int = 1
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return centre and size in degrees; those not configured are chosen to hold all samples. Collective.

    Each rank looks at its share of the detectors.

    Raises
    ------
    DataError
        If there is no good sample, or a file is damaged; on all ranks.
    """
    given = (options.centre_lon, options.centre_lat, options.width, options.height)
    if all(value is not None for value in given):
        lon, lat, width, height = (float(value or 0.0) / DEGREE for value in given)
        return (lon, lat), (width, height)
    vectors = _some_directions(observations, comm, n_threads)
    if comm.sum(len(vectors)) == 0:
        raise DataError(
            "no good sample to place the map by",
            mend="check the flags, or give map.centre_lon, centre_lat, width and height",
        )
    grains = np.rint(vectors / _GRAIN).astype(np.int64)
    total = comm.allreduce(grains.sum(axis=0))
    lon0, lat0 = _angles(total[None] * _GRAIN)[0].tolist()
    centre = (
        lon0 if options.centre_lon is None else options.centre_lon / DEGREE,
        lat0 if options.centre_lat is None else options.centre_lat / DEGREE,
    )
    away_lon, away_lat = (
        _tangent(vectors, centre) if options.pixelization == "flat" else _away(vectors, centre)
    )
    farthest = [comm.max(float(away.max(initial=0.0))) for away in (away_lon, away_lat)]
    width = 2 * farthest[0] + _MARGIN if options.width is None else options.width / DEGREE
    height = 2 * farthest[1] + _MARGIN if options.height is None else options.height / DEGREE
    if options.pixelization == "car" and options.centre_lat is None and options.height is None:
        # rows end at a pole
        low, high = max(centre[1] - height / 2, -90.0), min(centre[1] + height / 2, 90.0)
        centre, height = (centre[0], (low + high) / 2), high - low
    return centre, (min(width, 360.0), min(height, 180.0))


def _some_directions(observations: Sequence[Observation], comm: Communicator, n_threads: int) -> FloatArray:
    """Return directions of samples of each detector of this rank that are mapped, (n, 3).

    All samples are looked at: a telescope may slew from far away.
    """
    pointed = [one for one in observations if one.pointing is not None]
    n_streams = sum(one.n_det for one in pointed)
    n = min(max(_OF_ALL // max(n_streams, 1), _FEWEST), _OF_DETECTOR)
    first, last = (n_streams * rank // comm.size for rank in (comm.rank, comm.rank + 1))
    found = [np.zeros((0, 3))]
    with agree_on_errors(comm):
        found += map_threads(
            lambda one: _spread_directions(one, n), _streams(pointed, first, last), n_threads
        )
    forget_pieces()
    return np.concatenate(found)


def _streams(observations: Sequence[Observation], first: int, last: int) -> Iterator[_Stream]:
    """Yield the detectors of all observations with numbers [first, last)."""
    begin = 0
    for one in observations:
        for detector in range(max(first - begin, 0), min(last - begin, one.n_det)):
            yield _Stream(begin + detector, one, detector)
        begin += one.n_det


def _spread_directions(stream: _Stream, n: int) -> FloatArray:
    """Return about `n` directions at equal distances among the good samples of a detector, (n, 3)."""
    number, observation, detector = stream
    pieces = [
        (first, min(first + _PIECE, stop))
        for start, stop in observation.intervals
        for first in range(start, stop, _PIECE)
    ]
    bits, counts = [], []  # flags are read once, and a bit each kept of them
    for piece in pieces:
        good = read_flags(observation, detector, *piece) == 0
        bits.append(np.packbits(good))
        counts.append(int(np.count_nonzero(good)))
    step, found = max(1, sum(counts) // n), [np.zeros((0, 3))]
    # Where few are looked at, detectors look at different times.
    n_before = 0 if n == _OF_DETECTOR else -int(step * (number * _GOLDEN % 1))
    assert observation.pointing is not None
    for (start, stop), packed, count in zip(pieces, bits, counts, strict=True):
        chosen = np.flatnonzero(np.unpackbits(packed, count=stop - start))[-n_before % step :: step]
        n_before += count
        if len(chosen):
            found.append(observation.pointing.directions(detector, start, stop)[0][chosen])
    return np.concatenate(found)


def _angles(vectors: FloatArray) -> FloatArray:
    """Return longitude and latitude in degrees, (n, 2)."""
    lon = np.arctan2(vectors[:, 1], vectors[:, 0])
    lat = np.arctan2(vectors[:, 2], np.hypot(vectors[:, 0], vectors[:, 1]))
    return np.stack([lon, lat], axis=1) / DEGREE


def _away(vectors: FloatArray, centre: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Return the distances from the centre in degrees of longitude and of latitude."""
    angles = _angles(vectors)
    return np.abs((angles[:, 0] - centre[0] + 180) % 360 - 180), np.abs(angles[:, 1] - centre[1])


def _tangent(vectors: FloatArray, centre: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Return the distances from the centre in degrees along the axes of the tangent plane."""
    lon, lat = np.array(centre) * DEGREE
    towards = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    east = np.array([-np.sin(lon), np.cos(lon), 0.0])
    north = np.cross(towards, east)
    depth = np.maximum(_along(vectors, towards), 0.1)
    along_east, along_north = (np.abs(_along(vectors, axis) / depth) / DEGREE for axis in (east, north))
    return along_east, along_north


def _along(vectors: FloatArray, axis: FloatArray) -> FloatArray:
    """Return components along an axis, (n,). Bits of BLAS would depend on how many vectors there are."""
    x, y, z = vectors.T
    return np.asarray(x * axis[0] + y * axis[1] + z * axis[2], np.float64)
