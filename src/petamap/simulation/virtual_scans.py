"""Simulated observations: scans of a satellite or a telescope, and recorded tracks of a telescope."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.options import option
from petacomm.base.typing import FloatArray, Int64Array
from petacomm.base.units import ARCMIN, ARCSEC, DEGREE, parse_utc
from petamap.data.observation import AzimuthTrack, Observation
from petamap.data.selection import observations_option, select_observations
from petamap.data.source import SourceContext
from petamap.pointing import antenna, frames
from petamap.pointing import scan_strategies as scan
from petamap.pointing.motion import KnotSpacing, Motion, choose_knot_spacing, place_knots
from petamap.simulation.instrument import Instrument, InstrumentOptions, true_ranges

_MOST_SAMPLES = 2**48  # of a detector: their times are exact to 1/32 of a sample


def _require_countable(duration: float, sample_rate: float, where: str) -> None:
    """Raise ConfigError if a detector has more samples in a time than can be numbered."""
    if not duration * sample_rate <= _MOST_SAMPLES:
        what = f"{duration:g} s at {sample_rate:g} Hz are more than {_MOST_SAMPLES:.2g} samples of a detector"
        raise ConfigError(what, where=where, mend="make it shorter, or the sample rate lower")


@dataclass(frozen=True)
class ScanOptions(InstrumentOptions):
    """Simulated scan."""

    duration: float = option(3600.0, dimension="time", minimum=0.0, help="of all observations together")
    n_observations: int = option(1, minimum=1, maximum=1_000_000, help="into which the duration is cut")
    observations: tuple[str, ...] = observations_option()
    start: str = option("2026-01-01T00:00:00", help="time of the first sample, UTC")
    pointing_error: float = option(
        0.1 * ARCSEC, dimension="angle", minimum=0.0, help="allowed by interpolation between knots"
    )


@dataclass(frozen=True)
class SatelliteOptions(ScanOptions):
    """A spinning, precessing satellite that follows the Sun; the defaults are like Planck's scan."""

    spin_period: float = option(60.0, dimension="time", minimum=1e-3, maximum=1e9, help="of the spin")
    opening: float = option(85 * DEGREE, dimension="angle", help="from the spin axis to the line of sight")
    precession_period: float = option(
        0.5 * scan.YEAR, dimension="time", minimum=0.0, help="about the anti-solar point; 0: none"
    )
    precession_angle: float = option(
        7.5 * DEGREE, dimension="angle", help="from the anti-solar point to the spin axis"
    )
    year: float = option(
        scan.YEAR, dimension="time", minimum=1.0, help="in which the Sun goes round; less: a faster mission"
    )
    repointing_period: float = option(
        0.0, dimension="time", minimum=0.0, maximum=1e6,
        help="from one step of the spin axis to the next; 0: it moves on",
    )  # fmt: skip
    repointing_time: float = option(
        300.0, dimension="time", minimum=0.0, help="that a step takes, at the end of the period"
    )
    repointings: str = option("cut", choices=("cut", "keep"), help="whether samples of steps are flagged")
    frame: str = option("galactic", choices=frames.FRAMES, help="coordinates of the map")


@dataclass(frozen=True)
class SweepOptions(ScanOptions):
    """Telescope that sweeps back and forth."""

    speed: float = option(1 * DEGREE, dimension="speed", minimum=0.0, help="between turn-arounds")
    acceleration: float = option(1 * DEGREE, dimension="acceleration", minimum=0.0, help="in turn-arounds")
    turnarounds: str = option("cut", choices=("cut", "keep"), help="whether turn-arounds are flagged")
    frame: str = option("equatorial", choices=frames.FRAMES, help="coordinates of the map")
    pointing_error: float = option(
        1.0 * ARCSEC, dimension="angle", minimum=0.0, help="allowed by interpolation between knots"
    )


@dataclass(frozen=True)
class GroundOptions(SweepOptions):
    """A telescope on the ground that sweeps in azimuth at constant elevation."""

    site_latitude: float = option(-22.96 * DEGREE, dimension="angle", help="of the site, geodetic")
    site_longitude: float = option(-67.79 * DEGREE, dimension="angle", help="of the site, east positive")
    azimuth_min: float = option(140 * DEGREE, dimension="angle", help="lower end, from north to east")
    azimuth_max: float = option(220 * DEGREE, dimension="angle", help="upper end")
    elevation: float = option(50 * DEGREE, dimension="angle", help="of the line of sight")


@dataclass(frozen=True)
class RasterOptions(SweepOptions):
    """A raster or daisy about a point of the sky."""

    pattern: str = option("raster", choices=("raster", "daisy"), help="rows, or swings through the centre")
    longitude: float = option(0.0, dimension="angle", help="of the centre: right ascension where equatorial")
    latitude: float = option(0.0, dimension="angle", help="of the centre: declination where equatorial")
    width: float = option(
        1 * DEGREE, dimension="angle", minimum=0.0, help="of the rows; diameter of the daisy"
    )
    height: float = option(1 * DEGREE, dimension="angle", minimum=0.0, help="from first row to last")
    row_spacing: float = option(2 * ARCMIN, dimension="angle", minimum=0.0, help="from row to row, at most")
    position_angle: float = option(0.0, dimension="angle", help="by which rows are turned, east to north")
    position_angle_step: float = option(
        90 * DEGREE, dimension="angle", help="by which each further observation is turned"
    )


@dataclass(frozen=True, kw_only=True)
class RecordedOptions(InstrumentOptions):
    """The recorded track of a real antenna (ASTE's .ant logs) with detectors of one's own."""

    path: str = option(path=True, help="the log, plain or gzipped")
    track: str = option(
        "sky", choices=("sky", "offset"), help="sky: as it was; offset: about the source, which may move"
    )
    max_distance: float = option(
        0.0, dimension="angle", minimum=0.0, help="samples farther from the source are flagged; 0: none"
    )
    turnarounds: str = option(
        "cut", choices=("cut", "keep"), help="whether all but scanning is flagged; gaps always are"
    )
    frame: str = option("equatorial", choices=frames.FRAMES, help="coordinates of the map where track = sky")


class SimulatedScan(ABC):
    """Base class of sources of simulated scans."""

    kind: ClassVar[str]
    _sweep: scan.Sweep | None = None  # whose turn-arounds are flagged

    def __init__(self, options: Any, context: SourceContext) -> None:
        self._options = options
        self._instrument = Instrument(options, context)
        self._context = context
        self._start = parse_utc(options.start)
        self._spacing: KnotSpacing | None = None

    @abstractmethod
    def motion(self, index: int, start_time: float) -> Motion:
        """Return the motion of observation `index` in the frame of the map, from its first sample."""

    def turnarounds(self, n_samp: int) -> Int64Array:
        """Return the sample ranges to be flagged in an observation, (n, 2): of turn-arounds."""
        if self._sweep is None or self._options.turnarounds == "keep":
            return np.zeros((0, 2), np.int64)
        return self._sweep.turnarounds(n_samp, self._instrument.sample_rate)

    def azimuth(self) -> AzimuthTrack | None:
        """Return the azimuth in each observation, if the scan has one."""
        return None

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Append the observations of the scan.

        Raises
        ------
        ConfigError
            If the duration is shorter than one sample per observation or has more than can be numbered, or
            a name fits no observation.
        """
        number, n_samp = self._options.n_observations, self._n_samp()
        cuts = [i * n_samp // number for i in range(number + 1)]
        made = [self._observation(i, cuts[i], cuts[i + 1]) for i in range(number)]
        wanted = self._options.observations
        chosen = select_observations(made, self._context, observations=wanted, detectors=())
        return [*observations, *chosen]

    def _n_samp(self) -> int:
        """Return the samples of a detector in all observations."""
        o, rate = self._options, self._instrument.sample_rate
        _require_countable(o.duration, rate, self.kind)
        n_samp: int = round(o.duration * rate)
        if n_samp < o.n_observations:
            what = (
                f"a duration of {o.duration:g} s makes {n_samp} samples for {o.n_observations} observations"
            )
            raise ConfigError(what, where=self.kind, mend="make it longer")
        return n_samp

    def _observation(self, index: int, first: int, stop: int) -> Observation:
        start_time = self._start + first / self._instrument.sample_rate
        name = self._options.name or self.kind
        if self._options.n_observations > 1:
            name = f"{name}-{index:04d}"
        motion = self.motion(index, start_time)
        spacing = self._knot_spacing(motion)
        observation = self._instrument.observation(
            name,
            start_time,
            partial(place_knots, motion, stop - first, self._instrument.sample_rate, spacing.samples),
            stop - first,
            frame=self._options.frame,
            bad=self.turnarounds(stop - first),
            first_sample=first,
            meta={
                "knot_spacing": spacing.extremes,
                "pointing_error_arcsec": spacing.error.max_total_arcsec,
            },
        )
        return dataclasses.replace(observation, azimuth=self.azimuth())

    def _knot_spacing(self, motion: Motion) -> KnotSpacing:
        """Return the spacing found for the first observation, which is valid for all."""
        if self._spacing is None:
            o, rate = self._options, self._instrument.sample_rate
            longest = math.ceil(self._n_samp() / o.n_observations)
            self._spacing = choose_knot_spacing(motion, longest, rate, o.pointing_error / ARCSEC)
        return self._spacing


@dataclass(frozen=True)
class SweptAzimuth:
    """Azimuth of a telescope that sweeps from its first sample on (implements `AzimuthTrack`)."""

    sweep: scan.Sweep
    lowest: float
    sample_rate: float

    def azimuths(self, start: int, stop: int) -> FloatArray:
        """Return the azimuth of samples [start, stop), radians."""
        return self.lowest + self.sweep.position(np.arange(start, stop) / self.sample_rate)


class SatelliteSource(SimulatedScan):
    """Source of the observations of a satellite."""

    kind = "satellite"
    options: ClassVar[type] = SatelliteOptions

    def motion(self, index: int, start_time: float) -> Motion:
        """Return the motion of the satellite in the frame of the map."""
        ecliptic = scan.satellite(
            start_time=start_time,
            spin_period=self._options.spin_period,
            opening=self._options.opening,
            precession_period=self._options.precession_period,
            precession_angle=self._options.precession_angle,
            year=self._options.year,
            repointing_period=self._options.repointing_period,
            repointing_time=self._options.repointing_time,
        )
        rotation = frames.frame_rotation("ecliptic", self._options.frame)
        return ecliptic.rotated(rotation)

    def turnarounds(self, n_samp: int) -> Int64Array:
        """Return the sample ranges of repointings to be flagged in an observation, (n, 2)."""
        period, turn = self._options.repointing_period, self._options.repointing_time
        if not period or self._options.repointings == "keep":
            return np.zeros((0, 2), np.int64)
        return scan.turn_ranges(period - turn, turn, n_samp, self._instrument.sample_rate)


class GroundSource(SimulatedScan):
    """Source of the observations of a ground-based telescope at constant elevation."""

    kind = "ground"
    options: ClassVar[type] = GroundOptions
    _sweep: scan.Sweep

    def __init__(self, options: GroundOptions, context: SourceContext) -> None:
        super().__init__(options, context)
        if not options.azimuth_max > options.azimuth_min:
            raise ConfigError("azimuth_max is not above azimuth_min", where=self.kind)
        width = options.azimuth_max - options.azimuth_min
        self._sweep = scan.Sweep(width, options.speed, options.acceleration)

    def motion(self, index: int, start_time: float) -> Motion:
        """Return the motion; each observation begins with a new sweep."""
        equatorial = scan.constant_elevation(
            self._sweep,
            azimuth=self._options.azimuth_min,
            elevation=self._options.elevation,
            latitude=self._options.site_latitude,
            longitude=self._options.site_longitude,
            start_time=start_time,
        )
        rotation = frames.frame_rotation("equatorial", self._options.frame)
        return equatorial.rotated(rotation)

    def azimuth(self) -> AzimuthTrack:
        """Return the azimuth, the same in all observations."""
        return SweptAzimuth(self._sweep, self._options.azimuth_min, self._instrument.sample_rate)


class RasterSource(SimulatedScan):
    """Source of raster or daisy scans of a patch of the sky."""

    kind = "raster"
    options: ClassVar[type] = RasterOptions

    def __init__(self, options: RasterOptions, context: SourceContext) -> None:
        super().__init__(options, context)
        sweep = scan.Sweep(options.width, options.speed, options.acceleration)
        self._sweep = None if options.pattern == "daisy" else sweep
        if not (options.height > 0 and options.row_spacing > 0):
            raise ConfigError("height and row_spacing must be positive", where=self.kind)
        self._rows = max(2, math.ceil(options.height / options.row_spacing - 1e-9) + 1)

    def motion(self, index: int, start_time: float) -> Motion:
        """Return the motion; the position angle increases with each observation."""
        o = self._options
        angle = o.position_angle + index * o.position_angle_step
        if self._sweep is None:
            return scan.daisy(
                longitude=o.longitude,
                latitude=o.latitude,
                radius=o.width / 2,
                speed=o.speed,
                position_angle=angle,
            )
        return scan.raster(
            self._sweep,
            longitude=o.longitude,
            latitude=o.latitude,
            rows=self._rows,
            row_spacing=o.height / (self._rows - 1),
            position_angle=angle,
        )


class RecordedSource:
    """Source of an observation along a recorded track."""

    options: ClassVar[type] = RecordedOptions

    def __init__(self, options: RecordedOptions, context: SourceContext) -> None:
        self._options, self._context = options, context

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Append the observation along the track.

        Raises
        ------
        DataError
            If the log cannot be read.
        """
        o = self._options
        log = self._context.read(antenna.read_antenna_log, self._context.folder / o.path)
        if o.turnarounds == "keep":
            log = dataclasses.replace(log, scanning=np.ones_like(log.scanning))
        if o.max_distance:
            near = log.distance() <= o.max_distance
            log = dataclasses.replace(log, scanning=log.scanning & near)
        instrument = Instrument(o, self._context, record_rate=log.rate)
        _require_countable(float(np.ptp(log.times)), instrument.sample_rate, o.path)
        rotation = frames.frame_rotation("equatorial", o.frame) if o.track == "sky" else None
        boresight, bad = antenna.boresight_from_log(
            log, instrument.sample_rate, track=o.track, rotation=rotation
        )
        observation = instrument.observation(
            o.name or "recorded",
            float(log.times[0]),
            boresight,
            boresight.n_samp,
            frame=o.frame if o.track == "sky" else frames.OFFSET,
            bad=true_ranges(bad),
            meta={"log": o.path, "knot_spacing": (boresight.spacing,) * 2},
        )
        return [*observations, observation]
