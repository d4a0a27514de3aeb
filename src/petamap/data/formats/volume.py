"""petamap's own volume format: observations in one HDF5 file with checksums of all data.

Layout, version 1. Root attributes: ``format`` = "petamap volume", ``version`` = 1, ``n_observations``. Each
observation is a group ``0000``, ``0001``, ... with datasets

=================  =======================  ==============================================================
header             (n,) uint8               JSON in UTF-8, see below
knots              (n_knots, 4) float64     boresight quaternions (x, y, z, w), telescope to sky
pieces             (n_pieces, 5) float64    of a piecewise boresight: n_samp, n_knots, spacing, offset, degree
quaternions        (n_det, 4) float64       detector quaternions, detector to telescope
detector_angles    (2, n_det) float64       cross-polar leakage epsilon; polarization angle gamma, radians
plate              (n,) float64             angles of a sampled half-wave plate, radians (if there is one)
signal             (n_det, n_samp)          float64 or float32, in the unit of the header
flags              (n_det, n_samp) uint8    1 where a sample is bad
azimuth            (n_samp,) float64        azimuth of the telescope, radians (if it is known)
noise_0, ...       (n,) or (2, n) float64   inverse lags, or frequencies (Hz) and one-sided PSD
signal_crc, ...    (n_det, n_chunks) uint32 CRC-32 of each chunk of a row of signal and flags
=================  =======================  ==============================================================

The header has name, uid, n_samp, sample_rate (Hz), start_time (Unix s), detectors, intervals, unit,
frame; ``boresight`` {spacing, offset, order}, or {pieces} of a piecewise one; ``plate`` {kind, ...};
``noise`` {models, index (n_det, n_intervals)}; ``chunk`` (samples); and ``crc``, the CRC-32 of each dataset
that is read in full. The CRC-32 of the header is the attribute ``crc`` of its dataset. Parts that an
observation does not have are absent.

The internal structures of HDF5 are of the versions with checksums (``libver`` v110 and later); chunks
have Fletcher-32 in addition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.options import option
from petacomm.base.typing import AnyArray, FloatArray, UInt8Array
from petamap.data.formats.hdf5 import DAMAGED, Hdf5Reader, add_location
from petamap.data.formats.lazy import LazyPointing
from petamap.data.formats.volume_header import FORMAT, VERSION, VolumeHeader, crc32
from petamap.data.node_reads import Read
from petamap.data.observation import Observation
from petamap.data.read_ahead import Place, ReadAhead
from petamap.data.recorded_azimuth import RecordedAzimuth
from petamap.data.selection import detectors_option, observations_option, select_observations
from petamap.data.source import SourceContext
from petamap.noise.model import InverseLags, NoiseModel, OneOverF, TabulatedPsd
from petamap.noise.psd import check_noise_model
from petamap.pointing.boresight import AnyBoresight, Boresight, Order, PiecewiseBoresight
from petamap.pointing.compressed import CompressedPointing
from petamap.pointing.frames import FRAMES, OFFSET
from petamap.pointing.half_wave_plate import HalfWavePlate, SampledPlate, UniformPlate

_HEADER_LIMIT = 2**28  # bytes
_SPARSE = 16  # samples between knots


@dataclass(frozen=True)
class VolumeOptions:
    """Observations of petamap's own HDF5 files."""

    path: str = option(path=True, help="a file, or a folder of which all .h5 files are read")
    observations: tuple[str, ...] = observations_option()
    detectors: tuple[str, ...] = detectors_option()
    pointing: bool = option(True, help="use the pointing stored")
    signal: bool = option(True, help="use the signal stored")
    flags: bool = option(True, help="use the flags stored")
    noise: bool = option(True, help="use the noise models stored")
    frame: str = option(
        "", choices=("", *FRAMES, OFFSET), help="coordinates of the pointing, instead of those stored"
    )


class VolumeSource:
    """Source of the observations of volumes, in the order of files and of writing."""

    options: ClassVar[type] = VolumeOptions

    def __init__(self, options: VolumeOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._path = context.folder / options.path

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Append the observations of all files.

        Raises
        ------
        DataError
            If a file is not a volume, is of a newer version, or is damaged.
        ConfigError
            If a name fits no observation or detector.
        """
        paths = sorted(self._path.glob("[!.]*.h5")) if self._path.is_dir() else [self._path]
        if not paths:
            raise DataError(
                "no .h5 files here",
                where=str(self._path),
                mend="name the folder of a volume, or one of its files",
            )
        files = self._context.once_a_node([partial(self._observations, path) for path in paths])
        new = [one for of_file in files for one in of_file]
        options = self._options
        chosen = select_observations(
            new, self._context, observations=options.observations, detectors=options.detectors
        )
        return [*observations, *chosen]

    def _observations(self, path: Path) -> list[Observation]:
        return [self._observation(stored) for stored in open_volume(path)]

    def _observation(self, stored: VolumeObservation) -> Observation:
        wanted, header = self._options, stored.header
        sparse = (header.boresight or {}).get("spacing", math.inf) >= _SPARSE
        pointing = LazyPointing(header.n_samp, len(header.detectors), stored.pointing, sparse)
        return Observation(
            name=header.name,
            uid=header.uid,
            n_samp=header.n_samp,
            sample_rate=header.sample_rate,
            detectors=header.detectors,
            start_time=header.start_time,
            intervals=header.intervals,
            pointing=pointing if wanted.pointing and stored.has("knots") else None,
            signals=(stored,) if wanted.signal and stored.has("signal") else (),
            flags=(stored,) if wanted.flags and stored.has("flags") else (),
            noise=stored if wanted.noise and header.noise else None,
            azimuth=stored.azimuth() if stored.has("azimuth") else None,
            unit=header.unit,
            frame=wanted.frame or header.frame,
            meta={"file": str(stored.reader.path)},
        )


def open_volume(path: Path) -> list[VolumeObservation]:
    """Return the observations of a file; reads only their headers.

    Raises
    ------
    DataError
        If the file is not a volume, is of a newer version, or is damaged.
    """
    reader = Hdf5Reader(path)
    if reader.attribute("/", "format", str, "") != FORMAT:
        raise DataError("is no petamap volume", where=str(path))
    version = reader.attribute("/", "version", int)
    if version != VERSION:
        raise DataError(
            f"is of version {version}, known is {VERSION}", where=str(path), mend="update petamap"
        )
    n_observations = reader.attribute("/", "n_observations", int)
    names = reader.names()
    if names != [f"{number:04d}" for number in range(n_observations)]:
        raise DataError(f"should hold {n_observations} observations, not {', '.join(names)}", where=str(path))
    return [VolumeObservation(reader, name) for name in names]


class VolumeObservation:
    """Observation of a volume; signal, flags and noise are read and checked on demand."""

    def __init__(self, reader: Hdf5Reader, group: str) -> None:
        self.reader = reader
        self._group = group
        self._crcs: dict[str, AnyArray] = {}
        name = f"{group}/header"
        stored = reader.dataset(name, "u", (None,))
        if stored.n_bytes > _HEADER_LIMIT:
            raise DataError(f"{stored.n_bytes} bytes are too many", where=reader.where(name))
        content = reader.array(name, "u", (None,)).astype(np.uint8).tobytes()
        self._compare(name, crc32(content), reader.attribute(name, "crc", int))
        self.header = VolumeHeader.from_json(content, reader.where(name))

    def has(self, name: str) -> bool:
        """Return whether a dataset exists."""
        return self.reader.has(f"{self._group}/{name}")

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`."""
        for part, values in self._signal.parts(detector, start, stop):
            out[part] += values

    def signal_reads(self, detector: int, start: int, stop: int) -> list[Read]:
        """Return what is read for samples [start, stop) of the signal of a detector."""
        return [Read(self._signal, detector, start, stop)]

    def flag_reads(self, detector: int, start: int, stop: int) -> list[Read]:
        """Return what is read for samples [start, stop) of the flags of a detector."""
        return [Read(self._flags, detector, start, stop)]

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out` to 1 where a sample is flagged."""
        for part, values in self._flags.parts(detector, start, stop):
            out[part] |= values != 0

    @cached_property
    def _signal(self) -> ReadAhead:
        return self._samples("signal", "f")

    @cached_property
    def _flags(self) -> ReadAhead:
        return self._samples("flags", "u")

    def noise_model(self, detector: int, interval: int) -> NoiseModel:
        """Return the model of a detector in an interval."""
        assert self.header.noise is not None
        number: int = self.header.noise["index"][detector][interval]
        return self._models[number]

    def pointing(self) -> CompressedPointing:
        """Read and return the pointing."""
        header, n_det = self.header, len(self.header.detectors)
        if header.boresight is None:
            raise DataError("has knots and no boresight", where=self.reader.where(self._group), mend=DAMAGED)
        quaternions = self._read("quaternions", (n_det, 4))
        epsilon, gamma = self._read("detector_angles", (2, n_det))
        with add_location(self.reader.where(f"{self._group}/knots")):
            boresight = self._boresight(header.boresight)
        with add_location(self.reader.where(self._group)):
            return CompressedPointing(
                boresight, quaternions, epsilon=epsilon, gamma=gamma, plate=self._plate()
            )

    def azimuth(self) -> RecordedAzimuth:
        """Return the azimuth, which is read when it is first asked for."""
        return RecordedAzimuth(self._read_azimuths, self._place_of_azimuth)

    def _read_azimuths(self, start: int, stop: int) -> AnyArray:
        return self._azimuths[start:stop]

    def _place_of_azimuth(self, sample: int) -> str:
        return self.reader.where(f"{self._group}/azimuth", f"sample {sample}")

    @cached_property
    def _azimuths(self) -> AnyArray:
        return self._read("azimuth", (self.header.n_samp,))

    def _boresight(self, entry: dict[str, Any]) -> AnyBoresight:
        knots = self._read("knots", (None, 4))
        if "pieces" not in entry:
            return Boresight(knots, self.header.n_samp, overwrite=True, **entry)
        rows = self._read("pieces", (entry["pieces"], 5))
        n_samp, n_knots = (rows[:, column].astype(np.int64) for column in (0, 1))
        orders: dict[float, Order] = {1.0: "slerp", 3.0: "cubic"}
        if not set(rows[:, 4].tolist()) <= set(orders):
            raise DataError("pieces have another degree than 1 and 3", mend=DAMAGED)
        if n_samp.sum() != self.header.n_samp or n_knots.sum() != len(knots):
            what = f"pieces have {n_samp.sum()} samples and {n_knots.sum()} knots"
            raise DataError(f"{what}, the observation {self.header.n_samp} and {len(knots)}", mend=DAMAGED)
        parts = np.split(knots, np.cumsum(n_knots)[:-1])
        return PiecewiseBoresight(
            [
                Boresight(part, int(n), spacing, offset, orders[degree])
                for part, n, (_, _, spacing, offset, degree) in zip(parts, n_samp, rows.tolist(), strict=True)
            ]
        )

    def _plate(self) -> HalfWavePlate | None:
        plate = self.header.plate
        if plate is None:
            return None
        if plate["kind"] == "uniform":
            return UniformPlate(plate["phase"], plate["rate"])
        return SampledPlate(self._read("plate", (None,)), plate["spacing"], plate["offset"])

    @cached_property
    def _models(self) -> list[NoiseModel]:
        assert self.header.noise is not None
        models = [self._model(entry) for entry in self.header.noise["models"]]
        for number, model in enumerate(models):
            check_noise_model(model, self.reader.where(self._group, f"noise model {number}"))
        return models

    def _model(self, entry: dict[str, Any]) -> NoiseModel:
        if entry["kind"] == "one-over-f":
            return OneOverF(entry["net"], entry["fknee"], entry["fmin"], entry["alpha"])
        if entry["kind"] == "inverse-lags":
            return InverseLags(self._read(entry["dataset"], (None,)))
        return TabulatedPsd(*self._read(entry["dataset"], (2, None)))

    def _read(self, name: str, shape: tuple[int | None, ...]) -> AnyArray:
        values = self.reader.array(f"{self._group}/{name}", "fu", shape)
        self._compare(f"{self._group}/{name}", crc32(values), self.header.crc.get(name, -1))
        return values

    def _samples(self, name: str, kind: str) -> ReadAhead:
        """Return the samples of all detectors, which are checked as they are read."""
        header, path = self.header, f"{self._group}/{name}"
        dtype = self.reader.dataset(path, kind, (len(header.detectors), header.n_samp)).dtype
        crc = self._crc(name)

        def read(place: Place) -> AnyArray:
            out = np.empty((place.last - place.first, place.stop - place.start), dtype)
            for row, detector in zip(out, range(place.first, place.last), strict=True):
                self._read_row(path, kind, crc[detector], detector, place, row)
            return out

        n_det, place = len(header.detectors), self.reader.where(path)
        return ReadAhead(read, n_det, header.n_samp, header.intervals, place, header.chunk, dtype.itemsize)

    def _read_row(
        self, path: str, kind: str, crc: AnyArray, detector: int, place: Place, out: AnyArray
    ) -> None:
        """Read part of a row chunk by chunk, so that messages can name damaged samples."""
        header, start, stop = self.header, place.start, place.stop
        shape = len(header.detectors), header.n_samp
        for begin in range(start // header.chunk * header.chunk, stop, header.chunk):
            end = min(begin + header.chunk, header.n_samp)
            where = f"{header.name}, detector {header.detectors[detector]}, samples {begin}..{end - 1}"
            chunk = self.reader.rows(path, kind, shape, (detector, slice(begin, end)), where)
            self._compare(path, crc32(chunk), int(crc[begin // header.chunk]), where)
            first, last = max(begin, start), min(end, stop)
            out[first - start : last - start] = chunk[first - begin : last - begin]

    def _crc(self, name: str) -> AnyArray:
        if name not in self._crcs:
            n_chunks = -(-self.header.n_samp // self.header.chunk)
            self._crcs[name] = self._read(f"{name}_crc", (len(self.header.detectors), n_chunks))
        return self._crcs[name]

    def _compare(self, name: str, computed: int, written: int, part: str = "") -> None:
        if computed != written:
            raise DataError(
                f"is damaged: its CRC-32 is {computed:08x}, {written:08x} was written",
                where=self.reader.where(name, part),
                mend=DAMAGED,
            )
