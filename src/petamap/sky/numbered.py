"""Pixels with numbers but no directions, as in time streams with precomputed pixels (MADmap version 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import FloatArray, Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class ImageLayout:
    """Positions of numbered pixels in an image.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns of the image.
    index : int64 array, shape (n_pix,)
        Row-major index of each pixel in the image, all different.
    header : mapping
        FITS cards of the image's world coordinate system; may be empty.

    Raises
    ------
    DataError
        If a pixel lies outside the image or two pixels have the same index.
    """

    shape: tuple[int, int]
    index: Int64Array
    header: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        index = np.asarray(self.index, np.int64)
        if index.ndim != 1 or not index.size or index.min() < 0 or index.max() >= math.prod(self.shape):
            raise DataError(f"a pixel lies outside the image of {self.shape} rows and columns")
        if len(distinct(index.copy())) != index.size:
            raise DataError("two pixels have the same place in the image")
        object.__setattr__(self, "index", index)


@dataclass(frozen=True, eq=False)
class NumberedPixels:
    """Pixels 0 to `n_pix` - 1 without directions, optionally with positions in an image.

    Parameters
    ----------
    n_pix : int
    layout : ImageLayout, optional
        Positions of the pixels in an image.

    Raises
    ------
    ConfigError
        If `n_pix` is not between 1 and 2^31 - 1, or differs from the number of pixels of the layout.
    """

    n_pix: int
    layout: ImageLayout | None = None

    def __post_init__(self) -> None:
        if int(self.n_pix) != self.n_pix or not 1 <= self.n_pix < 2**31:
            raise ConfigError(f"n_pix must be a whole number from 1 to 2^31 - 1, not {self.n_pix}")
        if self.layout is not None and len(self.layout.index) != self.n_pix:
            raise ConfigError(f"a layout of {len(self.layout.index)} pixels cannot place {self.n_pix}")

    @property
    def pixel_area(self) -> float:
        """Always nan: the pixels have no extent on the sky."""
        return math.nan

    @property
    def grid(self) -> FloatArray:
        """Parameters for the C++ kernels, for which all directions lie outside."""
        return np.array([4.0, self.n_pix])

    def pixels_of(self, directions: FloatArray, pixels: Int32Array, n_threads: int = 1) -> None:
        """Raise ConfigError: these pixels have no directions."""
        raise ConfigError(
            "the pixels of this map have numbers and no directions",
            mend="choose a pixelization with directions: healpix, car or flat",
        )

    def directions_of(self, pixels: Int64Array) -> FloatArray:
        """Return nan, shape (n, 3)."""
        return np.full((len(pixels), 3), math.nan)

    def describe(self) -> dict[str, object]:
        """Return kind, n_pix, and the shape of the image if there is one (without the index)."""
        description: dict[str, object] = {"kind": "numbered", "n_pix": int(self.n_pix)}
        if self.layout is not None:
            description["image_shape"] = list(self.layout.shape)
        return description
