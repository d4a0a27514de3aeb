"""Pixelization of a run's map: as configured, or as large as the data need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from petacomm.base.errors import ConfigError
from petacomm.base.units import DEGREE
from petacomm.mpi import Communicator, SerialCommunicator
from petamap.data.config import MapOptions, RunConfig
from petamap.data.demodulation import check_demodulation
from petamap.data.observation import Observation
from petamap.mapmaking.intervals import split_intervals
from petamap.mapmaking.map_box import map_box
from petamap.pointing.frames import OFFSET, frame_rotation
from petamap.pointing.sampled import DirectedPointing
from petamap.sky.car import CarPatch
from petamap.sky.flat import FlatPatch
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import NumberedPixels
from petamap.sky.pixelization import Pixelization

# A larger image is hardly meant: a telescope that slews may point far away.
_MOST_PIXELS = 4e8


def target_pixelization(
    options: MapOptions,
    observations: Sequence[Observation],
    comm: Communicator | None = None,
    n_threads: int = 1,
) -> Pixelization:
    """Return the pixelization to solve on. Collective where there is a communicator.

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
    centre, size = map_box(options, observations, comm or SerialCommunicator(), n_threads)
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


def map_frame(options: MapOptions, observations: Sequence[Observation]) -> str | None:
    """Return the frame of the map; None of offsets alone, which are no places on the sky."""
    frames = {one.frame for one in observations if one.pointing is not None}
    return None if frames == {OFFSET} else options.frame


def in_frame(observations: Sequence[Observation], frame: str) -> list[Observation]:
    """Return the observations with their pointing in the frame of the map.

    Raises
    ------
    ConfigError
        If the frame of an observation is not known, some are of offsets and others of places on the sky, or
        recorded pixels would have to be rotated.
    """
    offsets = [one.name for one in observations if one.pointing is not None and one.frame == OFFSET]
    others = [one for one in observations if one.pointing is not None and one.frame not in (None, OFFSET)]
    if offsets and others:
        raise ConfigError(
            f"its pointing is offsets, that of {others[0].name} {others[0].frame}",
            where=f"observation {offsets[0]}",
            mend="map them in runs of their own, or say the frame of these offsets if they are none",
        )
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
