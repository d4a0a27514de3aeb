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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.files import require_file
from petacomm.base.options import option
from petacomm.base.typing import (
    AnyArray,
    BoolArray,
    Float32Array,
    FloatArray,
    Int32Array,
    UInt8Array,
    UInt32Array,
)
from petamap.data.formats.hdf5 import add_location
from petamap.data.formats.madmap1_filters import (
    NoiseFilter,
    detect_byte_order,
    read_noise_filters,
    split_blocks,
)
from petamap.data.node_reads import Read
from petamap.data.observation import Observation
from petamap.data.read_ahead import Place, ReadAhead
from petamap.data.selection import detectors_option, observations_option, select_observations
from petamap.data.source import SourceContext
from petamap.noise.model import InverseLags
from petamap.pointing.frames import FRAMES
from petamap.pointing.recorded import renumber
from petamap.sky.checked_fits import open_fits, verify_checksums
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
        path=True, help="inverse-noise files: a folder of NAME.<number>, or a .tar, .tar.gz or .tar.xz"
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
    sample_rate: float = option(
        1.0, dimension="frequency", minimum=1e-12, maximum=1e12, help="the files do not tell it"
    )
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
        (new,) = self._context.once_a_node([self._observations])
        options = self._options
        chosen = select_observations(
            new, self._context, observations=options.observations, detectors=options.detectors
        )
        return [*observations, *chosen]

    def _observations(self) -> list[Observation]:
        stream = Madmap1Stream(self._folder / self._options.tod, self._options.byte_order)
        filters = read_noise_filters(self._folder / self._options.filters, self._options.byte_order)
        stream.check_coverage(filters)
        pixelization = self._pixelization(stream)
        blocks = split_blocks(filters, self._options.n_detectors)
        return [self._observation(stream, number, block, pixelization) for number, block in enumerate(blocks)]

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
    from astropy.wcs import WCS

    with open_fits(path, "is no readable FITS file") as file:
        for number, hdu in enumerate(file):
            verify_checksums(hdu, f"{path}, HDU {number}")
            if hdu.is_image and hdu.header.get("NAXIS") == 2:
                image, cards = hdu.data, dict(WCS(hdu.header).to_header())
                break
        else:
            raise DataError("holds no image of two dimensions", where=str(path))
    return ImageLayout(image.shape, np.flatnonzero(np.isfinite(image)), cards)


def _open(path: Path) -> BinaryIO:
    """Open a file to be read, unpacked by its suffix."""
    opened: BinaryIO = _OPEN_COMPRESSED.get(path.suffix, open)(require_file(path), "rb")
    return opened


class Madmap1Stream:
    """Stream file: its header, and access to its samples.

    A plain file is read in pieces; a file compressed by gzip or xz is decompressed to memory.

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
        self._content: UInt8Array | None = None
        self._ranges: list[tuple[int, int]] = []
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

    def _unpacked(self) -> UInt8Array:
        """Return the bytes of the uncompressed content, with at most one byte more than the header says."""
        if self._bytes > _UNPACKED_LIMIT:
            what = f"unpacks to more than {_UNPACKED_LIMIT >> 20} MiB"
            raise DataError(what, where=str(self.path), mend="unpack it and name the file")
        try:
            with _open(self.path) as file:
                return np.frombuffer(file.read(self._bytes + 1), np.uint8)
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

    def parts(self, field: str, start: int, stop: int) -> Iterator[tuple[slice, AnyArray]]:
        """Yield "signal", "weight" or "pixel" of samples [start, stop) in parts, as the file has them."""
        for part, records in self._samples.parts(0, start - self.first, stop - self.first):
            yield part, records[field]

    def reads(self, start: int, stop: int) -> list[Read]:
        """Return what is read for samples [start, stop)."""
        return [Read(self._samples, 0, start - self.first, stop - self.first)]

    @cached_property
    def _samples(self) -> ReadAhead:
        return ReadAhead(self._records, 1, self.stop - self.first, self._ranges, str(self.path))

    def _records(self, place: Place) -> AnyArray:
        """Read records, (1, n)."""
        begin, n = _HEADER_BYTES + place.start * self._record.itemsize, place.stop - place.start
        if self._content is not None:
            return np.frombuffer(self._content, self._record, n, begin)[None]
        try:
            records = np.fromfile(self.path, self._record, n, offset=begin)
        except OSError as error:
            raise DataError(f"cannot be read: {error}", where=str(self.path)) from error
        if len(records) < n:
            what = f"has become shorter: sample {self.first + place.start + len(records)} is not there"
            raise DataError(what, where=str(self.path))
        return records[None]

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
        self._ranges = [(item.start - self.first, item.stop - self.first) for item in filters]
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
        parts = (values for samples in ranges for _, values in self._stream.parts("weight", *samples))
        return any(bool((values != 1).any()) for values in parts)

    def intensity(self, detector: int) -> float:
        """Return the intensity weight of a detector: 1."""
        return 1.0

    def efficiency(self, detector: int) -> float:
        """Return 0: the format is for intensity only."""
        return 0.0

    def noise_model(self, detector: int, interval: int) -> InverseLags:
        """Return the inverse noise of a detector."""
        return self._filters[detector].noise

    def signal_reads(self, detector: int, start: int, stop: int) -> list[Read]:
        """Return what is read for samples [start, stop) of a detector."""
        return self._stream.reads(*(self._filters[detector].start + edge for edge in (start, stop)))

    pointing_reads = signal_reads

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`."""
        for part, values in self._parts("signal", detector, start, stop):
            out[part] += values

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
        for part, values in self._parts("pixel", detector, start, stop):
            pixels[part] = values
        n_pix = self._stream.n_pix
        outside = (pixels < 0) | (pixels >= n_pix)
        self._check(outside, pixels, f"pixel numbers outside 0..{n_pix - 1}", detector, start)
        with add_location(str(self._stream.path)):
            renumber(pixels, self.pixelization, pixelization)
        if angles is not None:
            angles[:] = 0
        if gains is not None:
            gains[:] = 1
            for part, values in self._parts("weight", detector, start, stop) if self.has_gains else ():
                gains[part] = values
            self._check(~np.isfinite(gains), gains, "weights that are not finite", detector, start)

    def directions(self, detector: int, start: int, stop: int) -> tuple[FloatArray, UInt32Array]:
        """Raise DataError: recorded pixels have no directions."""
        raise DataError(
            "the pointing is recorded as pixel numbers, which have no directions",
            where=str(self._stream.path),
        )

    def _parts(self, field: str, detector: int, start: int, stop: int) -> Iterator[tuple[slice, AnyArray]]:
        origin = self._filters[detector].start
        return self._stream.parts(field, origin + start, origin + stop)

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
