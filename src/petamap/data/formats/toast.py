"""TOAST HDF5 volumes, format version 2: a folder of files with one observation each.

Read are ``shared`` times, boresight quaternions, half-wave plate angle, azimuth and flags; ``detdata`` signal
and flags; the table ``instrument/focalplane``; ``metadata/noise_model``; and ``intervals``. Classes named in
a file are neither imported nor called, and ``index.sqlite`` is not needed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.options import option
from petacomm.base.typing import AnyArray, FloatArray, UInt8Array
from petamap.data.checks import check_sampling, check_times
from petamap.data.formats.hdf5 import ArrayInFile, Hdf5Reader, add_location
from petamap.data.formats.lazy import LazyPointing
from petamap.data.formats.toast_instrument import (
    ToastFocalplane,
    noise_from_focalplane,
    noise_from_model,
)
from petamap.data.node_reads import Read
from petamap.data.observation import DetectorNoise, Observation
from petamap.data.read_ahead import Place, ReadAhead
from petamap.data.recorded_azimuth import RecordedAzimuth
from petamap.data.selection import detectors_option, observations_option, select_observations
from petamap.data.source import SourceContext
from petamap.noise.psd import check_noise_model
from petamap.pointing.boresight import Boresight, compress_boresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.half_wave_plate import SampledPlate

FORMAT_VERSION = 2
_END_AT_LEAPS = "name stationary intervals that end there, by intervals"


@dataclass(frozen=True)
class ToastOptions:
    """Observations of a TOAST HDF5 volume, format version 2."""

    path: str = option(path=True, help="the folder of the volume, or one of its .h5 files")
    observations: tuple[str, ...] = observations_option()
    detectors: tuple[str, ...] = detectors_option()
    signal: str = option("signal", help="detector data to map; empty for none")
    boresight: str = option("boresight_radec", help="shared boresight quaternions")
    thin: float = option(
        0.0, dimension="angle", minimum=0, help="thin the boresight out to this accuracy; 0 keeps all samples"
    )
    hwp_angle: str = option("hwp_angle", help="shared angle of the half-wave plate; empty ignores it")
    azimuth: str = option(
        "azimuth", help="shared azimuths, for templates and splits by direction; empty ignores them"
    )
    noise: str = option(
        "noise_model", help="noise model; without it the psd_ columns of the focal plane serve"
    )
    intervals: str = option("", help="stationary intervals; empty takes each observation as one")
    shared_flags: str = option("flags", help="shared flags; empty for none")
    shared_mask: int = option(255, minimum=0, maximum=255, help="bits of the shared flags that say bad")
    detector_flags: str = option("flags", help="detector flags by sample; empty for none")
    detector_mask: int = option(
        255, minimum=0, maximum=255, help="bits of detector flags that say bad, by sample or by detector"
    )


class ToastSource:
    """Source of the observations of a TOAST volume, without detectors that are flagged in full."""

    options: ClassVar[type] = ToastOptions

    def __init__(self, options: ToastOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._path = context.folder / options.path

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Append the observations of all files that have an unflagged detector.

        Raises
        ------
        DataError
            If there are none, or a file is not of format version 2 or is inconsistent.
        ConfigError
            If a name fits no observation or detector.
        """
        paths = sorted(self._path.rglob("[!.]*.h5")) if self._path.is_dir() else [self._path]
        if not paths:
            raise DataError(
                "no .h5 files here, nor in its folders",
                where=str(self._path),
                mend="name the folder of a volume, or one of its files",
            )
        files = self._context.once_a_node([partial(self._observation, path) for path in paths])
        new = [one for one in files if one is not None]
        if not new:
            raise DataError(
                f"all detectors of its {len(files)} observations are flagged",
                where=str(self._path),
                mend="clear bits of detector_mask that do not say bad, or name other files",
            )
        options = self._options
        chosen = select_observations(
            new, self._context, observations=options.observations, detectors=options.detectors
        )
        return [*observations, *chosen]

    def _observation(self, path: Path) -> Observation | None:
        """Return the observation of a file; None if all its detectors are flagged."""
        file = ToastFile(path, self._options)
        return file.observation() if file.detectors else None


class ToastFile:
    """File with one observation; signal and flags of its detectors are read on demand.

    Raises
    ------
    DataError
        If the file cannot be read, or is not of format version 2.
    """

    def __init__(self, path: Path, options: ToastOptions) -> None:
        self._options = options
        self._reader = reader = Hdf5Reader(path)
        version = reader.attribute("/", "toast_format_version", int, -1)
        if version != FORMAT_VERSION:
            raise DataError(f"is not a TOAST file of format version {FORMAT_VERSION}", where=str(path))
        self.name = reader.attribute("/", "observation_name", str)
        self.n_samp = reader.attribute("/", "observation_samples", int)
        if self.n_samp < 1:
            raise DataError(f"has {self.n_samp} samples", where=str(path))
        self._all = tuple(self._json("observation_detectors", list))
        flags = self._json("observation_detector_flags", dict)
        mask = options.detector_mask
        self._rows = [row for row, name in enumerate(self._all) if not int(flags.get(name, 0)) & mask]
        self.detectors = tuple(self._all[row] for row in self._rows)

    def observation(self) -> Observation:
        """Return the observation; reads the focal plane and the noise model, but no samples."""
        reader, options = self._reader, self._options
        if options.signal:
            self._check_detdata(f"detdata/{options.signal}")
        ends = (0, self.n_samp - 1)
        start, stop = (float(self._shared("shared/times", "f", k, f"sample {k}")) for k in ends)
        focalplane = ToastFocalplane(reader, self.detectors)
        rate = focalplane.sample_rate() or (self.n_samp - 1) / max(stop - start, 1e-9)
        unit = self._unit()
        return Observation(
            name=self.name,
            uid=reader.attribute("/", "observation_uid", int, zlib.crc32(self.name.encode())) % 2**32,
            n_samp=self.n_samp,
            sample_rate=rate,
            detectors=self.detectors,
            start_time=start,
            intervals=self._intervals,
            pointing=LazyPointing(
                self.n_samp, len(self.detectors), partial(self._pointing, focalplane, rate)
            ),
            signals=(self,) if options.signal else (),
            flags=(self,),
            noise=self._noise(focalplane, unit),
            unit="K_CMB" if unit == "K" else unit,
            frame="equatorial",
            azimuth=self._azimuth(),
            meta={"file": str(reader.path)},
        )

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`."""
        for part, values in self._signal.parts(self._rows[detector], start, stop):
            out[part] += values

    def signal_reads(self, detector: int, start: int, stop: int) -> list[Read]:
        """Return what is read for samples [start, stop) of the signal of a detector."""
        return [Read(self._signal, self._rows[detector], start, stop)]

    def flag_reads(self, detector: int, start: int, stop: int) -> list[Read]:
        """Return what is read for samples [start, stop) of the flags of a detector."""
        rows = [self._rows[detector] if by_detector else 0 for _, _, by_detector in self._flags]
        return [Read(part, row, start, stop) for (part, _, _), row in zip(self._flags, rows, strict=True)]

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out` to 1 for samples whose shared or detector flags have a bit of their mask."""
        for flags, mask, by_detector in self._flags:
            row = self._rows[detector] if by_detector else 0
            for part, values in flags.parts(row, start, stop):
                out[part] |= (values & mask) != 0

    @cached_property
    def _signal(self) -> ReadAhead:
        return self._samples(f"detdata/{self._options.signal}", "f")

    @cached_property
    def _flags(self) -> list[tuple[ReadAhead, int, bool]]:
        """Flags that there are: of all detectors or of each, and the bits that say bad."""
        options, found = self._options, []
        if self._is_given("shared", options.shared_flags, "shared_flags"):
            name = f"shared/{options.shared_flags}"
            grain = _grain(self._reader.dataset(name, "iu", (self.n_samp,)))

            def read(place: Place) -> AnyArray:
                where = f"samples {place.start}..{place.stop - 1}"
                return self._shared(name, "iu", slice(place.start, place.stop), where)[None]

            part = ReadAhead(read, 1, self.n_samp, self._intervals, self._reader.where(name), grain)
            found.append((part, options.shared_mask, False))
        if self._is_given("detdata", options.detector_flags, "detector_flags"):
            flags = self._samples(f"detdata/{options.detector_flags}", "iu")
            found.append((flags, options.detector_mask, True))
        return found

    def _azimuth(self) -> RecordedAzimuth | None:
        if not self._is_given("shared", self._options.azimuth, "azimuth"):
            return None
        self._reader.dataset(f"shared/{self._options.azimuth}", "f", (self.n_samp,))
        return RecordedAzimuth(self._read_azimuths, self._place_of_azimuth)

    def _read_azimuths(self, start: int, stop: int) -> AnyArray:
        name = f"shared/{self._options.azimuth}"
        return self._shared(name, "f", slice(start, stop), f"samples {start}..{stop - 1}")

    def _place_of_azimuth(self, sample: int) -> str:
        return self._reader.where(f"shared/{self._options.azimuth}", f"sample {sample}")

    def _is_given(self, group: str, name: str, key: str) -> bool:
        """Return whether there is a part to read; one of other than the default name must exist."""
        default = {field.name: field.default for field in fields(ToastOptions)}[key]
        return bool(name) and (name != default or self._reader.has(f"{group}/{name}"))

    def _samples(self, name: str, kinds: str) -> ReadAhead:
        """Return the samples of all rows of detector data."""
        shape = len(self._all), self.n_samp
        compressed = self._reader.is_group(name)
        grain = 1 if compressed else _grain(self._reader.dataset(name, kinds, shape))

        def read(place: Place) -> AnyArray:
            where = f"detector {self._all[place.first]}, samples {place.start}..{place.stop - 1}"
            if compressed:
                return self._reader.flac_rows(name, shape[0], place, where)
            rows = slice(place.first, place.last), slice(place.start, place.stop)
            return self._reader.rows(name, kinds, shape, rows, where)

        return ReadAhead(read, *shape, self._intervals, self._reader.where(name), grain)

    def _shared(self, name: str, kinds: str, samples: int | slice, where: str) -> AnyArray:
        """Return samples of what all detectors share."""
        return self._reader.rows(name, kinds, (self.n_samp,), (samples,), where)

    def _check_detdata(self, name: str) -> None:
        if self._reader.is_group(name):
            self._reader.check_flac(name)
        else:
            self._reader.dataset(name, "f", (len(self._all), self.n_samp))

    def _unit(self) -> str:
        if not self._options.signal:
            return "K"
        return self._reader.attribute(f"detdata/{self._options.signal}", "units", str, "") or "K"

    def _noise(self, focalplane: ToastFocalplane, unit: str) -> DetectorNoise | None:
        name = self._options.noise
        group = f"metadata/{name}"
        if name and self._reader.has(group):
            noise: DetectorNoise | None = noise_from_model(self._reader, group, self.detectors, unit)
        else:
            noise = noise_from_focalplane(focalplane, unit)
        for detector, model in zip(self.detectors, noise.models if noise else (), strict=False):
            check_noise_model(model, self._reader.where("noise", f"detector {detector}"))
        return noise

    def _pointing(self, focalplane: ToastFocalplane, rate: float) -> CompressedPointing:
        reader, options = self._reader, self._options
        check_sampling(self._times(), rate, self._intervals, reader.where("shared/times"), _END_AT_LEAPS)
        name = f"shared/{options.boresight}"
        knots = reader.array(name, "f", (self.n_samp, 4))
        with add_location(reader.where(name)):
            if options.thin:
                boresight = compress_boresight(knots, float(np.degrees(options.thin) * 3600))
            else:
                boresight = Boresight(knots, self.n_samp, overwrite=True)
        plate = None
        if options.hwp_angle and reader.has(f"shared/{options.hwp_angle}"):
            plate = SampledPlate(reader.array(f"shared/{options.hwp_angle}", "f", (self.n_samp,)))
        with add_location(reader.where("instrument/focalplane")):
            return CompressedPointing(
                boresight,
                focalplane.quaternions(),
                epsilon=focalplane.values("pol_leakage"),
                gamma=focalplane.values("gamma", "rad"),
                plate=plate,
            )

    @cached_property
    def _intervals(self) -> tuple[tuple[int, int], ...]:
        """Return the intervals as sample ranges [start, stop)."""
        name = f"intervals/{self._options.intervals}"
        if not self._options.intervals:
            return ((0, self.n_samp),)
        spans = self._reader.array(name, "f", (2, None))
        times = self._times()
        if not np.isfinite(spans).all():
            raise DataError("has bounds that are not finite", where=self._reader.where(name))
        # Bounds are stored as times; the slack compensates for rounding.
        slack = 1e-3 * float(np.median(np.diff(times))) if self.n_samp > 1 else 0.0
        starts, stops = (np.searchsorted(times, bound - slack) for bound in spans)
        stops[stops == self.n_samp - 1] = self.n_samp  # an interval that ends at the last sample includes it
        return tuple((int(a), int(b)) for a, b in zip(starts, stops, strict=True) if a < b)

    def _times(self) -> FloatArray:
        """Return the times, which are checked."""
        times = self._reader.array("shared/times", "f", (self.n_samp,))
        return check_times(times, self._reader.where("shared/times"))

    def _json(self, key: str, kind: type[Any]) -> Any:
        text = self._reader.attribute("/", key, str, "{}" if kind is dict else None)
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"attribute '{key}' is no JSON: {error}", where=str(self._reader.path)) from error
        valid = isinstance(value, kind) and all(isinstance(item, str) for item in value)
        if kind is dict and valid:
            valid = all(type(item) is int for item in value.values())
        if not valid or (kind is list and len(set(value)) < len(value)):
            raise DataError(f"attribute '{key}' is not what it should be", where=str(self._reader.path))
        return value


def _grain(stored: ArrayInFile) -> int:
    """Return the samples of the chunks of a dataset, which are unpacked and verified whole."""
    return int(stored.chunks[-1]) if stored.chunks else 1
