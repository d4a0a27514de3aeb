"""Simulated point sources, seen by a Gaussian beam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petacomm.base.typing import FloatArray
from petacomm.base.units import parse_quantity
from petamap.data.observation import Observation
from petamap.data.source import SourceContext
from petamap.pointing.protocol import Pointing
from petamap.simulation import _simulation
from petamap.simulation.sky import CHUNK, intensity_gains, required_pointing, with_signal
from petamap.sky.image import unit_vectors


@dataclass(frozen=True, eq=False)
class PointSources:
    """Unpolarized point sources seen by a Gaussian beam (implements `Signal`).

    The signal of a source at distance d is amplitude exp(-(1 - cos d) / sigma^2).

    Attributes
    ----------
    pointing : Pointing
    directions : float64 (n, 3)
        Unit vectors.
    amplitudes : float64 (n,)
        Signal at the centre, in the unit of the observation.
    sigmas : float64 (n,)
        Width of the beam, radians.
    """

    of_sky = any_order = True

    pointing: Pointing
    directions: FloatArray
    amplitudes: FloatArray
    sigmas: FloatArray

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,).

        Raises
        ------
        DataError
            If the pointing has no directions.
        """
        for first in range(start, stop, CHUNK):
            last = min(first + CHUNK, stop)
            directions, _ = self.pointing.directions(detector, first, last)
            gains = intensity_gains(self.pointing, detector, first, last)
            part = out[first - start : last - start]
            _simulation.add_point_sources(
                self.directions, self.amplitudes, self.sigmas, directions, gains, part, 1
            )


@dataclass(frozen=True)
class PointSourcesOptions:
    """Unpolarized point sources seen by a Gaussian beam, in the coordinates of the pointing."""

    sources: tuple[str, ...] = option(
        help='each "LON, LAT, AMPLITUDE, FWHM", such as "83.6 deg, 22 deg, 1 mK, 10 arcmin"; the '
        "amplitude may be a bare number in the unit of the signal"
    )
    scale: float = option(1.0, help="factor on the amplitudes")


class PointSourcesSource:
    """Source of the signal of point sources."""

    options: ClassVar[type] = PointSourcesOptions

    def __init__(self, options: PointSourcesOptions, context: SourceContext) -> None:
        self._table = np.array([_source(text) for text in options.sources]).reshape(-1, 4)
        self._table[:, 2] *= options.scale

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with the signal of the sources added.

        Raises
        ------
        ConfigError
            If an observation has no pointing.
        """
        lon, lat, _, fwhm = self._table.T
        amplitudes = self._table[:, 2].copy()
        directions, sigmas = unit_vectors(lon, lat), fwhm / np.sqrt(8 * np.log(2))
        return [
            with_signal(
                observation, PointSources(required_pointing(observation), directions, amplitudes, sigmas)
            )
            for observation in observations
        ]


def _source(text: str) -> tuple[float, float, float, float]:
    """Return longitude, latitude, amplitude and fwhm, in radians and the unit of the signal."""
    parts = [part.strip() for part in text.split(",")]
    mend = 'write "83.6 deg, 22 deg, 1 mK, 10 arcmin"'
    if len(parts) != 4:
        raise ConfigError(f"'{text}' is not longitude, latitude, amplitude and fwhm", mend=mend)
    lon, lat, fwhm = (parse_quantity(parts[k], "angle") for k in (0, 1, 3))
    try:
        amplitude = float(parts[2])
    except ValueError:
        amplitude = parse_quantity(parts[2], "temperature")
    if not (np.all(np.isfinite((lon, lat, amplitude, fwhm))) and fwhm > 0 and abs(lat) <= np.pi / 2):
        raise ConfigError(f"'{text}' is no place with a beam", mend=mend)
    return lon, lat, amplitude, fwhm
