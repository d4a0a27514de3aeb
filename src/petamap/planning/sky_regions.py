"""A sample of the sky: regions drawn evenly, and how far they reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array, Int64Array, UInt8Array
from petamap.data.observation import Observation
from petamap.pointing.compressed import CompressedPointing
from petamap.sky.healpix import Healpix
from petamap.sky.pixelization import Pixelization

# Pixels of a region: 8 x 8 of HEALPix, a run that mostly has one owner.
_SHIFT = 6
# How far beyond its regions the sample is looked for, as a part of the side of a region. Measured optimum.
_REACH = 0.5
# Looks by which it is told which parts of the sky are crowded, and the grid of these parts.
_CROWD_LOOKS = 4_000_000
_CROWD_SIDE = 32
# The part of a sample that is spread evenly, crowds or not.
_EVEN = 0.3
# Parts of the sample that are left out in turn to tell its error.
_N_PARTS = 24


@dataclass(frozen=True, eq=False)
class SkySample:
    """Regions of consecutive pixels, one drawn from each of as many stretches of the pixel numbers.

    Where pixels are nested a region is a square on the sky, and a stretch lies together.

    Attributes
    ----------
    pixelization : Pixelization
    regions : int64 (n_regions,)
        Their numbers, increasing.
    stretches : int64 (n_regions + 1,)
        The first region of each stretch, and the number of all regions.
    shift : int
        A region has 2^shift pixels.
    """

    pixelization: Pixelization
    regions: Int64Array
    stretches: Int64Array
    shift: int = _SHIFT

    @property
    def fraction(self) -> float:
        """Part of the sky that the sample is; 1 is the whole."""
        return len(self.regions) / int(self.stretches[-1])

    @property
    def weights(self) -> FloatArray:
        """How many regions of the sky each one stands for, (n_regions,)."""
        return np.diff(self.stretches).astype(np.float64)

    @cached_property
    def chosen(self) -> Int32Array:
        """For each region of the sky its number in the sample, or -1."""
        chosen = np.full(self.stretches[-1], -1, np.int32)
        chosen[self.regions] = np.arange(len(self.regions))
        return chosen

    @property
    def n_keys(self) -> int:
        """Numbers of pixels in the sample; the last region may have fewer."""
        return len(self.regions) << self.shift

    @property
    def parts(self) -> Int64Array:
        """The part of the sample that each region belongs to, (n_regions,): parts are spread over the sky."""
        parts: Int64Array = np.arange(len(self.regions), dtype=np.int64) % min(_N_PARTS, len(self.regions))
        return parts

    def pixels(self, numbers: Int64Array) -> Int64Array:
        """Return the pixels that numbers within the sample stand for."""
        within = numbers & ((1 << self.shift) - 1)
        pixels: Int64Array = (self.regions[numbers >> self.shift] << self.shift) + within
        return pixels

    @property
    def side(self) -> float:
        """Side of a region in radians; 0 where it is no square on the sky."""
        grid = self.pixelization
        if not isinstance(grid, Healpix) or not grid.nest or grid.n_side**2 < 1 << self.shift:
            return 0.0
        return math.sqrt(grid.pixel_area * (1 << self.shift))

    @property
    def reach(self) -> float:
        """Radians around the regions within which `near` is set."""
        return _REACH * self.side

    @cached_property
    def skim_grid(self) -> Healpix:
        """The coarser grid of `near`."""
        order = max(0, math.ceil(math.log2(math.sqrt(math.pi / 3) / (0.5 * self.reach))))
        return Healpix(1 << min(order, 11), nest=True)

    @cached_property
    def near(self) -> UInt8Array:
        """Where on the coarser grid a pixel has a point within reach of a region, (n,)."""
        import ducc0

        fine = ducc0.healpix.Healpix_Base(self.skim_grid.n_side, "NEST")
        near = np.zeros(self.skim_grid.n_pix, np.uint8)
        per_region = self.pixelization.n_pix >> self.shift
        inside = self.skim_grid.n_pix // per_region
        radius = self.reach + 2 * fine.max_pixrad()
        pixels = (self.regions[:, None] * inside + np.arange(inside)).ravel()
        near[pixels] = 1
        edge = pixels[np.any(near[fine.neighbors(pixels)] == 0, axis=1)]
        for place in fine.pix2ang(edge):
            for begin, end in fine.query_disc(place, radius):
                near[begin:end] = 1
        return near


def _n_regions(pixelization: Pixelization) -> int:
    return ((pixelization.n_pix - 1) >> _SHIFT) + 1


def whole_sky(pixelization: Pixelization) -> SkySample:
    """Return the sample that is the whole."""
    total = _n_regions(pixelization)
    return SkySample(pixelization, np.arange(total), np.arange(total + 1))


def draw(
    pixelization: Pixelization, fraction: float, seed: int, crowds: FloatArray | None = None
) -> SkySample:
    """Draw about a fraction of the sky, one region from each of stretches of the pixel numbers.

    Parameters
    ----------
    pixelization : Pixelization
    fraction : float
    seed : int
    crowds : float64 (n,), optional
        How often each of n equal stretches of pixel numbers is looked at: what many ranks share weighs most,
        so that stretches are made shorter there. By default all are equal.
    """
    total = _n_regions(pixelization)
    number = max(1, round(fraction * total))
    if number >= total:
        return whole_sky(pixelization)
    ends = np.linspace(0.0, total, 2 if crowds is None else len(crowds) + 1)
    density = np.ones(1) if crowds is None else _EVEN + (1 - _EVEN) * crowds / crowds.mean()
    below = np.concatenate([[0.0], np.cumsum(density * np.diff(ends))])
    edges = np.interp(np.linspace(0.0, below[-1], number + 1), below, ends)
    # each stretch has a region, also where more are wanted than there are
    stretches: Int64Array = np.unique(np.round(edges)).astype(np.int64)
    regions = np.random.default_rng(seed).integers(stretches[:-1], stretches[1:])
    return SkySample(pixelization, regions, stretches)


def crowds(observations: Sequence[Observation], pixelization: Pixelization) -> FloatArray | None:
    """Return how often equal stretches of nested pixel numbers are looked at, roughly; None if unknown."""
    if not isinstance(pixelization, Healpix) or not pixelization.nest:
        return None
    coarse = Healpix(min(_CROWD_SIDE, pixelization.n_side), nest=True)
    stride = max(1, sum(o.n_samp * o.n_det for o in observations) // _CROWD_LOOKS)
    hits = np.zeros(coarse.n_pix)
    for observation in observations:
        if not isinstance(observation.pointing, CompressedPointing):
            return None
        sparse = observation.pointing.skimmed(stride)
        pixels = np.empty(sparse.n_samp, np.int32)
        for detector in range(sparse.n_det):
            sparse.expand(coarse, detector, 0, sparse.n_samp, pixels, None)
            hits += np.bincount(pixels, minlength=coarse.n_pix)
    return hits
