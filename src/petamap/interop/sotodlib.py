"""sotodlib: AxisManagers in memory as petamap's observations, which `petamap.make_map` takes.

Boresight and focal plane are those of its own projection matrix, `sotodlib.coords.P`; the frame is
equatorial.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from so3g.proj import CelestialSightLine
from sotodlib.coords import P
from sotodlib.core import AxisManager

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import AnyArray, FloatArray, UInt8Array
from petamap.arrays.sample_arrays import SampleArrays, sample_arrays
from petamap.data.checks import check_times
from petamap.data.demodulation import STREAMS, StreamFlags, stream_pointing
from petamap.data.observation import DetectorNoise, Flags, Observation
from petamap.data.recorded_azimuth import RecordedAzimuth
from petamap.interop.so3g import so3g_pointing
from petamap.noise.model import NoiseModel, OneOverF
from petamap.noise.psd import check_noise_model
from petamap.pointing.compressed import CompressedPointing
from petamap.sky.map_units import to_kelvin


def sotodlib_observations(
    axis_managers: AxisManager | Iterable[AxisManager],
    signal: str | Sequence[str] = "signal",
    *,
    flags: str | Sequence[str] = (),
    noise: NoiseModel | Sequence[NoiseModel] | str | None = None,
    unit: str = "K_CMB",
    site: str = "so",
    weather: str = "typical",
) -> list[Observation]:
    """Return AxisManagers as observations, in equatorial coordinates; samples are not copied.

    The boresight is ``boresight_equ`` or, without it, ``boresight`` (az, el, roll) at ``timestamps``,
    through so3g; detectors are ``focal_plane`` (xi, eta, gamma). With ``hwp_angle`` the signal is that
    behind an ideal half-wave plate, in the convention of sotodlib: gamma is reflected. Demodulated signals
    are three streams a detector.

    Parameters
    ----------
    axis_managers : AxisManager, or several of them
        With axes dets and samps.
    signal : str or three of them
        Field with the samples; or those of demodulated streams, ``("dsT", "demodQ", "demodU")``.
    flags : str or sequence of str
        Fields with what is bad, as ``"flags.glitch_flags"``: Ranges of samples, RangesMatrix, or arrays.
    noise : NoiseModel, sequence of them, or str, optional
        Of all detectors (streams), or of each; or the field that ``fit_noise_model`` has made,
        ``"noise_fit_stats"``, with white noise per root of hertz. Without it, it must be estimated.
    unit : str
        Of the signal.
    site, weather : str
        Of the telescope, for so3g; not needed with ``boresight_equ``.

    Returns
    -------
    list of Observation

    Raises
    ------
    DataError
        If a field is missing, or is of a wrong shape.
    ConfigError
        If streams are not three, or noise of a field is asked for of streams.
    """
    given = [axis_managers] if isinstance(axis_managers, AxisManager) else list(axis_managers)
    streams = () if isinstance(signal, str) else tuple(signal)
    if streams and len(streams) != len(STREAMS):
        raise ConfigError(f"{len(streams)} streams", mend='signal=("dsT", "demodQ", "demodU")')
    wanted = (flags,) if isinstance(flags, str) else tuple(flags)
    made = []
    for number, one in enumerate(given):
        manager = _Manager(one, f"AxisManager {number}", unit)
        pointing = manager.pointing(site, weather, plate=not streams)
        made.append(
            manager.demodulated(number, streams, pointing, wanted, noise)
            if streams
            else manager.observation(number, str(signal), pointing, wanted, noise)
        )
    return made


@dataclass(frozen=True, eq=False)
class _Manager:
    """An AxisManager, its place for messages, and the unit of its signal."""

    axes: Any
    where: str
    unit: str

    def field(self, name: str) -> Any:
        if name not in self.axes:
            raise DataError(f"has no '{name}'", where=self.where)
        return self.axes[name]

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.axes.dets.vals]

    def observation(
        self, number: int, signal: str, pointing: CompressedPointing, flags: Sequence[str], noise: Any
    ) -> Observation:
        """Return the observation of a signal."""
        factor, unit = to_kelvin(self.unit)
        samples = sample_arrays(self.field(signal), None, self.names, factor)
        found = [self.flags(name, samples) for name in flags]
        times, rate = self.times(samples)
        return Observation(
            name=self.name(number), uid=number, n_samp=samples.shape[1], detectors=samples.detectors,
            sample_rate=rate, start_time=float(times[0]), intervals=((0, samples.shape[1]),),
            pointing=pointing, signals=(samples,), flags=tuple(found), noise=self.noise(samples, noise),
            azimuth=self.azimuth(), unit=unit, frame="equatorial",
        )  # fmt: skip

    def demodulated(
        self,
        number: int,
        fields: Sequence[str],
        pointing: CompressedPointing,
        flags: Sequence[str],
        noise: Any,
    ) -> Observation:
        """Return the observation of three streams a detector."""
        if isinstance(noise, str):
            raise ConfigError("streams of I, and of Q and U, have noise of their own", mend="give models")
        factor, unit = to_kelvin(self.unit)
        parts = tuple(sample_arrays(self.field(name), None, self.names, factor) for name in fields)
        one = parts[0]
        names = tuple(f"{name}-{stream}" for name in one.detectors for stream in STREAMS)
        all_rows = SampleArrays(np.broadcast_to(0.0, (len(names), one.shape[1])), None, names)
        times, rate = self.times(one)
        return Observation(
            name=self.name(number), uid=number, n_samp=one.shape[1], detectors=names, sample_rate=rate,
            start_time=float(times[0]), intervals=((0, one.shape[1]),), pointing=stream_pointing(pointing, 1),
            signals=(_Streams(parts),), flags=tuple(StreamFlags(self.flags(name, one)) for name in flags),
            noise=self.noise(all_rows, noise), azimuth=self.azimuth(), unit=unit, frame="equatorial",
        )  # fmt: skip

    def name(self, number: int) -> str:
        info = self.axes.get("obs_info")
        found = None if info is None else info.get("obs_id")
        return f"observation-{number}" if found is None else str(found)

    def times(self, samples: SampleArrays) -> tuple[FloatArray, float]:
        """Return times and sample rate."""
        times = check_times(self.field("timestamps"), f"{self.where}, timestamps")
        if len(times) != samples.shape[1] or len(times) < 2:
            raise DataError(f"{len(times)} times for {samples.shape[1]} samples", where=self.where)
        return times, (len(times) - 1) / (times[-1] - times[0])

    def pointing(self, site: str, weather: str, plate: bool) -> CompressedPointing:
        """Return the pointing that sotodlib's projection has, with the plate that it would demodulate."""
        plane = self.field("focal_plane")
        for name in ("xi", "eta", "gamma"):
            if name in plane and (bad := np.flatnonzero(~np.isfinite(plane[name]))).size:
                detector = self.names[int(bad[0])]
                raise DataError(
                    f"{name} is {plane[name][bad[0]]}",
                    where=f"{self.where}, focal_plane, detector {detector}",
                    mend="leave such detectors out: restrict('dets', ...)",
                )  # fmt: skip
        matrix = P.for_tod(self.axes, sight=self._sight(), site=site, weather=weather)
        angle = self.axes.get("hwp_angle") if plate else None
        return so3g_pointing(matrix.sight, matrix.fp, hwp_angle=angle)

    def _sight(self) -> Any:
        """Return the sight line of equatorial coordinates without an angle, which so3g lacks."""
        equatorial = self.axes.get("boresight_equ")
        if equatorial is None or "psi" in equatorial:
            return None
        return CelestialSightLine.for_lonlat(equatorial.ra, equatorial.dec, 0.0 * equatorial.ra)

    def azimuth(self) -> RecordedAzimuth | None:
        boresight = self.axes.get("boresight")
        if boresight is None or "az" not in boresight:
            return None
        track = np.asarray(boresight.az)
        return RecordedAzimuth(
            lambda start, stop: track[start:stop], lambda sample: f"{self.where}, az, sample {sample}"
        )

    def flags(self, name: str, samples: SampleArrays) -> Flags:
        """Return flags of a field: Ranges or RangesMatrix, or an array."""
        found = self.field(name)
        if not hasattr(found, "mask"):
            return SampleArrays(samples.signal, samples.of_samples(name, found, "biu"), samples.detectors)
        if tuple(found.shape) not in (samples.shape, samples.shape[1:]):
            raise DataError(f"has the shape {tuple(found.shape)}, the signal {samples.shape}", where=name)
        rows = [found] if len(found.shape) == 1 else [found[row] for row in range(len(samples.detectors))]
        return _RangeFlags(tuple(np.asarray(row.ranges()).reshape(-1, 2) for row in rows))

    def noise(self, samples: SampleArrays, noise: Any) -> DetectorNoise | None:
        """Return the noise models of rows of the signal."""
        if noise is None:
            return None
        if isinstance(noise, str):
            models = self._fitted(noise)
        else:
            models = list(noise) if isinstance(noise, Sequence) else [noise] * samples.shape[0]
        if len(models) != samples.shape[0]:
            raise DataError(f"{len(models)} models for {samples.shape[0]} rows of the signal", where="noise")
        for row, model in enumerate(models):
            check_noise_model(model, samples.place("noise", row))
        return DetectorNoise(tuple(models))

    def _fitted(self, name: str) -> list[OneOverF]:
        """Return the models of ``fit_noise_model``: wn^2 (1 + (fknee / f)^alpha), one-sided."""
        found, (factor, _) = self.field(name), to_kelvin(self.unit)
        columns = [str(one) for one in found.noise_model_coeffs.vals]
        rows = [found.fit[:, columns.index(one)] for one in ("white_noise", "fknee", "alpha")]
        return [
            OneOverF(float(factor * white / np.sqrt(2)), float(knee), 0.0, -float(slope))
            for white, knee, slope in zip(*rows, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class _RangeFlags:
    """Ranges of bad samples, of each detector or of all (implements `Flags`)."""

    ranges: tuple[AnyArray, ...]

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        ranges = self.ranges[detector if len(self.ranges) > 1 else 0]
        first = np.searchsorted(ranges[:, 1], start, side="right")
        for begin, end in ranges[first : np.searchsorted(ranges[:, 0], stop)].tolist():
            out[max(begin - start, 0) : end - start] = 1


@dataclass(frozen=True, eq=False)
class _Streams:
    """Demodulated streams, those of a detector beside each other (implements `Signal`)."""

    parts: tuple[SampleArrays, ...]

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        number, stream = divmod(detector, len(self.parts))
        self.parts[stream].add_signal(number, start, stop, out)
