"""Base class of pixelizations that are images: rows, columns and a FITS world coordinate system."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import AnyArray, FloatArray, Int32Array, Int64Array
from petamap.sky import _sky

# FITS axis names of longitude and latitude, by coordinate frame
AXES = {"equatorial": ("RA--", "DEC-"), "galactic": ("GLON", "GLAT"), "ecliptic": ("ELON", "ELAT")}
_OTHER_AXES = ("XLON", "XLAT")  # of a system that FITS has no name for


@dataclass(frozen=True)
class ImagePixels(ABC):
    """Pixels of an image, numbered in row-major order; FITS conventions, angles in degrees.

    Parameters
    ----------
    crval : (float, float)
        Longitude and latitude of the reference point.
    crpix : (float, float)
        Column and row of the reference point; the centre of the first pixel is (1, 1).
    cdelt : (float, float)
        Step in longitude and latitude per pixel.
    shape : (int, int)
        Number of rows and columns.

    Raises
    ------
    ConfigError
        If a value is not finite, a step is zero, or there are not 1 to 2^31 - 1 pixels.
    """

    crval: tuple[float, float]
    crpix: tuple[float, float]
    cdelt: tuple[float, float]
    shape: tuple[int, int]

    kind: ClassVar[str]
    projection: ClassVar[str]  # FITS projection code
    lonpole: ClassVar[float]  # FITS LONPOLE for which north is up

    def __post_init__(self) -> None:
        for name in ("crval", "crpix", "cdelt"):
            given = tuple(getattr(self, name))
            pair = tuple(math.nan if isinstance(value, complex) else float(value) for value in given)
            if len(pair) != 2 or not all(map(math.isfinite, pair)):
                raise ConfigError(f"{name} must be two finite numbers, not {given!r:.100}")
            object.__setattr__(self, name, pair)
        if not all(abs(step) > 1e-12 for step in self.cdelt):
            raise ConfigError(f"cdelt must not be zero, but is {self.cdelt}")
        if len(self.shape) != 2 or any(int(count) != count or count < 1 for count in self.shape):
            raise ConfigError(f"shape must be rows and columns, not {self.shape}")
        object.__setattr__(self, "shape", tuple(int(count) for count in self.shape))
        if self.n_pix >= 2**31:
            raise ConfigError(f"an image of {self.shape} has {self.n_pix} pixels, more than 2^31 - 1")

    @property
    def n_pix(self) -> int:
        """Number of pixels."""
        return self.shape[0] * self.shape[1]

    @property
    @abstractmethod
    def grid(self) -> FloatArray:
        """Parameters for the C++ kernels."""

    @property
    @abstractmethod
    def pixel_area(self) -> float:
        """Mean area of a pixel in steradians."""

    @abstractmethod
    def directions_of(self, pixels: Int64Array) -> FloatArray:
        """Return the unit vectors of pixel centres, shape (n, 3)."""

    def pixels_of(self, directions: FloatArray, pixels: Int32Array, n_threads: int = 1) -> None:
        """Write the pixel number of each vector, shape (n, 3), to `pixels`, shape (n,); -1 outside."""
        _sky.pixels_of(self.grid, directions, pixels, n_threads)

    def _offsets(self, pixels: Int64Array) -> tuple[FloatArray, FloatArray]:
        """Return the offsets in degrees of pixel centres from the reference point: columns, rows."""
        numbers = np.asarray(pixels, np.int64)
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < self.n_pix):
            raise ValueError("a pixel lies outside the image")
        row, column = np.divmod(numbers, self.shape[1])
        return (column + 1 - self.crpix[0]) * self.cdelt[0], (row + 1 - self.crpix[1]) * self.cdelt[1]

    @property
    def edges(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the offsets in degrees of the outer edges: (first, last) of columns and of rows."""
        (x, y), (dx, dy) = self.crpix, self.cdelt
        rows, columns = self.shape
        return ((0.5 - x) * dx, (columns + 0.5 - x) * dx), ((0.5 - y) * dy, (rows + 0.5 - y) * dy)

    def wcs_cards(self, frame: str | None = "equatorial") -> dict[str, object]:
        """Return the FITS cards of the axes in a frame: equatorial, galactic, ecliptic, or None of these."""
        axes = _OTHER_AXES if frame is None else AXES[frame]
        cards: dict[str, object] = {}
        for i in range(2):
            cards[f"CTYPE{i + 1}"] = f"{axes[i]}-{self.projection}"
            cards[f"CUNIT{i + 1}"] = "deg"
            cards[f"CRVAL{i + 1}"] = self.crval[i]
            cards[f"CRPIX{i + 1}"] = self.crpix[i]
            cards[f"CDELT{i + 1}"] = self.cdelt[i]
        # This is the FITS default except for a patch centred on a pole.
        cards["LONPOLE"] = self.lonpole
        return cards

    def describe(self) -> dict[str, object]:
        """Return the kind and the parameters."""
        return {
            "kind": self.kind,
            "crval_deg": list(self.crval),
            "crpix": list(self.crpix),
            "cdelt_deg": list(self.cdelt),
            "shape": list(self.shape),
        }


def unit_vectors(lon: AnyArray, lat: AnyArray) -> FloatArray:
    """Return unit vectors, shape (..., 3), of longitudes and latitudes in radians, shape (...)."""
    cos_lat = np.cos(lat)
    return np.stack([cos_lat * np.cos(lon), cos_lat * np.sin(lon), np.sin(lat)], axis=-1)


def centred_image(
    size_deg: tuple[float, float], resolution_deg: float
) -> tuple[tuple[float, float], tuple[float, float], tuple[int, int]]:
    """Return crpix of the centre, cdelt and shape of an image that covers at least `size_deg`; east is left.

    Raises
    ------
    ConfigError
        If a size or the resolution is not positive.
    """
    given = (*size_deg, resolution_deg)
    if not all(isinstance(one, int | float | np.number) for one in given):
        raise ConfigError(
            f"size {size_deg} and resolution {resolution_deg!r}", mend="give numbers, in degrees"
        )
    if not all(one > 0 for one in given):
        raise ConfigError(f"size {size_deg} and resolution {resolution_deg} must be positive")
    columns, rows = (math.ceil(size / resolution_deg - 1e-9) for size in size_deg)
    return ((columns + 1) / 2, (rows + 1) / 2), (-resolution_deg, resolution_deg), (rows, columns)
