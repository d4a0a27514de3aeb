"""Coordinates that move: offsets from the Sun, the Moon or a planet, and azimuth and elevation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petacomm.base.typing import FloatArray
from petamap.data.checks import check_dates, check_given, error_location
from petamap.data.observation import Observation
from petamap.data.source import SourceContext
from petamap.pointing import frames, quaternion
from petamap.pointing.ephemeris import BODIES, body_directions
from petamap.pointing.sampled import DirectedPointing

HORIZON = "horizon"
_KNOTS = 60.0  # seconds, between which directions of bodies are interpolated: 0.01 arcsec


@dataclass(frozen=True)
class MovingFrameOptions:
    """Turns pointing to coordinates that move: offsets from a body, or azimuth and elevation."""

    centre: str = option(
        choices=(*BODIES, HORIZON),
        help="body at longitude and latitude 0; horizon: longitude is minus azimuth, latitude elevation",
    )
    north: str = option(
        "equatorial", choices=frames.FRAMES, help="whose north is up in maps of a body; not of the horizon"
    )
    site_latitude: float | None = option(
        None, dimension="angle", help="of the site; needed for moon and horizon; else the Earth's centre"
    )
    site_longitude: float | None = option(None, dimension="angle", help="of the site, east positive")


class MovingFrameSource:
    """Source of no data, which turns the pointing of all observations before it."""

    options: ClassVar[type] = MovingFrameOptions

    def __init__(self, options: MovingFrameOptions, context: SourceContext) -> None:
        self._options = options
        given = [value for value in (options.site_latitude, options.site_longitude) if value is not None]
        if len(given) == 1 or (not given and options.centre in ("moon", HORIZON)):
            raise ConfigError(
                f"{options.centre} needs the latitude and the longitude of a site",
                where=context.place("centre"),
                mend='give site_latitude and site_longitude, as "-22.96 deg"',
            )
        self._place = context.place("centre")
        self._site = (given[0], given[1]) if given else None

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with pointing in the moving frame; it is turned at first use.

        Raises
        ------
        ConfigError
            If there are no observations, or one has no pointing on the sky that could be turned, or no time.
        """
        check_given(observations, "the moving frame", self._place)
        return [self._turned(one) for one in observations]

    def _turned(self, observation: Observation) -> Observation:
        pointing, frame = observation.pointing, observation.frame
        if not isinstance(pointing, DirectedPointing) or frame not in frames.FRAMES:
            raise ConfigError(
                f"has no directions on the sky that could be turned to {self._options.centre}",
                where=error_location(observation),
                mend="name a source of such pointing before, and its frame",
            )
        check_dates(observation)
        turn = partial(self._rotations, frame, observation)
        return dataclasses.replace(observation, frame=frames.OFFSET, pointing=pointing.turned(turn))

    def _rotations(self, frame: str, observation: Observation, samples: FloatArray) -> FloatArray:
        """Return the quaternions (n, 4) from a frame to the moving one, at positions (n,) in samples."""
        seconds = samples / observation.sample_rate
        to_equatorial = frames.frame_rotation(frame, "equatorial")
        if self._options.centre == HORIZON:
            assert self._site is not None
            horizon = frames.horizon_to_equatorial(observation.start_time, seconds, *self._site)
            return quaternion.multiply(quaternion.conjugate(horizon), to_equatorial)
        north = frames.frame_rotation("equatorial", self._options.north)
        times = observation.start_time + seconds
        knots = np.arange(np.floor(times.min() / _KNOTS), np.ceil(times.max() / _KNOTS) + 2) * _KNOTS
        bodies = quaternion.rotate(north, body_directions(self._options.centre, knots, self._site))
        x, y, z = (np.interp(times, knots, bodies[:, axis]) for axis in range(3))
        to_centre = quaternion.multiply(
            quaternion.about_y(np.arctan2(z, np.hypot(x, y))), quaternion.about_z(-np.arctan2(y, x))
        )
        return quaternion.multiply(to_centre, quaternion.multiply(north, to_equatorial))
