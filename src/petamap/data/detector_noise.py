"""Noise models of the detectors of a focal plane."""

from __future__ import annotations

from petacomm.base.errors import ConfigError
from petamap.data.observation import DetectorNoise
from petamap.noise.model import OneOverF
from petamap.pointing.focalplane import FocalPlane


def focalplane_noise(plane: FocalPlane) -> DetectorNoise | None:
    """Return the noise of the detectors of a focal plane, or None if it tells of none.

    Raises
    ------
    ConfigError
        If it tells the noise of some detectors alone.
    """
    silent = [detector.name for detector in plane.detectors if not detector.net > 0]
    if len(silent) == len(plane.detectors):
        return None
    if silent:
        raise ConfigError(f"detector {silent[0]} has no net, others have", where=plane.name)
    return DetectorNoise(tuple(OneOverF(d.net, d.fknee, d.fmin, d.alpha) for d in plane.detectors))
