"""Instrument of a simulated observation: detectors, noise, half-wave plate and flagged ranges."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petacomm.base.typing import BoolArray, Int64Array, UInt8Array
from petacomm.base.units import ARCMIN
from petamap.data.detector_noise import focalplane_noise
from petamap.data.observation import Observation
from petamap.data.selection import detectors_option
from petamap.data.source import SourceContext
from petamap.pointing.boresight import AnyBoresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.focalplane import FocalPlane, hexagonal, load_focalplane
from petamap.pointing.half_wave_plate import UniformPlate


@dataclass(frozen=True)
class InstrumentOptions:
    """Detectors and half-wave plate."""

    name: str = option("", help="of the observations, numbered where there are several; default: the kind")
    focalplane: str = option(
        "", path_or_name=True, help="planck-lfi, or a .toml, .xml or RIMO .fits file; a hexagon without one"
    )
    detectors: tuple[str, ...] = detectors_option()
    n_det: int = option(2, minimum=1, maximum=1_000_000, help="detectors of the hexagon, orthogonal pairs")
    spacing: float = option(
        30 * ARCMIN, dimension="angle", minimum=0.0, help="from pair to pair of the hexagon"
    )
    fwhm: float = option(0.0, dimension="angle", minimum=0.0, help="beam of the hexagon's detectors")
    epsilon: float = option(0.0, minimum=0.0, maximum=1.0, help="their cross-polar leakage")
    net: float = option(0.0, dimension="noise", minimum=0.0, help="their white noise; 0: none is known")
    fknee: float = option(0.0, dimension="frequency", minimum=0.0, help="their knee; 0: white")
    fmin: float = option(0.0, dimension="frequency", minimum=0.0, help="their noise is flat below this")
    alpha: float = option(
        -1.0, minimum=-10.0, maximum=0.0, help="slope of their noise at low frequency, negative"
    )
    sample_rate: float = option(
        0.0, dimension="frequency", minimum=0.0, help="0: that of the focal plane, or of the record"
    )
    interval: float = option(
        0.0, dimension="time", minimum=0.0, help="length of a stationary interval; 0: the whole observation"
    )
    hwp_frequency: float = option(
        0.0, dimension="frequency", minimum=0.0, help="turns a second of a half-wave plate; 0: no plate"
    )
    hwp_angle: float = option(0.0, dimension="angle", help="of the half-wave plate at the first sample")


@dataclass(frozen=True, eq=False)
class FlaggedRanges:
    """Sample ranges that are flagged for all detectors (implements `Flags`).

    Attributes
    ----------
    ranges : int64 (n, 2)
        Ranges [start, stop), increasing and disjoint.
    """

    ranges: Int64Array

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out` to 1 for samples of [start, stop) in a range."""
        first = int(np.searchsorted(self.ranges[:, 1], start, "right"))
        last = int(np.searchsorted(self.ranges[:, 0], stop, "left"))
        for begin, end in self.ranges[first:last]:
            out[max(begin - start, 0) : end - start] = 1


def true_ranges(bad: BoolArray) -> Int64Array:
    """Return the ranges [start, stop) in which an array is True, int64 (n, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bad, [False]]).astype(np.int8)))
    return edges.reshape(-1, 2).astype(np.int64)


class Instrument:
    """Instrument according to `InstrumentOptions`.

    Parameters
    ----------
    options : InstrumentOptions
    context : SourceContext
    record_rate : float
        Sample rate of a recorded track in Hz, unless it is given by the options.

    Raises
    ------
    ConfigError
        If a focal plane or detector is unknown; if the sample rate is unknown or differs between detectors;
        or if only some detectors have noise.
    """

    def __init__(self, options: InstrumentOptions, context: SourceContext, record_rate: float = 0.0) -> None:
        named = options.focalplane
        plane = context.read(load_focalplane, named, context.folder) if named else _hexagon(options)
        self.focalplane = plane.select(options.detectors, where=context.place("detectors"))
        self.sample_rate = options.sample_rate or record_rate or _common_rate(self.focalplane)
        self.noise = focalplane_noise(self.focalplane)
        self._options = options
        self._names = self.focalplane.names
        self._pointing: CompressedPointing | None = None

    def observation(
        self,
        name: str,
        start_time: float,
        boresight: AnyBoresight | Callable[[], AnyBoresight],
        n_samp: int,
        *,
        frame: str,
        bad: Int64Array,
        first_sample: int = 0,
        meta: dict[str, object],
    ) -> Observation:
        """Return an observation of all detectors.

        Parameters
        ----------
        name : str
            The uid of the observation is the CRC-32 of the name.
        start_time : float
            Unix seconds.
        boresight : Boresight, PiecewiseBoresight or callable
            A function is called at first use.
        n_samp : int
        frame : str
            Frame of the boresight.
        bad : int64 array, shape (n, 2)
            Sample ranges to be flagged.
        first_sample : int
            First sample of the observation in the run, which gives the phase of the half-wave plate.
        meta : dict
            Additional information for `Observation.meta`.
        """
        pointing = self._pointing_along(boresight, self._plate(first_sample), n_samp)
        return Observation(
            name=name,
            uid=zlib.crc32(name.encode()),
            n_samp=n_samp,
            sample_rate=self.sample_rate,
            detectors=self._names,
            start_time=start_time,
            intervals=_intervals(n_samp, round(self._options.interval * self.sample_rate)),
            pointing=pointing,
            frame=frame,
            flags=(FlaggedRanges(bad),) if len(bad) else (),
            noise=self.noise,
            meta={"focalplane": self.focalplane.name, **meta},
        )

    def _pointing_along(
        self, boresight: AnyBoresight | Callable[[], AnyBoresight], plate: UniformPlate | None, n_samp: int
    ) -> CompressedPointing:
        """Return the pointing of all detectors, of which all observations share the arrays."""
        if self._pointing is None:
            plane = self.focalplane
            self._pointing = CompressedPointing(
                boresight, plane.quaternions, epsilon=plane.values("epsilon"), gamma=plane.values("psi"),
                n_samp=n_samp,
            )  # fmt: skip
        return self._pointing.along(boresight, plate, n_samp)

    def _plate(self, first_sample: int) -> UniformPlate | None:
        if not self._options.hwp_frequency:
            return None
        rate = 2 * math.pi * self._options.hwp_frequency / self.sample_rate
        return UniformPlate(self._options.hwp_angle + rate * first_sample, rate)


def _hexagon(options: InstrumentOptions) -> FocalPlane:
    names = ("fwhm", "epsilon", "net", "fknee", "fmin", "alpha")
    return hexagonal(options.n_det, options.spacing, **{name: getattr(options, name) for name in names})


def _common_rate(plane: FocalPlane) -> float:
    rates = plane.values("sample_rate")
    if not rates[0] > 0:
        raise ConfigError("the sample rate is not known", where=plane.name, mend='say sample_rate = "100 Hz"')
    if np.ptp(rates) > 1e-9 * rates[0]:
        odd = plane.names[int(np.argmax(np.abs(rates - rates[0])))]
        raise ConfigError(
            f"{plane.names[0]} and {odd} are sampled at different rates",
            where=plane.name,
            mend="select detectors of one band, or say sample_rate",
        )
    return float(rates[0])


def _intervals(n_samp: int, length: int) -> tuple[tuple[int, int], ...]:
    """Return intervals of `length` samples; a remainder shorter than half of it is added to the last."""
    if length <= 0 or length >= n_samp:
        return ((0, n_samp),)
    number = max(1, (n_samp + length // 2) // length)
    edges = [*(i * length for i in range(number)), n_samp]
    return tuple(itertools.pairwise(edges))
