"""Subscans: the parts of an observation between the turn-arounds of the telescope."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petamap.data.observation import Observation

# Samples between the directions that are compared, in seconds: a turn-around takes longer.
_STEP = 0.2


def find_subscans(observation: Observation, start: int, stop: int) -> Int64Array:
    """Return the edges of the subscans among samples [start, stop), counted from `start`.

    A subscan ends where the telescope turns back: where its velocity on the sky, or in azimuth where that is
    known, has a negative product with the one before.

    Raises
    ------
    DataError
        If nothing says where the telescope points.
    """
    step = max(1, round(_STEP * observation.sample_rate))
    track = _track(observation, start, stop, step)
    velocities = np.diff(track, axis=0)
    moving = np.flatnonzero((velocities**2).sum(axis=1) > 0)
    back = (velocities[moving[1:]] * velocities[moving[:-1]]).sum(axis=1) < 0
    turns = (moving[1:][back]) * step
    inner = turns[(turns > 0) & (turns < stop - start)]
    return np.unique(np.concatenate([[0], inner, [stop - start]])).astype(np.int64)


def scan_directions(observation: Observation, start: int, stop: int, edges: Int64Array) -> BoolArray:
    """Return whether each subscan among samples [start, stop) is right-going, (n_subscans,).

    That is towards larger azimuth. Where azimuth is not known, it is the direction of the first subscan.

    Parameters
    ----------
    observation : Observation
    start, stop : int
    edges : int64 (n_subscans + 1,)
        As `find_subscans` returns them.

    Raises
    ------
    DataError
        If nothing says where the telescope points.
    """
    track = _track(observation, start, stop, 1)
    ways = track[np.maximum(edges[1:] - 1, edges[:-1])] - track[edges[:-1]]
    if observation.azimuth is not None:
        return np.asarray(ways[:, 0] > 0)
    return np.asarray(ways @ ways[0] > 0)


def _track(observation: Observation, start: int, stop: int, step: int) -> FloatArray:
    """Return positions every `step` samples, (n, n_coordinates)."""
    if observation.azimuth is not None:
        azimuths = np.unwrap(observation.azimuth.azimuths(start, stop)[::step])
        return np.asarray(azimuths[:, None], np.float64)
    if observation.pointing is None:
        raise DataError(
            "subscans of an observation without pointing", where=f"observation {observation.name}",
            mend="put the source of the pointing first",
        )  # fmt: skip
    return observation.pointing.directions(0, start, stop)[0][::step]
