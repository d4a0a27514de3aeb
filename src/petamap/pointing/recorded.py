"""Recorded pointing: pixel numbers of all samples, from arrays or from a reader function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, Float32Array, FloatArray, Int32Array, UInt32Array
from petamap.sky.healpix import Healpix
from petamap.sky.pixelization import Pixelization

_TABULATED = 1 << 20  # pixels whose numbers in the other order are tabulated: 4 MB

Reader: TypeAlias = Callable[[int, int, int], AnyArray]
"""Function (detector, start, stop) -> values of these samples."""


class RecordedPixels:
    """Pointing given as pixel numbers, with optional response angles and gains, of all samples.

    Implements `Pointing`, without directions.

    Parameters
    ----------
    pixels : array-like (n_det, n_samp) or callable
        Integers; -1 for no pixel. A callable takes ``(detector, start, stop)``. An array-like may be on disk
        (memory map, HDF5 dataset); slices are read when they are needed.
    pixelization : Pixelization
        Pixelization that the numbers refer to, with its order: ``Healpix(512, nest=False)`` for numbers in
        ring order. Maps are made in another order of the same HEALPix pixels, and in no other pixels.
    n_det, n_samp : int, optional
        Required with a callable.
    gains : array-like (n_det, n_samp) or callable, optional
        Intensity weights, float32.
    angles : array-like (n_det, n_samp) or callable, optional
        Response angles, uint32 in units of 2 pi / 2^32.
    efficiencies : sequence of float or callable, optional
        Polarization efficiencies (n_det,), or a function of the detector. Default: 0 without angles, else 1.
    intensities : sequence of float, optional
        Intensity weights (n_det,): 1, the default, or 0 for recorded streams of Q and U.

    Raises
    ------
    DataError
        If shapes do not match. `expand` raises it, naming detector and sample, for a pixel outside the map or
        a gain that is not finite.
    """

    def __init__(
        self,
        pixels: Any,
        pixelization: Pixelization,
        *,
        n_det: int | None = None,
        n_samp: int | None = None,
        gains: Any = None,
        angles: Any = None,
        efficiencies: Sequence[float] | Callable[[int], float] | None = None,
        intensities: Sequence[float] | None = None,
    ) -> None:
        if not callable(pixels):
            n_det, n_samp = _shape(pixels)
        if n_det is None or n_samp is None:
            raise DataError("n_det and n_samp must be given with a function that reads pixels")
        self.n_det, self.n_samp = n_det, n_samp
        self.pixelization = pixelization
        self._pixels = _reader(pixels, (n_det, n_samp), "pixels")
        self._gains = None if gains is None else _reader(gains, (n_det, n_samp), "gains")
        self._angles = None if angles is None else _reader(angles, (n_det, n_samp), "angles")
        default = 0.0 if angles is None else 1.0
        self._efficiency = _per_detector(efficiencies, n_det, "efficiencies", default)
        self._intensity = _per_detector(intensities, n_det, "intensities", 1.0)

    @property
    def has_gains(self) -> bool:
        """Whether there are gains."""
        return self._gains is not None

    def intensity(self, detector: int) -> float:
        """Return the intensity weight of a detector."""
        return self._intensity(detector)

    def efficiency(self, detector: int) -> float:
        """Return the polarization efficiency of a detector."""
        return self._efficiency(detector)

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
        """Write pixel numbers, angles and gains of samples [start, stop); default angle 0, default gain 1."""
        if not (0 <= detector < self.n_det and 0 <= start <= stop <= self.n_samp):
            raise DataError(f"samples [{start}, {stop}) of {self.n_samp}", where=f"detector {detector}")
        read = np.asarray(self._pixels(detector, start, stop))
        bad = np.flatnonzero((read < -1) | (read >= self.pixelization.n_pix))
        if len(bad):
            where = f"detector {detector}, sample {start + bad[0]}"
            raise DataError(f"pixel {read[bad[0]]} of {self.pixelization.n_pix}", where=where)
        pixels[:] = read
        renumber(pixels, self.pixelization, pixelization)
        if angles is not None:
            angles[:] = 0 if self._angles is None else self._angles(detector, start, stop)
        if gains is not None:
            gains[:] = 1 if self._gains is None else self._gains(detector, start, stop)
            bad = np.flatnonzero(~np.isfinite(gains))
            if len(bad):
                where = f"detector {detector}, sample {start + bad[0]}"
                raise DataError(f"a gain of {gains[bad[0]]}", where=where)

    def directions(self, detector: int, start: int, stop: int) -> tuple[FloatArray, UInt32Array]:
        """Raise DataError: pixel numbers have no directions."""
        raise DataError(
            "the pointing is recorded as pixel numbers, which have no directions",
            mend="simulate on a source that has them",
        )


def renumber(pixels: Int32Array, given: Pixelization, wanted: Pixelization) -> None:
    """Convert recorded pixel numbers to those of the map, in place.

    Parameters
    ----------
    pixels : int32 (n,)
        Numbers in `given`, or -1 for no pixel.
    given, wanted : Pixelization
        Equal, or the same HEALPix pixels in two orders.

    Raises
    ------
    DataError
        If the pixelizations have different pixels.
    """
    if given is wanted or given.describe() == wanted.describe():
        return
    if not (isinstance(given, Healpix) and isinstance(wanted, Healpix) and given.n_side == wanted.n_side):
        raise DataError(
            f"its pixels are recorded as {describe_pixels(given)}, the map has {describe_pixels(wanted)}",
            mend="map on the pixels that were recorded",
        )
    if given.n_pix <= _TABULATED:
        pixels[:] = _other_order(given.n_side, given.nest)[pixels]
        return
    inside = np.flatnonzero(pixels >= 0)
    pixels[inside] = given.reordered(pixels[inside].astype(np.int64))


@lru_cache(maxsize=2)
def _other_order(n_side: int, nest: bool) -> Int32Array:
    """Return the numbers of all pixels in the other order; the last one, at -1, is -1."""
    given = Healpix(n_side, nest=nest)
    return np.append(given.reordered(np.arange(given.n_pix)), -1).astype(np.int32)


def describe_pixels(pixelization: Pixelization) -> str:
    """Return the kind of pixels and what distinguishes them, in words."""
    rows = pixelization.describe()
    details = ", ".join(f"{name} {value}" for name, value in rows.items() if name != "kind")
    return f"{rows['kind']} ({details})"


def _per_detector(
    values: Sequence[float] | Callable[[int], float] | None, n_det: int, what: str, default: float
) -> Callable[[int], float]:
    """Return a function of the detector that has the values, which are checked."""
    if callable(values):
        return values
    found = [default] * n_det if values is None else [float(value) for value in values]
    if len(found) != n_det:
        raise DataError(f"{len(found)} {what} for {n_det} detectors")
    bad = [(number, value) for number, value in enumerate(found) if not 0 <= value <= 1]
    if bad:
        raise DataError(f"{what} outside 0 to 1: {bad[0][1]:g}", where=f"detector {bad[0][0]}")
    return found.__getitem__


def _shape(array: Any) -> tuple[int, int]:
    shape = getattr(array, "shape", None) or np.shape(array)
    if len(shape) != 2:
        raise DataError(f"recorded pixels of shape {tuple(shape)} where (n_det, n_samp) is needed")
    return int(shape[0]), int(shape[1])


def _reader(values: Any, shape: tuple[int, int], what: str) -> Reader:
    if callable(values):
        reader: Reader = values
        return reader
    sliceable = values if hasattr(values, "shape") else np.asarray(values)
    if _shape(sliceable) != shape:
        raise DataError(f"recorded {what} of shape {tuple(sliceable.shape)}, pixels of shape {shape}")

    def read(detector: int, start: int, stop: int) -> AnyArray:
        return sliceable[detector, start:stop]

    return read
