"""Pseudo-spectra of many maps with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from petacomm.base.typing import AnyArray, ComplexArray, FloatArray
from petacomm.mpi import agree_on_errors
from petamap.sky.harmonics import ITERATIONS
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.sky.ring_distribution import RingDistribution
from petamap.spectra.cross_spectra import pseudo_spectra, spectra_names
from petamap.spectra.masks import subtract_monopole
from petamap.spectra.purification import purify, spin_raise
from petamap.spectra.transforms import COMPONENTS, Harmonics, check_weights, weighted_harmonics


class PseudoClEstimator:
    """Estimator of pseudo-spectra of maps with the same weights, of whole maps or of maps dealt to ranks.

    Of whole maps, its methods may be called from several threads.

    Parameters
    ----------
    pixelization : Healpix
        In ring order.
    weights : float64 (2, n_pix)
        Of I, and of Q and U.
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
        share: Callable[[Callable[[], AnyArray]], AnyArray] = lambda make: make(),
        rings: RingDistribution | None = None,
        n_threads: int = 1,
    ) -> None:
        self.rings = rings or RingDistribution(pixelization.n_side)
        with agree_on_errors(self.rings.comm):
            for one in weights:
                check_weights(one, pixelization, rings=self.rings)
        self.pixelization = pixelization
        self.weights = weights
        self.n_stokes = n_stokes
        self.pure = pure
        self.iterations = iterations
        self.n_threads = n_threads
        self.l_max = 3 * pixelization.n_side - 1
        self.names = spectra_names(COMPONENTS[n_stokes])
        self._directions: FloatArray | None = None
        if not keep_dipole and n_stokes != 2:
            self._directions = share(lambda: pixelization.directions_of(self.rings.pixels, n_threads))

    def pseudo(self, values: FloatArray, unit: str = "K_CMB^2") -> Spectra:
        """Return the pseudo-spectra of a map, float64 (n_stokes, n_pix), nan where there is no value."""
        return pseudo_spectra(self.harmonics(values), unit=unit, rings=self.rings)

    def harmonics(self, values: FloatArray) -> Harmonics:
        """Return the coefficients of a weighted map, without those of its weights."""
        if self._directions is not None:
            intensity = subtract_monopole(values[0], self.weights[0], self._directions, self.rings.comm)
            values = np.concatenate((intensity[None], values[1:]))
        seen = weighted_harmonics(
            values, self.pixelization, self.weights[0], self.weights[1], self.l_max, self.iterations,
            self.n_threads, with_weights=False, rings=self.rings,
        )  # fmt: skip
        if not self.pure:
            return seen
        return purify(
            seen, values, self.pixelization, self.weights[1], self.pure, self.iterations, self.n_threads,
            self._raised, self.rings,
        )  # fmt: skip

    @cached_property
    def _raised(self) -> ComplexArray:
        return spin_raise(self.weights[1], self.rings, self.n_threads)
