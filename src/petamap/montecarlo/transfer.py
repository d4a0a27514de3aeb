"""What filters and map-making leave of the spectra of the sky (Hivon et al. 2002)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.errors import ConvergenceError, DataError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.montecarlo.statistics import MeanTest
from petamap.spectra.coupling import Coupling
from petamap.spectra.master import solved
from petamap.spectra.multipole_bins import Binning

OWN = ("TT", "EE")  # spectra with a transfer function of their own
_MOST_ITERATIONS = 10_000


@dataclass(frozen=True)
class TransferFunction:
    """F of each auto-spectrum, flat in bins; what lies outside them has that of the nearest.

    Attributes
    ----------
    names : tuple of str
        Auto-spectra with an F of their own.
    binning : Binning
    values, errors : float64 (n_names, n_bins)
        With standard errors.
    against_one : MeanTest or None
        Whether all of F are 1 on average, by the covariance of realizations.
    iterations : int
    """

    names: tuple[str, ...]
    binning: Binning
    values: FloatArray
    errors: FloatArray
    against_one: MeanTest
    iterations: int

    def of(self, names: tuple[str, ...], l_max: int) -> dict[str, FloatArray]:
        """Return F_l of each spectrum, float64 (l_max + 1,): of xy, sqrt(F_xx F_yy).

        B without one of its own has that of E, and the other way round.

        Raises
        ------
        DataError
            If one is not above 0, or a spectrum has none.
        """
        if not np.all(self.values > 0):
            raise DataError("the transfer function is not above 0 everywhere", mend="take wider bins")
        bins = bin_of(self.binning, l_max)
        sides = {name[0]: np.sqrt(row)[bins] for name, row in zip(self.names, self.values, strict=True)}
        for letter, other in (("B", "E"), ("E", "B")):
            if letter not in sides and other in sides:
                sides[letter] = sides[other]
        missing = {letter for name in names for letter in name} - set(sides)
        if missing:
            raise DataError(f"no transfer function of {' '.join(sorted(missing))}")
        return {name: sides[name[0]] * sides[name[1]] for name in names}


def transfer_function(
    pseudo: FloatArray,
    true: FloatArray,
    names: tuple[str, ...],
    coupling: Coupling,
    window: Mapping[str, FloatArray],
    binning: Binning,
    own: tuple[str, ...] = OWN,
    tolerance: float = 1e-10,
) -> TransferFunction:
    """Return F such that on average <C~_l> = sum over l' of M_ll' F_l' B_l'^2 C_l', in bins.

    By iteration from F = 1 (Hivon et al. 2002, with F flat in bins):
    F <- F + (P<C~> - P M F B^2 <C>) / P M B^2 <C>, until no F changes by more than `tolerance`.

    Parameters
    ----------
    pseudo : float64 (n, n_spectra, l_max + 1)
        Pseudo-spectra of maps without noise, or less it.
    true : float64 (n, n_spectra, l_max + 1)
        Spectra that each sky was drawn with: the chance of skies then counts for little.
    names : tuple of str
    coupling : Coupling
    window : mapping of str to float64 (l_max + 1,)
        B^2: beams and pixels that are known.
    binning : Binning
        Where the sky has power.
    own : tuple of str
        Auto-spectra whose F is found; that of BB is badly known where B is weak.
    tolerance : float

    Raises
    ------
    DataError
        If a bin has no power.
    ConvergenceError
        If bins are too narrow to be told apart.
    """
    system = _System(names, tuple(name for name in own if name in names), coupling, window, binning)
    matrix = system.matrix(true.mean(axis=0))
    alone = matrix.sum(axis=1)
    if not np.all(matrix.diagonal() > 1e-6 * alone):
        raise DataError(
            "the skies have no power in a bin of the transfer function", mend="end the bins before"
        )
    goal = system.binned(pseudo)
    found, iterations = _iterated(matrix / alone[:, None], goal.mean(axis=0) / alone, tolerance)
    # what its own sky explains is taken off each realization
    apart = solved(matrix, (goal - system.predicted(true, found)).T).T
    test = MeanTest.of(apart + found - 1)
    shape = (len(system.fitted), binning.n)
    return TransferFunction(
        system.fitted, binning, found.reshape(shape), test.error.reshape(shape), test, iterations
    )


def bin_of(binning: Binning, l_max: int) -> Int64Array:
    """Return the bin of each multipole to `l_max`; the first or last for those outside."""
    found = np.searchsorted(binning.edges, np.arange(l_max + 1), side="right") - 1
    return np.clip(found, 0, binning.n - 1)


@dataclass(frozen=True)
class _System:
    """P M F B^2 C of the fitted spectra, one after the other, as a matrix times their F."""

    names: tuple[str, ...]
    fitted: tuple[str, ...]
    coupling: Coupling
    window: Mapping[str, FloatArray]
    binning: Binning

    def binned(self, pseudo: FloatArray) -> FloatArray:
        """Return P of (n, n_spectra, l_max + 1), float64 (n, n_fitted n_bins)."""
        rows = pseudo[:, [self.names.index(name) for name in self.fitted]]
        return self.binning.binned(rows).reshape(len(pseudo), -1)

    def matrix(self, sky: FloatArray) -> FloatArray:
        """Return the matrix for a sky (n_spectra, l_max + 1)."""
        n = self.binning.n
        starts = np.concatenate(([0], self.binning.edges[1:-1]))
        matrix = np.zeros((len(self.fitted), n, len(self.fitted), n))
        for (i, true), rows in self._rows.items():
            seen = rows * sky[self.names.index(true)]
            matrix[i, :, self._source(true)] += np.add.reduceat(seen, starts, axis=1)
        return matrix.reshape(len(self.fitted) * n, -1)

    def predicted(self, skies: FloatArray, transfer: FloatArray) -> FloatArray:
        """Return the matrix of each of (n, n_spectra, l_max + 1) times F, float64 (n, n_fitted n_bins)."""
        n_l = skies.shape[-1]
        each = transfer.reshape(len(self.fitted), -1)[:, bin_of(self.binning, n_l - 1)]
        found = np.zeros((len(skies), len(self.fitted), self.binning.n))
        for (i, true), rows in self._rows.items():
            left = skies[:, self.names.index(true)] * each[self._source(true)]
            found[:, i] += np.einsum("bl,nl->nb", rows, left)
        return found.reshape(len(skies), -1)

    @cached_property
    def _rows(self) -> dict[tuple[int, str], FloatArray]:
        """P M B^2 of each fitted spectrum in each true one, (n_bins, l_max + 1)."""
        found = {}
        for i, pseudo in enumerate(self.fitted):
            for true in self.names:
                block = self.coupling.block(pseudo, true, self.names)
                if block is not None:
                    rows = self.binning.binned(np.ascontiguousarray(block.T)).T
                    found[i, true] = rows * self.window[true][: self.coupling.l_max + 1]
        return found

    def _source(self, true: str) -> int:
        """Whose F a spectrum has."""
        return self.fitted.index(true if true in self.fitted else {"EE": "BB", "BB": "EE"}[true])


def _iterated(matrix: FloatArray, goal: FloatArray, tolerance: float) -> tuple[FloatArray, int]:
    found = np.ones_like(goal)
    for iteration in range(1, _MOST_ITERATIONS + 1):
        change = goal - np.einsum("ij,j->i", matrix, found)
        found += change
        if not np.abs(change).max() > tolerance:
            return found, iteration
    raise ConvergenceError(
        f"the transfer function changes by {np.abs(change).max():.2g} after {_MOST_ITERATIONS} iterations",
        mend="take wider bins",
    )
