"""The instrument of a virtual observation: detectors, their noise, and what they must not use."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petacomm.base.typing import BoolArray, Int64Array, UInt8Array
from petacomm.base.units import ARCMIN
from petamap.data.observation import Observation
from petamap.data.source import Context
from petamap.noise.model import OneOverF
from petamap.pointing import focalplane
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing, UniformPlate
from petamap.pointing.focalplane import FocalPlane


@dataclass(frozen=True)
class InstrumentOptions:
    """Which detectors there are, and what stands before them."""

    name: str = option("", help="of the observations, numbered where there are several; default: the kind")
    focalplane: str = option("", help="planck-lfi, or a .toml or RIMO .fits file; a hexagon without one")
    detectors: tuple[str, ...] = option((), help="names of detectors, or beginnings of names; default: all")
    n_det: int = option(2, minimum=1, maximum=1_000_000, help="detectors of the hexagon, orthogonal pairs")
    spacing: float = option(
        30 * ARCMIN, dimension="angle", minimum=0.0, help="from pair to pair of the hexagon"
    )
    fwhm: float = option(0.0, dimension="angle", minimum=0.0, help="beam of the hexagon's detectors")
    epsilon: float = option(0.0, minimum=0.0, maximum=1.0, help="their cross-polar leakage")
    net: float = option(0.0, dimension="noise", minimum=0.0, help="their white noise; 0: none is known")
    fknee: float = option(0.0, dimension="frequency", minimum=0.0, help="their knee; 0: white")
    fmin: float = option(0.0, dimension="frequency", minimum=0.0, help="their noise is flat below this")
    alpha: float = option(-1.0, maximum=0.0, help="slope of their noise at low frequency, negative")
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
class BadRanges:
    """Sample ranges [start, stop), (n, 2) int64, increasing and disjoint, that no detector may use.

    Implements `Flags`.
    """

    ranges: Int64Array

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out` to 1 where a sample of [start, stop) is in a range."""
        first = int(np.searchsorted(self.ranges[:, 1], start, "right"))
        last = int(np.searchsorted(self.ranges[:, 0], stop, "left"))
        for begin, end in self.ranges[first:last]:
            out[max(begin - start, 0) : end - start] = 1


def ranges_of(bad: BoolArray) -> Int64Array:
    """Return the ranges [start, stop), (n, 2), in which an array is true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bad, [False]]).astype(np.int8)))
    ranges: Int64Array = edges.reshape(-1, 2).astype(np.int64)
    return ranges


@dataclass(frozen=True)
class FocalPlaneNoise:
    """The noise that a focal plane states, the same in all intervals (implements `Noise`)."""

    focalplane: FocalPlane

    def noise_model(self, detector: int, interval: int) -> OneOverF:
        """Return the model of a detector."""
        d = self.focalplane.detectors[detector]
        return OneOverF(d.net, d.fknee, d.fmin, d.alpha)


class Instrument:
    """What `InstrumentOptions` describe.

    Parameters
    ----------
    options : InstrumentOptions
    context : Context
    record_rate : float
        Hz; that of a recorded track, which the options may replace.

    Raises
    ------
    ConfigError
        For an unknown focal plane or detector; where the sample rate is not known, or differs between the
        detectors; where some detectors have noise and others none.
    """

    def __init__(self, options: InstrumentOptions, context: Context, record_rate: float = 0.0) -> None:
        named = options.focalplane
        plane = focalplane.load(named, context.folder) if named else _hexagon(options)
        self.focalplane = plane.select(options.detectors)
        self.sample_rate = options.sample_rate or record_rate or _common_rate(self.focalplane)
        self.noise = _noise(self.focalplane)
        self._options = options

    def observation(
        self,
        name: str,
        start_time: float,
        boresight: Boresight | Callable[[], Boresight],
        n_samp: int,
        *,
        bad: Int64Array,
        first_sample: int = 0,
        meta: dict[str, object],
    ) -> Observation:
        """Return an observation of all detectors.

        Parameters
        ----------
        name : str
            Its uid is the CRC-32 of the name.
        start_time : float
            Unix seconds.
        boresight : Boresight or callable
            A function is asked for it when it is first needed.
        n_samp : int
        bad : int64 array, shape (n, 2)
            Sample ranges to be flagged.
        first_sample : int
            Of the observation, counted from the first of the run: the phase of the half-wave plate.
        meta : dict
        """
        plane = self.focalplane
        pointing = CompressedPointing(
            boresight, plane.quaternions, epsilon=plane.values("epsilon"), gamma=plane.values("psi"),
            plate=self._plate(first_sample), n_samp=n_samp,
        )  # fmt: skip
        return Observation(
            name=name,
            uid=zlib.crc32(name.encode()),
            n_samp=n_samp,
            sample_rate=self.sample_rate,
            detectors=plane.names,
            start_time=start_time,
            intervals=_intervals(n_samp, round(self._options.interval * self.sample_rate)),
            pointing=pointing,
            flags=(BadRanges(bad),) if len(bad) else (),
            noise=self.noise,
            meta={"focalplane": plane.name, **meta},
        )

    def _plate(self, first_sample: int) -> UniformPlate | None:
        if not self._options.hwp_frequency:
            return None
        rate = 2 * math.pi * self._options.hwp_frequency / self.sample_rate
        return UniformPlate(self._options.hwp_angle + rate * first_sample, rate)


def _hexagon(options: InstrumentOptions) -> FocalPlane:
    common: dict[str, Any] = {
        key: getattr(options, key) for key in ("fwhm", "epsilon", "net", "fknee", "fmin", "alpha")
    }
    return focalplane.hexagonal(options.n_det, options.spacing, **common)


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


def _noise(plane: FocalPlane) -> FocalPlaneNoise | None:
    silent = [detector.name for detector in plane.detectors if not detector.net > 0]
    if len(silent) == len(plane.detectors):
        return None
    if silent:
        raise ConfigError(f"detector {silent[0]} has no net, others have", where=plane.name)
    return FocalPlaneNoise(plane)


def _intervals(n_samp: int, length: int) -> tuple[tuple[int, int], ...]:
    """Cut samples into intervals of `length`; a rest shorter than half of it goes to the one before."""
    if length <= 0 or length >= n_samp:
        return ((0, n_samp),)
    number = max(1, (n_samp + length // 2) // length)
    edges = [*(i * length for i in range(number)), n_samp]
    return tuple(itertools.pairwise(edges))
