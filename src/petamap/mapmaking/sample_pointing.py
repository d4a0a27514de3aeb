"""Pixels and responses of consecutive samples, and the pieces in which a rank expands them."""

from __future__ import annotations

from dataclasses import dataclass

from petacomm.base.typing import Float32Array, Int32Array, UInt32Array
from petamap.mapmaking.time_layout import Segment


@dataclass(frozen=True)
class Piece:
    """Consecutive samples [start, stop) of a segment, at `offset` among the held samples."""

    number: int
    segment: Segment
    start: int
    stop: int
    offset: int

    def of(self, held: SamplePointing) -> SamplePointing:
        """Return those of the held samples."""
        return held.slice(self.offset, self.offset + self.stop - self.start)


@dataclass(frozen=True)
class SamplePointing:
    """Pixels and responses of consecutive samples.

    Attributes
    ----------
    pixels : int32 (n,)
        Local pixel numbers, or ~slot of a gap.
    angles : uint32 (n,) or None
        Response angles in turns / 2^32.
    gains : float32 (n,) or None
    intensity, efficiency : float
    """

    pixels: Int32Array
    angles: UInt32Array | None
    gains: Float32Array | None
    intensity: float
    efficiency: float

    def slice(self, begin: int, end: int) -> SamplePointing:
        """Return those of samples [begin, end)."""
        return SamplePointing(
            self.pixels[begin:end],
            None if self.angles is None else self.angles[begin:end],
            None if self.gains is None else self.gains[begin:end],
            self.intensity,
            self.efficiency,
        )

    def copy_to(self, other: SamplePointing) -> None:
        """Write pixels, angles and gains to the arrays of as many other samples."""
        other.pixels[:] = self.pixels
        for array, to in ((self.angles, other.angles), (self.gains, other.gains)):
            if array is not None and to is not None:
                to[:] = array

    def clear(self) -> None:
        """Point all samples outside the map."""
        self.pixels[:] = -1
        for array in (self.angles, self.gains):
            if array is not None:
                array[:] = 0
