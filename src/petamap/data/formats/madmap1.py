"""MADmap version 1 format: a binary stream of all samples, and inverse-noise files for ranges of it.

The stream is a header of four int64 (first sample, last sample, pixels per sample, ``n_pix``), followed by
one record {float64 signal, float32 weight, int32 pixel} per sample. An inverse-noise file has three int64
(first sample, last sample, ``n_corr``) and ``n_corr + 1`` float64: N^-1 at lags 0 to n_corr for this sample
range of the stream. Hence each inverse-noise file gives the sample range of one detector in one stationary
block; MADmap orders them by block and, within a block, by detector. All numbers have the same byte order.
"""

from __future__ import annotations

import gzip
import lzma
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import atomic_write
from petacomm.base.options import option
from petacomm.base.typing import (
    AnyArray,
    BoolArray,
    Float32Array,
    FloatArray,
    Int32Array,
    UInt32Array,
)
from petamap.data.formats.hdf5 import add_location
from petamap.data.formats.madmap1_filters import (
    BYTE_ORDERS,
    NoiseFilter,
    detect_byte_order,
    read_noise_filters,
    split_blocks,
)
from petamap.data.observation import Observation
from petamap.data.selection import detectors_option, observations_option, select_observations
from petamap.data.source import SourceContext
from petamap.noise.model import InverseLags
from petamap.pointing.frames import FRAMES
from petamap.pointing.recorded import renumber
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import ImageLayout, NumberedPixels
from petamap.sky.pixelization import Pixelization

_HEADER_BYTES = 32
_OPEN_COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
_UNPACKED_LIMIT = 2**31  # largest uncompressed size of a compressed stream, bytes


def sample_dtype(order: str) -> np.dtype[np.void]:
    """Return the dtype of a sample in byte order `order` (">" or "<")."""
    return np.dtype([("signal", order + "f8"), ("weight", order + "f4"), ("pixel", order + "i4")])


@dataclass(frozen=True)
class Madmap1Options:
    """A MADmap v1 stream and its inverse-noise files."""

    tod: str = option(path=True, help="the binary stream of signal, weight and pixel; may be .gz or .xz")
    filters: str = option(
        path=True, help="inverse-noise files: a folder of NAME.<number>, or a .tar or .tar.gz"
    )
    image: str = option("", path=True, help="a FITS image whose finite pixels, row by row, are the pixels")
    name: str = option("madmap", help="observations are called NAME-0000, NAME-0001, ...")
    observations: tuple[str, ...] = observations_option()
    detectors: tuple[str, ...] = detectors_option()
    byte_order: str = option("auto", choices=("auto", "big", "little"), help="byte order of all the files")
    n_detectors: int = option(
        0, minimum=0, help="detectors of each block; 0 finds the number after which the filters repeat"
    )
    healpix: str = option(
        "",
        choices=("", "ring", "nested"),
        help="order of the numbers, where they are HEALPix pixels of the whole sky; empty: bare numbers",
    )
    frame: str = option(
        "", choices=("", *FRAMES), help="coordinates of HEALPix pixels, which the files do not tell"
    )
    weights: str = option(
        "auto",
        choices=("auto", "unit", "recorded"),
        help="recorded gains: use them, take them as 1, or look through the stream whether all are 1",
    )
    sample_rate: float = option(1.0, dimension="frequency", help="the files do not tell it")
    unit: str = option("K_CMB", help="unit of the signal; the files do not tell it")


class Madmap1Source:
    """Source of the observations of a MADmap v1 stream, one for each block of detectors."""

    options: ClassVar[type] = Madmap1Options

    def __init__(self, options: Madmap1Options, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._folder = context.folder

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Append one observation per block.

        Raises
        ------
        DataError
            If a file is truncated or inconsistent, if samples have no inverse-noise file, or if the number of
            pixels is none of HEALPix where it should be.
        ConfigError
            If a name fits no observation or detector.
        """
        stream = Madmap1Stream(self._folder / self._options.tod, self._options.byte_order)
        filters = read_noise_filters(self._folder / self._options.filters, self._options.byte_order)
        stream.check_coverage(filters)
        pixelization = self._pixelization(stream)
        blocks = split_blocks(filters, self._options.n_detectors)
        new = [self._observation(stream, number, block, pixelization) for number, block in enumerate(blocks)]
        options = self._options
        chosen = select_observations(
            new, self._context, observations=options.observations, detectors=options.detectors
        )
        return [*observations, *chosen]

    def _pixelization(self, stream: Madmap1Stream) -> Pixelization:
        if self._options.healpix:
            return self._healpix(stream)
        if not self._options.image:
            return NumberedPixels(stream.n_pix)
        path = self._folder / self._options.image
        layout = read_image_layout(path)
        if layout.index.size != stream.n_pix:
            raise DataError(
                f"{layout.index.size} finite pixels where the stream has {stream.n_pix}", where=str(path)
            )
        return NumberedPixels(stream.n_pix, layout)

    def _healpix(self, stream: Madmap1Stream) -> Healpix:
        n_side = math.isqrt(stream.n_pix // 12)
        if 12 * n_side**2 != stream.n_pix:
            raise DataError(
                f"its {stream.n_pix} pixels are not the 12 n_side^2 of HEALPix", where=str(stream.path)
            )
        return Healpix(n_side, nest=self._options.healpix == "nested")

    def _observation(
        self, stream: Madmap1Stream, number: int, filters: Sequence[NoiseFilter], pixelization: Pixelization
    ) -> Observation:
        name = f"{self._options.name}-{number:04d}"
        block = Madmap1Block(stream, name, filters, self._options.weights, pixelization)
        return Observation(
            name=name,
            uid=zlib.crc32(name.encode()),
            n_samp=block.n_samp,
            sample_rate=self._options.sample_rate,
            detectors=tuple(f"{detector:04d}" for detector in range(block.n_det)),
            start_time=number * block.n_samp / self._options.sample_rate,
            intervals=((0, block.n_samp),),
            pointing=block,
            frame=self._options.frame or None,
            signals=(block,),
            noise=block,
            unit=self._options.unit,
            meta={"file": str(stream.path)},
        )


def read_image_layout(path: Path) -> ImageLayout:
    """Return the layout of the finite pixels of the first two-dimensional image of a FITS file.

    Raises
    ------
    DataError
        If the file cannot be read or has no such image.
    """
    from astropy.io import fits
    from astropy.wcs import WCS

    try:
        with fits.open(path, memmap=False) as file:
            hdu = next((hdu for hdu in file if hdu.is_image and hdu.header.get("NAXIS") == 2), None)
            if hdu is None:
                raise DataError("holds no image of two dimensions", where=str(path))
            image, cards = hdu.data, dict(WCS(hdu.header).to_header())
    except (OSError, ValueError, TypeError, KeyError, IndexError, fits.VerifyError) as error:
        raise DataError(f"is no readable FITS file: {error}", where=str(path)) from error
    return ImageLayout(image.shape, np.flatnonzero(np.isfinite(image)), cards)


def _open(path: Path) -> BinaryIO:
    """Open a file to be read, unpacked by its suffix."""
    opened: BinaryIO = _OPEN_COMPRESSED.get(path.suffix, open)(path, "rb")
    return opened


class Madmap1Stream:
    """Stream file: its header, and access to its samples.

    A plain file is memory-mapped; a file compressed by gzip or xz is decompressed to memory.

    Parameters
    ----------
    path : Path
    byte_order : {"auto", "big", "little"}

    Raises
    ------
    DataError
        If the header is not valid or does not match the size of the file.
    """

    def __init__(self, path: Path, byte_order: str = "auto") -> None:
        self.path = path
        self._content: bytes | None = None
        try:
            with _open(path) as file:
                header = file.read(_HEADER_BYTES)
            size = path.stat().st_size
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise DataError(f"cannot be read: {error}", where=str(path)) from error
        if len(header) < _HEADER_BYTES:
            raise DataError(f"cut short: {size} bytes are less than a header", where=str(path))
        self._record = sample_dtype(detect_byte_order(header, byte_order, str(path)))
        numbers = np.frombuffer(header, self._record["signal"].byteorder + "i8")
        self.first, last, n_per_sample, self.n_pix = (int(number) for number in numbers)
        self.stop = last + 1
        if path.suffix in _OPEN_COMPRESSED:
            self._content = self._unpacked()
            size = len(self._content)
        self._check(n_per_sample, size)

    @property
    def _bytes(self) -> int:
        """Size of the uncompressed file according to the header."""
        return _HEADER_BYTES + (self.stop - self.first) * self._record.itemsize

    def _unpacked(self) -> bytes:
        """Return the uncompressed content, with at most one byte more than the header says."""
        if self._bytes > _UNPACKED_LIMIT:
            what = f"unpacks to more than {_UNPACKED_LIMIT >> 20} MiB"
            raise DataError(what, where=str(self.path), mend="unpack it and name the file")
        try:
            with _open(self.path) as file:
                return file.read(self._bytes + 1)
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise DataError(f"cannot be unpacked: {error}", where=str(self.path)) from error

    def _check(self, n_per_sample: int, size: int) -> None:
        if n_per_sample != 1:
            raise DataError(
                f"{n_per_sample} pixels a sample",
                where=str(self.path),
                mend="only one is supported: intensity",
            )
        if not 1 <= self.n_pix < 2**31:
            raise DataError(f"the header says {self.n_pix} pixels", where=str(self.path))
        expected = self._bytes
        if size < expected:
            n_complete = (size - _HEADER_BYTES) // self._record.itemsize
            n_samp = self.stop - self.first
            raise DataError(
                f"cut short in sample {self.first + n_complete}, the header says {n_samp} samples",
                where=str(self.path),
            )
        if size > expected:
            raise DataError(f"{size} bytes where the header asks for {expected}", where=str(self.path))

    @cached_property
    def _records(self) -> AnyArray:
        if self._content is not None:
            return np.frombuffer(self._content, self._record, offset=_HEADER_BYTES)
        # A memory-mapped file is read page by page on demand, by any number of threads.
        return np.memmap(self.path, self._record, "r", _HEADER_BYTES, (self.stop - self.first,))

    def read(self, field: str, start: int, stop: int) -> AnyArray:
        """Return the "signal", "weight" or "pixel" of samples [start, stop), in byte order of the file."""
        return self._records[field][start - self.first : stop - self.first]

    def check_coverage(self, filters: Sequence[NoiseFilter]) -> None:
        """Check that sorted filters cover each sample once.

        Raises
        ------
        DataError
            If a sample has no filter or two; names the first.
        """
        covered = self.first
        for item in filters:
            where = f"{self.path}, {item.where}"
            if item.start > covered:
                raise DataError(f"sample {covered} has no inverse-noise file", where=where)
            if item.start < covered:
                raise DataError(f"samples from {item.start} have two inverse-noise files", where=where)
            covered = item.stop
        if covered < self.stop:
            raise DataError(f"sample {covered} has no inverse-noise file", where=where)
        if covered > self.stop:
            fault = f"covers samples up to {covered - 1}, the stream ends with {self.stop - 1}"
            raise DataError(fault, where=where)


class Madmap1Block:
    """Signal, noise and recorded pixels of the detectors of a block."""

    def __init__(
        self,
        stream: Madmap1Stream,
        name: str,
        filters: Sequence[NoiseFilter],
        weights: str,
        pixelization: Pixelization,
    ) -> None:
        self.pixelization = pixelization
        self._stream, self._name, self._filters, self._weights = stream, name, filters, weights

    @property
    def n_samp(self) -> int:
        """Number of samples of each detector."""
        return self._filters[0].n_samp

    @property
    def n_det(self) -> int:
        """Number of detectors."""
        return len(self._filters)

    @cached_property
    def has_gains(self) -> bool:
        """Whether recorded weights are used: as configured, or if any is not 1."""
        if self._weights != "auto":
            return self._weights == "recorded"
        ranges = ((item.start, item.stop) for item in self._filters)
        return any(bool((self._stream.read("weight", *samples) != 1).any()) for samples in ranges)

    def intensity(self, detector: int) -> float:
        """Return the intensity weight of a detector: 1."""
        return 1.0

    def efficiency(self, detector: int) -> float:
        """Return 0: the format is for intensity only."""
        return 0.0

    def noise_model(self, detector: int, interval: int) -> InverseLags:
        """Return the inverse noise of a detector."""
        return self._filters[detector].noise

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`."""
        out += self._read("signal", detector, start, stop)

    def expand(
        self,
        pixelization: Pixelization,
        detector: int,
        start: int,
        stop: int,
        pixels: Int32Array,
        angles: UInt32Array | None,
        gains: Float32Array | None = None,
    ) -> None:
        """Write the recorded pixel numbers and weights; response angles are 0.

        Raises
        ------
        DataError
            If the map has other pixels, or a recorded number is out of range.
        """
        pixels[:] = self._read("pixel", detector, start, stop)
        n_pix = self._stream.n_pix
        outside = (pixels < 0) | (pixels >= n_pix)
        self._check(outside, pixels, f"pixel numbers outside 0..{n_pix - 1}", detector, start)
        with add_location(str(self._stream.path)):
            renumber(pixels, self.pixelization, pixelization)
        if angles is not None:
            angles[:] = 0
        if gains is not None:
            gains[:] = self._read("weight", detector, start, stop) if self.has_gains else 1
            self._check(~np.isfinite(gains), gains, "weights that are not finite", detector, start)

    def directions(self, detector: int, start: int, stop: int) -> tuple[FloatArray, UInt32Array]:
        """Raise DataError: recorded pixels have no directions."""
        raise DataError(
            "the pointing is recorded as pixel numbers, which have no directions",
            where=str(self._stream.path),
        )

    def _read(self, field: str, detector: int, start: int, stop: int) -> AnyArray:
        origin = self._filters[detector].start
        return self._stream.read(field, origin + start, origin + stop)

    def _check(self, bad: BoolArray, values: AnyArray, fault: str, detector: int, start: int) -> None:
        if not bad.any():
            return
        first = int(bad.argmax())
        origin = self._filters[detector].start
        raise DataError(
            f"{np.count_nonzero(bad)} {fault}, the first is {values[first]}",
            where=f"{self._stream.path}, {self._name}, detector {detector:04d}, sample {start + first} "
            f"(sample {origin + start + first} of the file)",
        )


def write_madmap1(
    tod: Path,
    filters: Path,
    observations: Sequence[Observation],
    pixelization: Pixelization,
    byte_order: str = "little",
) -> None:
    """Write a stream and a folder of inverse-noise files, one block for each stationary interval.

    Parameters
    ----------
    tod, filters : Path
        Stream file, and folder for ``invntt.0``, ``invntt.1``, ... Each file is written atomically.
    observations : sequence of Observation
        Observations with signal, pointing and `InverseLags` noise; samples outside intervals are not written.
    pixelization : Pixelization
        Pixelization of the pixel numbers.
    byte_order : {"little", "big"}

    Raises
    ------
    DataError
        If the format cannot represent an observation: flags, another noise model, no pointing.
    """
    order = BYTE_ORDERS[byte_order]
    pieces = [
        (observation, interval, detector)
        for observation in observations
        for interval in range(len(observation.intervals))
        for detector in range(observation.n_det)
    ]
    bounds = np.cumsum([0, *(_length(observation, interval) for observation, interval, _ in pieces)])
    for k, (observation, interval, detector) in enumerate(pieces):
        lags = _lags(observation, interval, detector)
        header = np.array([bounds[k], bounds[k + 1] - 1, lags.size - 1])
        with atomic_write(filters / f"invntt.{k}") as path:
            path.write_bytes(header.astype(order + "i8").tobytes() + lags.astype(order + "f8").tobytes())
    with atomic_write(tod) as path, path.open("wb") as file:
        file.write(np.array([0, bounds[-1] - 1, 1, pixelization.n_pix]).astype(order + "i8").tobytes())
        for observation, interval, detector in pieces:
            file.write(_records(observation, interval, detector, pixelization, sample_dtype(order)).tobytes())


def _length(observation: Observation, interval: int) -> int:
    start, stop = observation.intervals[interval]
    return stop - start


def _lags(observation: Observation, interval: int, detector: int) -> FloatArray:
    noise = observation.noise.noise_model(detector, interval) if observation.noise else None
    if not isinstance(noise, InverseLags):
        raise DataError("MADmap files hold noise as inverse lags alone", where=observation.name)
    return noise.lags


def _records(
    observation: Observation,
    interval: int,
    detector: int,
    pixelization: Pixelization,
    dtype: np.dtype[np.void],
) -> AnyArray:
    if observation.pointing is None:
        raise DataError("no pointing to write", where=observation.name)
    start, stop = observation.intervals[interval]
    signal, flags = np.zeros(stop - start), np.zeros(stop - start, np.uint8)
    pixels, gains = np.empty(stop - start, np.int32), np.ones(stop - start, np.float32)
    for part in observation.signals:
        part.add_signal(detector, start, stop, signal)
    for mask in observation.flags:
        mask.or_flags(detector, start, stop, flags)
    if flags.any():
        raise DataError("MADmap files cannot hold flags", where=f"{observation.name}, detector {detector}")
    weights = gains if observation.pointing.has_gains else None
    observation.pointing.expand(pixelization, detector, start, stop, pixels, None, weights)
    records = np.empty(stop - start, dtype)
    records["signal"], records["weight"], records["pixel"] = signal, gains, pixels
    return records
