"""What every pixelization can say; HEALPix, CAR, flat and plainly numbered pixels implement it."""

from __future__ import annotations

from typing import Protocol

from petacomm.base.typing import FloatArray, Int32Array, Int64Array


class Pixelization(Protocol):
    """A division of the sky, or of a part of it, into `n_pix` numbered pixels.

    Pixel numbers of samples are int32 (every pixelization here has fewer than 2^31 pixels); -1 says that a
    direction lies outside.
    """

    @property
    def n_pix(self) -> int:
        """Number of pixels."""
        ...

    @property
    def pixel_area(self) -> float:
        """Area of a pixel in steradians (the mean, where they differ); nan where pixels have no place."""
        ...

    @property
    def grid(self) -> FloatArray:
        """The pixelization as the kernels take it: [kind, parameters...] (``cpp/petamap/sky/grid.h``)."""
        ...

    def pixels_of(self, directions: FloatArray, pixels: Int32Array, n_threads: int = 1) -> None:
        """Write the pixel of each unit vector, shape (n, 3), to `pixels`, shape (n,)."""
        ...

    def directions_of(self, pixels: Int64Array) -> FloatArray:
        """Return the unit vectors of pixel centres, shape (n, 3)."""
        ...

    def describe(self) -> dict[str, object]:
        """Return what a summary or a file header says of it: a ``kind`` and its parameters."""
        ...
