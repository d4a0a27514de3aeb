"""Interface of all pixelizations: HEALPix, CAR patches, flat patches and numbered pixels."""

from __future__ import annotations

from typing import Protocol

from petacomm.base.typing import FloatArray, Int32Array, Int64Array


class Pixelization(Protocol):
    """Division of the sky, or of a part of it, into `n_pix` numbered pixels.

    Pixel numbers of samples are int32 (all pixelizations have fewer than 2^31 pixels); -1 stands for a
    direction outside the pixelization.
    """

    @property
    def n_pix(self) -> int:
        """Number of pixels."""

    @property
    def pixel_area(self) -> float:
        """Area of a pixel in steradians (the mean if areas differ); nan if pixels have no directions."""

    @property
    def grid(self) -> FloatArray:
        """Parameters for the C++ kernels: [kind, parameters...], float64 (``cpp/petamap/sky/grid.h``)."""

    def pixels_of(self, directions: FloatArray, pixels: Int32Array, n_threads: int = 1) -> None:
        """Write the pixel number of each unit vector, shape (n, 3), to `pixels`, shape (n,)."""

    def directions_of(self, pixels: Int64Array) -> FloatArray:
        """Return the unit vectors of pixel centres, shape (n, 3)."""

    def describe(self) -> dict[str, object]:
        """Return the ``kind`` and the parameters, as they stand in summaries and file headers."""
