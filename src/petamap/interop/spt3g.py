"""spt3g: scans of G3 frames as petamap's observations, which `petamap.make_map` takes.

A boresight of spt3g turns X to the line of sight and Z to the north of the focal plane; offsets (x, y) of a
detector are those of `spt3g.maps.offsets_to_quat`. so3g brings an older spt3g of its own: whoever needs both
imports so3g first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from spt3g import core

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import AnyArray, FloatArray, UInt8Array
from petamap.data.observation import DetectorNoise, Observation
from petamap.interop.so3g import scalar_last
from petamap.noise.model import NoiseModel
from petamap.noise.psd import check_noise_model
from petamap.pointing import quaternion
from petamap.pointing.boresight import Boresight
from petamap.pointing.compressed import CompressedPointing

_FRAMES = ("equatorial", "galactic", "ecliptic")


def g3_observations(
    frames: Any,
    timestreams: str,
    pointing: str,
    *,
    noise: NoiseModel | Sequence[NoiseModel] | dict[str, NoiseModel] | None = None,
    flags: str | None = "Flags",
    bolometer_properties: str = "BolometerProperties",
    frame: str = "equatorial",
) -> list[Observation]:
    """Return the scans of G3 frames as observations; samples are not copied.

    A detector responds to I + e (Q cos 2 a + U sin 2 a) of IAU, with a its ``pol_angle`` where the boresight
    is not rolled, from north to east; it turns with the boresight. Samples that are nan are bad.

    Parameters
    ----------
    frames : G3Frame or iterable of them, or path or paths of G3 files
        Frames that hold bolometer properties come before scans.
    timestreams : str
        Object of a scan with the samples, a `G3TimestreamMap`.
    pointing : str
        Object of a scan with the boresight of each sample, a `G3VectorQuat`.
    noise : NoiseModel, sequence or dict of them, optional
        Of all detectors, of each in the order of the timestreams, or by name. Without it, it must be
        estimated.
    flags : str, optional
        Object of a scan, if it is there, with the reasons why detectors are left out, by their names.
    bolometer_properties : str
        Object with ``x_offset``, ``y_offset``, ``pol_angle`` and ``pol_efficiency`` of each detector.
    frame : {"equatorial", "galactic", "ecliptic"}
        Of the boresight.

    Returns
    -------
    list of Observation

    Raises
    ------
    DataError
        If an object is missing, a detector has no properties, or numbers of samples differ.
    ConfigError
        If the frame is not known.
    """
    if frame not in _FRAMES:
        raise ConfigError(f"unknown frame '{frame}'", mend=", ".join(_FRAMES))
    properties: Any = None
    made: list[Observation] = []
    for one in _frames(frames):
        if bolometer_properties in one:
            properties = one[bolometer_properties]
        if one.type != core.G3FrameType.Scan:
            continue
        scan = _Scan(one, len(made), timestreams, pointing, properties)
        if names := scan.detectors(flags):
            made.append(scan.observation(names, noise, frame))
    return made


def _frames(given: Any) -> Iterator[Any]:
    """Yield frames of frames, or of files."""
    if isinstance(given, core.G3Frame):
        yield given
    elif isinstance(given, str | os.PathLike):
        yield from core.G3File(os.fspath(given))
    else:
        assert isinstance(given, Iterable)
        for one in given:
            yield from _frames(one)


@dataclass(frozen=True, eq=False)
class _Scan:
    """A scan, its number, the names of its objects, and properties of detectors."""

    frame: Any
    number: int
    timestreams: str
    pointing: str
    properties: Any

    @property
    def where(self) -> str:
        return f"scan {self.number}"

    def part(self, name: str) -> Any:
        if name not in self.frame:
            raise DataError(
                f"has no '{name}'", where=self.where, mend=f"it has {', '.join(self.frame.keys())}"
            )
        return self.frame[name]

    def detectors(self, flags: str | None) -> tuple[str, ...]:
        """Return the detectors that are not flagged."""
        flagged = set(self.frame[flags].keys()) if flags is not None and flags in self.frame else set()
        return tuple(name for name, _ in self.part(self.timestreams).items() if name not in flagged)

    def observation(self, names: tuple[str, ...], noise: Any, frame: str) -> Observation:
        streams = self.part(self.timestreams)
        knots = scalar_last(self.part(self.pointing), f"{self.where}, {self.pointing}")
        if len(knots) != streams.n_samples:
            raise DataError(
                f"{len(knots)} quaternions for {streams.n_samples} samples",
                where=f"{self.where}, {self.pointing}",
            )
        factor, unit = _unit(streams.units)
        samples = _Timestreams(tuple(np.asarray(streams[name]) for name in names), factor)
        return Observation(
            name=self.where.replace(" ", "-"), uid=self.number, n_samp=len(knots), detectors=names,
            sample_rate=float(streams.sample_rate / core.G3Units.Hz),
            start_time=float(streams.start.time / core.G3Units.s), intervals=((0, len(knots)),),
            pointing=self._pointing(knots, names), signals=(samples,), flags=(samples,),
            noise=self._noise(names, noise), unit=unit, frame=frame,
        )  # fmt: skip

    def _pointing(self, knots: FloatArray, names: tuple[str, ...]) -> CompressedPointing:
        if self.properties is None:
            raise DataError("no frame before it has properties of bolometers", where=self.where)
        missing = [name for name in names if name not in self.properties]
        if missing:
            raise DataError("has no properties", where=f"{self.where}, detector {missing[0]}")
        rows = [self.properties[name] for name in names]
        x, y, angle = (
            np.array([getattr(row, part) for row in rows]) / core.G3Units.rad
            for part in ("x_offset", "y_offset", "pol_angle")
        )
        bad = np.flatnonzero(~np.isfinite(x + y + angle))
        if len(bad):
            raise DataError(
                "its offsets or polarization angle are nan", where=f"{self.where}, detector {names[bad[0]]}"
            )
        efficiency = np.array([row.pol_efficiency for row in rows])
        # Z of the detector to longitude x, latitude -y of a sphere that the boresight turns
        detectors = quaternion.from_angles(np.pi / 2 + y, x, np.pi - angle)
        return CompressedPointing(Boresight(knots, len(knots)), detectors, epsilon=1 - efficiency)

    def _noise(self, names: tuple[str, ...], noise: Any) -> DetectorNoise | None:
        if noise is None:
            return None
        if isinstance(noise, dict):
            missing = [name for name in names if name not in noise]
            if missing:
                raise DataError("no noise model", where=f"{self.where}, detector {missing[0]}")
            models = [noise[name] for name in names]
        elif isinstance(noise, Sequence):
            of = dict(zip(self.part(self.timestreams).keys(), noise, strict=True))
            models = [of[name] for name in names]
        else:
            models = [noise] * len(names)
        for name, model in zip(names, models, strict=True):
            check_noise_model(model, f"noise, detector {name}")
        return DetectorNoise(tuple(models))


@dataclass(frozen=True, eq=False)
class _Timestreams:
    """Timestreams of detectors, bad where they are nan (implements `Signal` and `Flags`)."""

    rows: tuple[AnyArray, ...]
    factor: float

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        out += self.factor * self.rows[detector][start:stop]

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        out |= ~np.isfinite(self.rows[detector][start:stop])


def _unit(units: Any) -> tuple[float, str]:
    """Return the factor of timestreams to petamap's unit, and the unit."""
    name = str(units).rpartition(".")[2]
    if name == "Tcmb":
        return 1 / core.G3Units.K, "K_CMB"
    return 1.0, "" if name in ("None", "NoUnits") else name
