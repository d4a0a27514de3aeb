"""Pseudo-spectra of many maps with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from petacomm.base.typing import AnyArray, ComplexArray, FloatArray, Int64Array
from petacomm.mpi import agree_on_errors
from petamap.sky.harmonics import ITERATIONS, analyse
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.sky.ring_distribution import RingDistribution
from petamap.sky.sparse_map import SparseMap
from petamap.spectra.cross_spectra import pseudo_spectra, spectra_names
from petamap.spectra.masks import subtract_monopole
from petamap.spectra.purification import purify, spin_raise
from petamap.spectra.transforms import COMPONENTS, Harmonics, check_weights, weighted

_Share = Callable[[Callable[[], AnyArray]], AnyArray]

_FEW = 0.5  # part of the pixels: where fewer have a weight, these alone are held


class _UsedPixels(NamedTuple):
    """Pixels whose weights are held: which of those of maps, which of those of the rank, and their weights.

    Without places they are all pixels of the rank; those of weight 0 are held, too.
    """

    columns: Int64Array | slice
    places: Int64Array | None
    weights: FloatArray


class PseudoClEstimator:
    """Estimator of pseudo-spectra of maps with the same weights, of whole maps or of maps dealt to ranks.

    Of whole maps, its methods may be called from several threads.

    Parameters
    ----------
    pixelization : Healpix
        In ring order.
    weights : float64 (2, n_pix)
        Of I, and of Q and U. Where few pixels have one, no more than these is kept.
    n_stokes : int
        1, 2 or 3: I, or Q and U, or I, Q and U.
    keep_dipole : bool
        Leave monopole and dipole of I where they are.
    pure : {"", "B", "EB"}
    iterations : int
    share : callable
        Returns what a function makes, of ranks that make the same once on each node, where it is collective.
    rings : RingDistribution, optional
        Whose pixels weights and maps are of: methods are then collective on its communicator. By default
        maps are whole.
    n_threads : int
        Of each call.
    places : int64 (n,), optional
        Places of the pixels of weights and maps among those of the rank, increasing; all by default, and
        where components are pure.

    Attributes
    ----------
    l_max : int
        3 n_side - 1.
    names : tuple of str
        The spectra.
    """

    def __init__(
        self,
        pixelization: Healpix,
        weights: FloatArray,
        n_stokes: int,
        keep_dipole: bool = False,
        pure: str = "",
        iterations: int = ITERATIONS,
        share: _Share = lambda make: make(),
        rings: RingDistribution | None = None,
        n_threads: int = 1,
        places: Int64Array | None = None,
    ) -> None:
        assert places is None or not pure, "derivatives of weights need pixels beside those seen"
        self.rings = rings or RingDistribution(pixelization.n_side)
        with agree_on_errors(self.rings.comm):
            for one in weights:
                check_weights(one, pixelization, rings=self.rings, places=places)
        self.pixelization = pixelization
        self.n_stokes = n_stokes
        self.pure = pure
        self.iterations = iterations
        self.n_threads = n_threads
        self.l_max = 3 * pixelization.n_side - 1
        self.names = spectra_names(COMPONENTS[n_stokes])
        self._polarization_weights = weights[1] if pure else None
        letters = [name for name in ("I", "QU") if name in {1: ("I",), 2: ("QU",), 3: ("I", "QU")}[n_stokes]]
        self._used = {name: self._used_pixels(weights[len(name) - 1], places, share) for name in letters}
        self._directions: FloatArray | None = None
        if not keep_dipole and "I" in self._used:
            self._directions = share(lambda: self._directions_of(self._used["I"].places))

    def pseudo(self, values: FloatArray, unit: str = "K_CMB^2") -> Spectra:
        """Return the pseudo-spectra of a map, float64 (n_stokes, n_pix), nan where there is no value."""
        return pseudo_spectra(self.harmonics(values), unit=unit, rings=self.rings)

    def harmonics(self, values: FloatArray) -> Harmonics:
        """Return the coefficients of a weighted map, without those of its weights."""
        parts = []
        for letters, used in self._used.items():
            spin, rows = (0, slice(0, 1)) if letters == "I" else (2, slice(-2, None))
            maps = values[rows][:, used.columns]
            if letters == "I" and self._directions is not None:
                maps = subtract_monopole(maps[0], used.weights, self._directions, self.rings.comm)[None]
            with agree_on_errors(self.rings.comm):
                maps = weighted(maps, used.weights, letters, self.rings, used.places)
            parts.append(
                analyse(
                    maps if used.places is None else SparseMap(used.places, maps), self.rings, self.l_max,
                    spin, self.iterations, self.n_threads,
                )
            )  # fmt: skip
        alm = np.concatenate(parts) if len(parts) > 1 else parts[0]
        nothing = np.empty((0, 0), np.complex128)
        seen = Harmonics(alm, COMPONENTS[self.n_stokes], nothing, self.l_max, self.l_max)
        if self._polarization_weights is None:
            return seen
        return purify(
            seen, values, self.pixelization, self._polarization_weights, self.pure, self.iterations,
            self.n_threads, self._raised, self.rings,
        )  # fmt: skip

    @cached_property
    def _raised(self) -> ComplexArray:
        assert self._polarization_weights is not None, "kept for pure components"
        return spin_raise(self._polarization_weights, self.rings, self.n_threads)

    def _used_pixels(self, weights: FloatArray, places: Int64Array | None, share: _Share) -> _UsedPixels:
        """Return the pixels that have a weight, or all where that are many. Collective as `share` is."""
        if places is None and np.count_nonzero(weights) >= _FEW * len(weights):
            return _UsedPixels(slice(None), None, weights)
        columns = share(lambda: np.flatnonzero(weights))
        among = columns if places is None else share(lambda: places[columns])
        return _UsedPixels(columns, among, share(lambda: weights[columns]))

    def _directions_of(self, places: Int64Array | None) -> FloatArray:
        numbers = self.rings.pixels if places is None else self.rings.numbers_of(places)
        return self.pixelization.directions_of(numbers, self.n_threads)
