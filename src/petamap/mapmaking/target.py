"""Pixelization of a run's map: as configured, or as large as the data need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import FloatArray
from petacomm.base.units import DEGREE
from petamap.data.config import MapOptions, RunConfig
from petamap.data.demodulation import check_demodulation
from petamap.data.observation import Observation, read_flags
from petamap.mapmaking.intervals import split_intervals
from petamap.pointing.frames import OFFSET, frame_rotation
from petamap.pointing.protocol import Pointing
from petamap.pointing.sampled import DirectedPointing
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization

# Samples of a detector from which the extent of the data is found.
_N_DIRECTIONS = 4096
# Samples whose directions are in memory at once.
_PIECE = 1 << 18
# A larger image is hardly meant: a telescope that slews may point far away.
_MOST_PIXELS = 4e8
# Degrees added around them, for samples between.
_MARGIN = 0.02


def target_pixelization(options: MapOptions, observations: Sequence[Observation]) -> Pixelization:
    """Return the pixelization to solve on.

    HEALPix maps are solved for in nested order, whatever the order of the files: neighbouring samples then
    find their pixels in the same cache lines.

    Raises
    ------
    ConfigError
        If the sources number their pixels differently, or the map would be too large.
    """
    if options.pixelization == "numbered":
        return _numbered(observations)
    if options.pixelization == "healpix":
        return Healpix(options.n_side or 1, nest=True)
    resolution = (options.resolution or 0.0) / DEGREE
    centre, size = _box(options, observations)
    kind = CarPatch if options.pixelization == "car" else FlatPatch
    n_pix = size[0] * size[1] / resolution**2
    if n_pix > _MOST_PIXELS:
        raise ConfigError(
            f"a map of all samples has {size[0]:.3g} x {size[1]:.3g} degrees, {n_pix:.2g} pixels",
            mend="give map.width and map.height, a coarser map.resolution, or flag what lies far away",
        )
    return kind.box(centre, size, resolution)


def prepare_observations(config: RunConfig, observations: list[Observation]) -> list[Observation]:
    """Return observations as they are mapped: in the frame of the map, long intervals split.

    Noise in common is left out where correlations are.

    Raises
    ------
    ConfigError
        If an observation is in no frame that could be mapped, or cannot be demodulated where it should be.
    """
    if config.noise.kernel != "model" or config.noise.common_modes == "none":
        observations = [replace(observation, common_noise=()) for observation in observations]
    if config.map.pixelization != "numbered":
        observations = in_frame(observations, config.map.frame)
    if config.noise.interval is not None:
        observations = [split_intervals(o, config.noise.interval) for o in observations]
    if config.products.demodulated:
        for one in observations:
            check_demodulation(one, config.demodulation)
    return observations


def in_frame(observations: Sequence[Observation], frame: str) -> list[Observation]:
    """Return the observations with their pointing in the frame of the map.

    Raises
    ------
    ConfigError
        If the frame of an observation is not known, or recorded pixels would have to be rotated.
    """
    return [_rotated(observation, frame) for observation in observations]


def _rotated(observation: Observation, frame: str) -> Observation:
    given = observation.frame
    if given in (frame, OFFSET) or observation.pointing is None:
        return observation
    if given is None:
        raise ConfigError(
            "nobody says in which frame its pointing is",
            where=f"observation {observation.name}",
            mend='give it: frame = "equatorial", "galactic" or "ecliptic"',
        )
    if not isinstance(observation.pointing, DirectedPointing):
        raise ConfigError(
            f"its pixels are {given}, the map is {frame}",
            where=f"observation {observation.name}",
            mend=f'set map.frame = "{given}"',
        )
    turned = observation.pointing.rotated(frame_rotation(given, frame))
    return replace(observation, frame=frame, pointing=turned)


def _numbered(observations: Sequence[Observation]) -> Pixelization:
    bare = next((observation for observation in observations if observation.pointing is None), None)
    if bare is not None:
        raise ConfigError("no source gives the pointing", where=f"observation {bare.name}")
    given = [getattr(observation.pointing, "pixelization", None) for observation in observations]
    found = [pixelization for pixelization in given if isinstance(pixelization, NumberedPixels)]
    if len(found) < len(observations):
        raise ConfigError(
            "map.pixelization is numbered, but not all sources number their pixels",
            mend="use healpix, car or flat",
        )
    first = found[0]
    if any(other.describe() != first.describe() for other in found):
        raise ConfigError("the sources number different pixels", mend="map them one by one")
    return first


def _box(
    options: MapOptions, observations: Sequence[Observation]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return centre and size in degrees; those not configured are chosen to hold all samples."""
    given = (options.centre_lon, options.centre_lat, options.width, options.height)
    if all(value is not None for value in given):
        lon, lat, width, height = (float(value or 0.0) / DEGREE for value in given)
        return (lon, lat), (width, height)
    vectors = np.concatenate([np.zeros((0, 3)), *_some_directions(observations)])
    if len(vectors) == 0:
        raise DataError(
            "no good sample to place the map by",
            mend="check the flags, or give map.centre_lon, centre_lat, width and height",
        )
    mean = vectors.sum(axis=0)
    lon0, lat0 = _angles(mean[None])[0]
    centre = (
        lon0 if options.centre_lon is None else options.centre_lon / DEGREE,
        lat0 if options.centre_lat is None else options.centre_lat / DEGREE,
    )
    angles = _angles(vectors)
    away_lon = np.abs((angles[:, 0] - centre[0] + 180) % 360 - 180)
    away_lat = np.abs(angles[:, 1] - centre[1])
    if options.pixelization == "flat":
        away_lon, away_lat = _tangent(vectors, centre)
    width = 2 * away_lon.max() + _MARGIN if options.width is None else options.width / DEGREE
    height = 2 * away_lat.max() + _MARGIN if options.height is None else options.height / DEGREE
    if options.pixelization == "car" and options.centre_lat is None and options.height is None:
        # rows end at a pole
        low, high = max(centre[1] - height / 2, -90.0), min(centre[1] + height / 2, 90.0)
        centre, height = (centre[0], (low + high) / 2), high - low
    return centre, (min(width, 360.0), min(height, 180.0))


def _some_directions(observations: Sequence[Observation]) -> Iterator[FloatArray]:
    """Yield directions of samples of each detector that are mapped: a telescope may slew from far away."""
    for observation in observations:
        if observation.pointing is not None:
            for detector in range(observation.n_det):
                yield _spread_directions(observation, observation.pointing, detector)


def _spread_directions(observation: Observation, pointing: Pointing, detector: int) -> FloatArray:
    """Return directions at equal distances among the good samples of a detector, (n, 3)."""
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
    step, n_before, found = max(1, sum(counts) // _N_DIRECTIONS), 0, [np.zeros((0, 3))]
    for (start, stop), packed, count in zip(pieces, bits, counts, strict=True):
        chosen = np.flatnonzero(np.unpackbits(packed, count=stop - start))[-n_before % step :: step]
        n_before += count
        if len(chosen):
            found.append(pointing.directions(detector, start, stop)[0][chosen])
    return np.concatenate(found)


def _angles(vectors: FloatArray) -> FloatArray:
    """Return longitude and latitude in degrees, (n, 2)."""
    lon = np.arctan2(vectors[:, 1], vectors[:, 0])
    lat = np.arctan2(vectors[:, 2], np.hypot(vectors[:, 0], vectors[:, 1]))
    return np.stack([lon, lat], axis=1) / DEGREE


def _tangent(vectors: FloatArray, centre: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Return the distances from the centre in degrees along the axes of the tangent plane."""
    lon, lat = np.array(centre) * DEGREE
    towards = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    east = np.array([-np.sin(lon), np.cos(lon), 0.0])
    north = np.cross(towards, east)
    depth = np.maximum(vectors @ towards, 0.1)
    return np.abs(vectors @ east / depth) / DEGREE, np.abs(vectors @ north / depth) / DEGREE
