"""HEALPix maps of a part of the sky: pixels of a list, numbered by their indices in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.arguments import whole_array
from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray, Int32Array, Int64Array
from petamap.sky.healpix import Healpix


@dataclass(frozen=True, eq=False, repr=False)
class PartialHealpix:
    """Some pixels of HEALPix: maps of them take the memory of these alone (implements `Pixelization`).

    A map of all pixels at N_side 8192 has 6.4 GB a column. ``sky_map.whole()`` makes such a map,
    ``sky_map.partial()`` one of the observed pixels.

    Parameters
    ----------
    n_side : int
    pixels : int64 (n_pix,)
        Their numbers among those of `sky`, increasing.
    nest : bool
        Whether the numbers are those of nested ordering.

    Raises
    ------
    ConfigError
        If `n_side` is not valid, or `pixels` are no whole numbers.
    DataError
        If the pixels do not increase, or one is not of the sky.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> patch = petamap.PartialHealpix(1024, np.array([7, 12_000_000]), nest=True)
    >>> patch
    PartialHealpix(n_side=1024, nest=True, 2 of 12,582,912 pixels)
    >>> found = np.empty(2, np.int32)
    >>> patch.pixels_of(patch.sky.directions_of(np.array([12_000_000, 8])), found)
    >>> found.tolist()
    [1, -1]
    """

    n_side: int
    pixels: Int64Array
    nest: bool = False

    def __post_init__(self) -> None:
        pixels = whole_array(self.pixels, "pixels")
        object.__setattr__(self, "pixels", pixels)
        if pixels.ndim != 1 or not len(pixels):
            raise DataError(f"an array of shape {pixels.shape} where (n_pix,) belongs", where="pixels")
        if not (np.diff(pixels) > 0).all():
            raise DataError("do not increase", where="pixels", mend="give numpy.unique(pixels)")
        if pixels[0] < 0 or pixels[-1] >= self.sky.n_pix:
            raise DataError(f"are not between 0 and {self.sky.n_pix - 1}", where="pixels")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartialHealpix):
            return NotImplemented
        return self.sky == other.sky and np.array_equal(self.pixels, other.pixels)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"PartialHealpix(n_side={self.n_side}, nest={self.nest}, "
            f"{self.n_pix:,} of {self.sky.n_pix:,} pixels)"
        )

    @cached_property
    def sky(self) -> Healpix:
        """All pixels of the sky."""
        return Healpix(self.n_side, self.nest)

    @property
    def n_pix(self) -> int:
        """Number of pixels in the list."""
        return len(self.pixels)

    @property
    def pixel_area(self) -> float:
        """Area of a pixel in steradians."""
        return self.sky.pixel_area

    @property
    def grid(self) -> FloatArray:
        """Parameters for the C++ kernels, for which all directions lie outside."""
        return np.array([4.0, self.n_pix])

    def indices_of(self, pixels: Int64Array) -> Int64Array:
        """Return the indices in the list of pixels of the sky.

        Parameters
        ----------
        pixels : int64 (n,)
            Numbers among those of `sky`.

        Returns
        -------
        int64 (n,)
            -1 for pixels that are not in the list.
        """
        indices = np.minimum(np.searchsorted(self.pixels, pixels), self.n_pix - 1)
        return np.where(self.pixels[indices] == pixels, indices, -1)

    def pixels_of(self, directions: FloatArray, pixels: Int32Array, n_threads: int = 1) -> None:
        """Write the indices of the pixels of directions to an array.

        Parameters
        ----------
        directions : float64 (n, 3)
            Vectors of any length.
        pixels : int32 (n,)
            Receives the indices; -1 where the list has no pixel.
        n_threads : int
            Number of threads.
        """
        self.sky.pixels_of(directions, pixels, n_threads)
        pixels[:] = self.indices_of(pixels.astype(np.int64))

    def directions_of(self, pixels: Int64Array, n_threads: int = 1) -> FloatArray:
        """Return the unit vectors of pixel centres.

        Parameters
        ----------
        pixels : int64 (n,)
            Indices in the list.
        n_threads : int
            Number of threads.

        Returns
        -------
        float64 (n, 3)
        """
        return self.sky.directions_of(self.pixels[pixels], n_threads)

    def reordered(self) -> tuple[PartialHealpix, Int64Array]:
        """Return the same pixels in the other order.

        Returns
        -------
        PartialHealpix
        order : int64 (n_pix,)
            Index here of each of its pixels.
        """
        numbers = self.sky.reordered(self.pixels)
        order = np.argsort(numbers)
        return PartialHealpix(self.n_side, numbers[order], not self.nest), order

    def describe(self) -> dict[str, object]:
        """Return kind, n_side, ordering and number of pixels.

        Returns
        -------
        dict
            By name.
        """
        return {**self.sky.describe(), "kind": "partial healpix", "n_pix": self.n_pix}
