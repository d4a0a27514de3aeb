"""The mixing matrix S: maps of bands from maps of components, pixel by pixel.

A map of components has a row for each component and pixel, with key c n_pix + p, as maps of bands have rows
b n_pix + p (`petamap.sky.part_pixels`). In each band, another rank may own the row of a pixel; all components
of a pixel have one owner, which adds up what bands give in their order: the same bits on any ranks.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petacomm.reduction import OwnedRows, ReductionPlan
from petacomm.sharing import IndexMap
from petamap.mapmaking.pixel_statistics import SINGULAR

_AT_ONCE = 1 << 14  # pixels whose matrices are inverted at once


class MixingMatrix:
    """S of the pixels of a run. Collective.

    Parameters
    ----------
    factors : float64 (n_bands, n_components, n_stokes)
        s_bc; zero in all bands for a Stokes parameter that a component does not have.
    rows : OwnedRows
        Of the maps of bands.
    n_pix : int
        Of a map.

    Attributes
    ----------
    pixels : int64 (n_pixels,)
        Of which this rank owns all components, increasing.
    """

    def __init__(self, factors: FloatArray, rows: OwnedRows, n_pix: int) -> None:
        self.factors = factors
        self.n_bands, self.n_components, self.n_stokes = factors.shape
        pixels = rows.keys % n_pix
        held = distinct(pixels.copy())
        self._places = np.searchsorted(held, pixels)
        # rows of a band lie together
        self._bounds = np.searchsorted(rows.keys, n_pix * np.arange(self.n_bands + 1))
        self._rows = own_rows(rows, held)
        self.pixels: Int64Array = self._rows.keys
        self.keys: Int64Array = np.concatenate([c * n_pix + self.pixels for c in range(self.n_components)])
        # unknowns of a pixel: component and Stokes parameter of each
        self.unknowns: list[tuple[int, int]] = [
            (c, s) for c in range(self.n_components) for s in range(self.n_stokes) if factors[:, c, s].any()
        ]

    # --- between the owners

    def to_bands(self, components: FloatArray) -> FloatArray:
        """Return S m, (n_rows, n_stokes, width), of maps of components, (n_components n_pixels, ...)."""
        width = components.shape[2]
        by_pixel = components.reshape(self.n_components, -1, self.n_stokes, width).transpose(1, 0, 2, 3)
        held = self._rows.scatter_fwd(np.ascontiguousarray(by_pixel))
        out = np.zeros((len(self._places), self.n_stokes, width))
        for band, rows in enumerate(self._of_bands()):
            seen = held[self._places[rows]]
            for component in range(self.n_components):
                out[rows] += self.factors[band, component][:, None] * seen[:, component]
        return out

    def to_components(self, bands: FloatArray) -> FloatArray:
        """Return S^T m, (n_components n_pixels, n_stokes, width), of maps of bands, (n_rows, ...)."""
        gathered = self.gather(bands)
        out = np.zeros((self.n_components, len(self.pixels), *bands.shape[1:]))
        for component in range(self.n_components):
            for band in range(self.n_bands):
                out[component] += self.factors[band, component][:, None] * gathered[:, band]
        return out.reshape(-1, *bands.shape[1:])

    def gather(self, bands: AnyArray) -> AnyArray:
        """Return what all bands have of a pixel, (n_pixels, n_bands, ...): zero where they do not see it."""
        held = np.zeros((self._rows.n_held, self.n_bands, *bands.shape[1:]), bands.dtype)
        for band, rows in enumerate(self._of_bands()):
            held[self._places[rows], band] = bands[rows]
        # bits travel as they are: nobody adds anything but zeros
        moved: AnyArray = self._rows.scatter_rev(held.view(np.int64)).view(bands.dtype)
        return moved

    def spread(self, pixels: AnyArray) -> AnyArray:
        """Return values of pixels, (n_pixels,), in the rows of all bands, (n_rows,)."""
        return np.asarray(self._rows.scatter_fwd(pixels)[self._places])

    def _of_bands(self) -> list[slice]:
        return [slice(int(a), int(b)) for a, b in zip(self._bounds[:-1], self._bounds[1:], strict=True)]

    # --- matrices of pixels

    def weights(self, bands: FloatArray) -> FloatArray:
        """Return S^T W S of each pixel, (n_triangle, n_pixels), of W in bands, (n_rows, triangle)."""
        gathered, places = self.gather(bands), _triangle_places(self.n_stokes)
        out = np.zeros((len(self._pairs()), len(self.pixels)))
        for number, (i, j) in enumerate(self._pairs()):
            (c, s), (other, t) = self.unknowns[i], self.unknowns[j]
            for band in range(self.n_bands):
                factor = self.factors[band, c, s] * self.factors[band, other, t]
                out[number] += factor * gathered[:, band, places[s, t]]
        return out

    def invert(self, matrices: FloatArray, rcond_min: float) -> tuple[FloatArray, FloatArray]:
        """Return the inverses, (n_triangle, n_pixels), and reciprocal conditions, (n_pixels,).

        Conditions are those of matrices in which each component has the same mean weight, so that they do not
        depend on its unit. Inverses of matrices below `rcond_min`, or that are singular, are zero.
        """
        inverses, rcond = np.zeros_like(matrices), np.zeros(matrices.shape[1])
        rows, columns = np.triu_indices(len(self.unknowns))
        for first in range(0, len(rcond), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            full = np.zeros((len(rcond[part]), len(self.unknowns), len(self.unknowns)))
            full[:, rows, columns] = full[:, columns, rows] = matrices[:, part].T
            scales = self._scales(full)
            full *= scales[:, :, None] * scales[:, None, :]
            with single_blas_thread():
                sizes: FloatArray = np.linalg.eigvalsh(full).astype(np.float64)
                rcond[part] = _conditions(sizes)
                alive = rcond[part] >= max(rcond_min, SINGULAR)
                full[alive] = np.linalg.inv(full[alive])
            full[~alive] = 0.0
            full *= scales[:, :, None] * scales[:, None, :]
            inverses[:, part] = (full[:, rows, columns] + full[:, columns, rows]).T / 2
        return inverses, rcond

    def multiply(self, matrices: FloatArray, components: FloatArray) -> FloatArray:
        """Return the products of symmetric matrices, (n_triangle, n_pixels), with maps of components."""
        maps = components.reshape(self.n_components, -1, *components.shape[1:])
        out = np.zeros_like(maps)
        for number, (i, j) in enumerate(self._pairs()):
            (c, s), (other, t) = self.unknowns[i], self.unknowns[j]
            out[c, :, s] += matrices[number][:, None] * maps[other, :, t]
            if i != j:
                out[other, :, t] += matrices[number][:, None] * maps[c, :, s]
        return out.reshape(components.shape)

    def block(self, matrices: FloatArray, one: int, other: int) -> FloatArray:
        """Return the block of two components, (n_pixels, n_stokes, n_stokes), nan without unknowns."""
        out = np.full((len(self.pixels), self.n_stokes, self.n_stokes), np.nan)
        for number, (i, j) in enumerate(self._pairs()):
            for (c, s), (d, t) in (
                (self.unknowns[i], self.unknowns[j]),
                (self.unknowns[j], self.unknowns[i]),
            ):
                if (c, d) == (one, other):
                    out[:, s, t] = matrices[number]
        return out

    def _pairs(self) -> list[tuple[int, int]]:
        return list(combinations_with_replacement(range(len(self.unknowns)), 2))

    def _scales(self, full: FloatArray) -> FloatArray:
        """Return one over the root of the mean weight of each unknown's component, (n, n_unknowns)."""
        diagonal = np.diagonal(full, axis1=1, axis2=2)
        scales = np.zeros(diagonal.shape)
        owners = np.array([component for component, _ in self.unknowns])
        for component in range(self.n_components):
            own = np.flatnonzero(owners == component)
            mean = np.zeros(len(full))
            for number in own:
                mean += diagonal[:, number] / len(own)
            scales[:, own] = np.divide(1, np.sqrt(mean), out=np.zeros(len(full)), where=mean > 0)[:, None]
        return scales


def own_rows(rows: OwnedRows, keys: Int64Array) -> OwnedRows:
    """Return owners of keys that this rank holds beside other rows. Collective."""
    plan = ReductionPlan(
        IndexMap(rows.comm, keys), algorithm="owner", checks="first", n_threads=rows.n_threads
    )
    return OwnedRows(plan, rows.n_threads)


def _triangle_places(n: int) -> Int64Array:
    """Return the place of each entry of a symmetric matrix in its upper triangle, (n, n)."""
    places = np.zeros((n, n), np.int64)
    for number, (i, j) in enumerate(combinations_with_replacement(range(n), 2)):
        places[i, j] = places[j, i] = number
    return places


def _conditions(sizes: FloatArray) -> FloatArray:
    """Return smallest over largest of eigenvalues in increasing order, (n,); 0 where one is not positive."""
    positive = (sizes[:, 0] > 0) & (sizes[:, -1] > 0)
    return np.divide(sizes[:, 0], sizes[:, -1], out=np.zeros(len(sizes)), where=positive)
