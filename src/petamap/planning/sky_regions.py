"""Stratified samples of the sky: regions of pixels, one drawn from each stratum."""

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

# log2 of the pixels of a region: 8 x 8 pixels of HEALPix, which mostly have the same owner.
_SHIFT = 6
# Margin around regions within which sparse samples are expanded, in units of their side; measured optimum.
_MARGIN = 0.5
# Number of pointing samples for coarse hit counts, and n_side of their grid.
COARSE_SAMPLES = 4_000_000
_COARSE_SIDE = 32
# Fraction of a sample that is uniform over the sky, irrespective of hit counts.
_UNIFORM_FRACTION = 0.3
# Number of parts of the sample for jackknife errors.
_N_PARTS = 24


@dataclass(frozen=True, eq=False)
class SkySample:
    """Regions of consecutive pixels, one drawn from each stratum of consecutive regions.

    With nested pixels a region is a square on the sky, and a stratum is connected.

    Attributes
    ----------
    pixelization : Pixelization
    regions : int64 (n_regions,)
        Numbers of the regions, increasing.
    stratum_edges : int64 (n_regions + 1,)
        First region of each stratum, and the total number of regions.
    shift : int
        A region has 2^shift pixels.
    n_parts : int
        Most parts for jackknife errors.
    """

    pixelization: Pixelization
    regions: Int64Array
    stratum_edges: Int64Array
    shift: int = _SHIFT
    n_parts: int = _N_PARTS

    @property
    def fraction(self) -> float:
        """Fraction of the sky in the sample."""
        return len(self.regions) / int(self.stratum_edges[-1])

    @property
    def weights(self) -> FloatArray:
        """Number of regions of the sky that each region represents: float64 (n_regions,)."""
        return np.diff(self.stratum_edges).astype(np.float64)

    @cached_property
    def sample_index(self) -> Int32Array:
        """Index in the sample of each region of the sky, or -1: int32."""
        index = np.full(self.stratum_edges[-1], -1, np.int32)
        index[self.regions] = np.arange(len(self.regions))
        return index

    def region_of(self, keys: Int64Array) -> Int64Array:
        """Return the index in the sample of the region of each key k n_pix + p, pixel p of map k: int64."""
        return np.searchsorted(self.regions, (keys % self.pixelization.n_pix) >> self.shift)

    def stratum_of(self, keys: Int64Array) -> Int64Array:
        """Return the stratum of each key k n_pix + p, of any pixel p of a map k: int64."""
        regions = (keys % self.pixelization.n_pix) >> self.shift
        return np.searchsorted(self.stratum_edges, regions, side="right") - 1

    @property
    def jackknife_part(self) -> Int64Array:
        """Jackknife part of each region, spread over the sky: int64 (n_regions,)."""
        return np.arange(len(self.regions), dtype=np.int64) % min(self.n_parts, len(self.regions))

    @property
    def n_sampled(self) -> int:
        """Pixels of a map that are in the sample."""
        return len(self.regions) << self.shift

    def keys(self, numbers: Int64Array) -> Int64Array:
        """Return the keys of numbers within the sample, ``k n_sampled + i`` in a map k: int64."""
        maps, inside = np.divmod(numbers, self.n_sampled)
        within = inside & ((1 << self.shift) - 1)
        pixels = (self.regions[inside >> self.shift] << self.shift) + within
        return np.asarray(maps * self.pixelization.n_pix + pixels, np.int64)

    def thinned(self, every: int, seed: int = 0) -> SkySample:
        """Return the sample of one region of each `every` consecutive strata, by the sizes of these."""
        edges = np.append(self.stratum_edges[:-1:every], self.stratum_edges[-1])
        drawn = np.random.default_rng(seed).integers(edges[:-1], edges[1:])
        stratum = np.searchsorted(self.stratum_edges, drawn, side="right") - 1
        return SkySample(self.pixelization, self.regions[stratum], edges, self.shift, self.n_parts)

    @property
    def side(self) -> float:
        """Side of a region in radians; 0 if it is not a square on the sky."""
        grid = self.pixelization
        if not isinstance(grid, Healpix) or not grid.nest or grid.n_side**2 < 1 << self.shift:
            return 0.0
        return math.sqrt(grid.pixel_area * (1 << self.shift))

    @property
    def margin(self) -> float:
        """Radius around the regions within which `near_mask` is set, in radians."""
        return _MARGIN * self.side

    @cached_property
    def coarse_grid(self) -> Healpix:
        """Coarser grid of `near_mask`."""
        order = max(0, math.ceil(math.log2(math.sqrt(math.pi / 3) / (0.5 * self.margin))))
        return Healpix(1 << min(order, 11), nest=True)

    @cached_property
    def near_mask(self) -> UInt8Array:
        """Pixels of the coarser grid with a point within the margin of a region: uint8 (n_pix,)."""
        import ducc0

        grid = ducc0.healpix.Healpix_Base(self.coarse_grid.n_side, "NEST")
        mask = np.zeros(self.coarse_grid.n_pix, np.uint8)
        n_regions = self.pixelization.n_pix >> self.shift
        per_region = self.coarse_grid.n_pix // n_regions
        radius = self.margin + 2 * grid.max_pixrad()
        pixels = (self.regions[:, None] * per_region + np.arange(per_region)).ravel()
        mask[pixels] = 1
        border = pixels[np.any(mask[grid.neighbors(pixels)] == 0, axis=1)]
        for direction in grid.pix2ang(border):
            for begin, end in grid.query_disc(direction, radius):
                mask[begin:end] = 1
        return mask


def count_regions(pixelization: Pixelization) -> int:
    """Return the number of regions of the sky."""
    return ((pixelization.n_pix - 1) >> _SHIFT) + 1


def full_sky_sample(pixelization: Pixelization) -> SkySample:
    """Return the sample of all regions of the sky."""
    total = count_regions(pixelization)
    return SkySample(pixelization, np.arange(total), np.arange(total + 1))


def draw_sky_sample(
    pixelization: Pixelization, fraction: float, seed: int, hits: FloatArray | None = None
) -> SkySample:
    """Return a random sample of about a fraction of the sky, one region from each stratum.

    Parameters
    ----------
    pixelization : Pixelization
    fraction : float
    seed : int
    hits : float64 (n,), optional
        Hit counts of n equal ranges of pixel numbers. Strata are smaller where hits are many, as pixels
        shared by many ranks contribute most. By default all strata are equal.
    """
    total = count_regions(pixelization)
    number = max(1, round(fraction * total))
    if number >= total:
        return full_sky_sample(pixelization)
    ends = np.linspace(0.0, total, 2 if hits is None else len(hits) + 1)
    density = np.ones(1)
    if hits is not None:
        density = _UNIFORM_FRACTION + (1 - _UNIFORM_FRACTION) * hits / hits.mean()
    cumulative = np.concatenate([[0.0], np.cumsum(density * np.diff(ends))])
    edges = np.interp(np.linspace(0.0, cumulative[-1], number + 1), cumulative, ends)
    # A stratum has at least one region, even where the density asks for more samples than regions.
    stratum_edges: Int64Array = np.unique(np.round(edges)).astype(np.int64)
    regions = np.random.default_rng(seed).integers(stratum_edges[:-1], stratum_edges[1:])
    return SkySample(pixelization, regions, stratum_edges)


def coarse_hit_counts(
    observations: Sequence[Observation], pixelization: Pixelization, n_samples: int = COARSE_SAMPLES
) -> FloatArray | None:
    """Return approximate hit counts of equal ranges of nested pixels: float64 (n,); None if unknown."""
    if not isinstance(pixelization, Healpix) or not pixelization.nest:
        return None
    coarse = Healpix(min(_COARSE_SIDE, pixelization.n_side), nest=True)
    stride = max(1, sum(o.n_samp * o.n_det for o in observations) // n_samples)
    hits = np.zeros(coarse.n_pix)
    for observation in observations:
        if not isinstance(observation.pointing, CompressedPointing):
            return None
        sparse = observation.pointing.decimated(stride)
        pixels = np.empty(sparse.n_samp, np.int32)
        for detector in range(sparse.n_det):
            sparse.expand(coarse, detector, 0, sparse.n_samp, pixels, None)
            hits += np.bincount(pixels, minlength=coarse.n_pix)
    return hits
