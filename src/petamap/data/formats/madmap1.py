"""MADmap version 1 format: a binary stream of all samples, and inverse-noise files for ranges of it.

The stream (`madmap1_stream`) has a record of signal and pairs of weight and number per sample: one pair of I
of a pixel, or three, of its I, Q and U. An inverse-noise file has three int64 (first sample, last sample,
``n_corr``) and ``n_corr + 1`` float64: N^-1 at lags 0 to n_corr for this sample range of the stream. Hence
each inverse-noise file gives the sample range of one detector in one stationary block; MADmap orders them by
block and, within a block, by detector. All numbers have the same byte order.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import ClassVar

import numpy as np

from petacomm.base.errors import DataError
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
from petamap.data.formats.madmap1_filters import NoiseFilter, read_noise_filters, split_blocks
from petamap.data.formats.madmap1_response import DetectorResponse, SampleWeights, detector_response
from petamap.data.formats.madmap1_stream import Madmap1Stream
from petamap.data.node_reads import Read
from petamap.data.observation import Observation
from petamap.data.selection import detectors_option, observations_option, select_observations
from petamap.data.source import SourceContext
from petamap.noise.model import InverseLags
from petamap.pointing.frames import FRAMES
from petamap.pointing.recorded import renumber
from petamap.sky.checked_fits import open_fits, verify_checksums
from petamap.sky.healpix import Healpix
from petamap.sky.numbered import ImageLayout, NumberedPixels
from petamap.sky.pixelization import Pixelization

_NOT_FINITE = "weights that are not finite"
_ONE_RESPONSE = "one efficiency, 0 to 1, a detector: write samples of another as a detector of their own"


@dataclass(frozen=True)
class Madmap1Options:
    """A MADmap v1 stream and its inverse-noise files."""

    tod: str = option(path=True, help="the binary stream of signal, weights and pixels; may be .gz or .xz")
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
    polarization: str = option(
        "COSMO", choices=("COSMO", "IAU"), help="convention of U, which the files do not tell"
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
        iau = self._options.polarization == "IAU"
        block = Madmap1Block(stream, name, filters, self._options.weights, pixelization, iau)
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


class Madmap1Block:
    """Signal, noise, and recorded pixels and responses of the detectors of a block."""

    def __init__(
        self,
        stream: Madmap1Stream,
        name: str,
        filters: Sequence[NoiseFilter],
        weights: str,
        pixelization: Pixelization,
        iau: bool = False,
    ) -> None:
        self.pixelization = pixelization
        self._stream, self._name, self._filters, self._weights = stream, name, filters, weights
        self._iau = iau
        self._responses: dict[int, DetectorResponse] = {}

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
        """Whether recorded weights of I are used: as configured, or if any is not 1."""
        if self._weights != "auto":
            return self._weights == "recorded"
        ranges = ((item.start, item.stop) for item in self._filters)
        parts = (pairs for samples in ranges for _, pairs in self._stream.parts("pairs", *samples))
        return any(bool((pairs["weight"][:, 0] != 1).any()) for pairs in parts)

    def intensity(self, detector: int) -> float:
        """Return the intensity weight of a detector: 1, or 0 where it has weights of Q and U alone."""
        return self._response(detector).intensity

    def efficiency(self, detector: int) -> float:
        """Return the polarization efficiency of a detector; 0 in a stream of I alone.

        Raises
        ------
        DataError
            If it is more than 1.
        """
        return self._response(detector).efficiency

    def _response(self, detector: int) -> DetectorResponse:
        if self._stream.n_stokes == 1:
            return DetectorResponse(1.0, 0.0)
        if detector not in self._responses:
            item = self._filters[detector]
            sample, pairs = self._stream.first_pairs(item.start, item.stop)
            found = detector_response(pairs["weight"])
            if found.efficiency > 1:
                raise DataError(
                    f"a polarization efficiency (wQ^2 + wU^2)^1/2 / |wI| of {found.efficiency:.7g}, above 1",
                    where=self._place(detector, sample - item.start),
                    mend="check the weights; streams of polarization alone have weights of I that are 0",
                )
            self._responses[detector] = found
        return self._responses[detector]

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
        """Write the recorded pixel numbers, response angles and gains; those of I alone have angles of 0.

        Raises
        ------
        DataError
            If the map has other pixels, a recorded number is out of range, a weight is not finite, or those
            of I, Q and U are not of one pixel, or not of one polarization efficiency.
        """
        n_unknown, numbers = self._stream.n_unknown, self._stream.numbers
        read = self._read_intensity if self._stream.n_stokes == 1 else self._read_stokes
        for part, pairs in self._parts("pairs", detector, start, stop):
            first, of = start + part.start, pairs["number"]
            outside = reduce(np.logical_or, ((of < 0) | (of >= n_unknown)).T)
            self._check(outside, of, f"pixel numbers outside 0..{n_unknown - 1}", detector, first)
            pixels[part] = numbers.pixels(of)
            own_angles = None if angles is None else angles[part]
            own_gains = None if gains is None else gains[part]
            read(pairs, detector, first, own_angles, own_gains)
        with add_location(str(self._stream.path)):
            renumber(pixels, self.pixelization, pixelization)

    def _read_intensity(
        self,
        pairs: AnyArray,
        detector: int,
        first: int,
        angles: UInt32Array | None,
        gains: Float32Array | None,
    ) -> None:
        """Write angles and gains of the pairs of samples of I alone, from sample `first` on."""
        if angles is not None:
            angles[:] = 0
        if gains is not None:
            gains[:] = pairs["weight"][:, 0] if self.has_gains else 1
            self._check(~np.isfinite(gains), pairs["weight"], _NOT_FINITE, detector, first)

    def _read_stokes(
        self,
        pairs: AnyArray,
        detector: int,
        first: int,
        angles: UInt32Array | None,
        gains: Float32Array | None,
    ) -> None:
        """Write angles and gains of the pairs of samples of I, Q and U, from sample `first` on."""
        numbers, recorded, response = pairs["number"], pairs["weight"], self._response(detector)
        weights = SampleWeights(recorded, self._iau)
        self._check(~weights.finite, recorded, _NOT_FINITE, detector, first)
        apart = weights.seen & ~self._stream.numbers.of_one_pixel(numbers)
        self._check(apart, numbers, "samples whose unknowns are not I, Q and U of one pixel", detector, first)
        if angles is not None:
            what = (
                f"weights of another polarization efficiency than the detector's, {response.efficiency:.7g}"
            )
            if response.intensity == 0:
                what = "weights of I in a stream of polarization alone"
            self._check(weights.differ(response), recorded, what, detector, first, _ONE_RESPONSE)
            angles[:] = weights.angles()
        if gains is not None:
            gains[:] = weights.gains(response) if self.has_gains else 1
        if not self.has_gains:
            unseen = "samples without weights, which would be taken as 1"
            self._check(~weights.seen, recorded, unseen, detector, first, 'say weights = "recorded"')

    def directions(self, detector: int, start: int, stop: int) -> tuple[FloatArray, UInt32Array]:
        """Raise DataError: recorded pixels have no directions."""
        raise DataError(
            "the pointing is recorded as pixel numbers, which have no directions",
            where=str(self._stream.path),
        )

    def _parts(self, field: str, detector: int, start: int, stop: int) -> Iterator[tuple[slice, AnyArray]]:
        origin = self._filters[detector].start
        return self._stream.parts(field, origin + start, origin + stop)

    def _check(
        self, bad: BoolArray, values: AnyArray, fault: str, detector: int, start: int, mend: str = ""
    ) -> None:
        """Raise a DataError if samples from `start` on are bad, with the values, (n, k), of the first."""
        if bad.any():
            first = int(bad.argmax())
            named = ", ".join(map(str, values[first]))
            what = f"{np.count_nonzero(bad)} {fault}, the first is {named}"
            raise DataError(what, where=self._place(detector, start + first), mend=mend)

    def _place(self, detector: int, sample: int) -> str:
        return (
            f"{self._stream.path}, {self._name}, detector {detector:04d}, sample {sample} "
            f"(sample {self._filters[detector].start + sample} of the file)"
        )
