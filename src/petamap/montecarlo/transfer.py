"""Transfer function of filters and map-making (Hivon et al. 2002)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.montecarlo.statistics import MeanTest
from petamap.spectra.coupling import Coupling
from petamap.spectra.master import solve_linear
from petamap.spectra.multipole_bins import Binning

DEFAULT_SPECTRA = ("TT", "EE")  # auto-spectra whose transfer function is fitted by default


@dataclass(frozen=True)
class TransferFunction:
    """Transfer function F of auto-spectra, constant in bins and constant beyond the first and last bin.

    Attributes
    ----------
    names : tuple of str
        Auto-spectra with a fitted F.
    binning : Binning
    values, errors : float64 (n_names, n_bins)
        F and its standard errors.
    against_one : MeanTest
        Test whether F is 1, with the covariance of the realizations.
    over_unfiltered : bool
        Whether it was fitted to filtered over unfiltered maps of the same skies.
    """

    names: tuple[str, ...]
    binning: Binning
    values: FloatArray
    errors: FloatArray
    against_one: MeanTest
    over_unfiltered: bool

    def at_multipoles(self, names: tuple[str, ...], l_max: int) -> dict[str, FloatArray]:
        """Return F_l of each spectrum, float64 (l_max + 1,); that of xy is sqrt(F_xx F_yy).

        If only one of E and B has a fitted F, the other one has the same.

        Raises
        ------
        DataError
            If a value is not positive, or a spectrum has no F.
        """
        if not np.all(self.values > 0):
            raise DataError("the transfer function is not above 0 everywhere", mend="take wider bins")
        bins = bin_indices(self.binning, l_max)
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
    fitted: tuple[str, ...] = DEFAULT_SPECTRA,
    unfiltered: FloatArray | None = None,
) -> TransferFunction:
    """Return F for which, in bins, <C~_l> = sum over l' of M_ll' F_l' B_l'^2 <C_l'>.

    Solved directly, where Hivon et al. iterate, F <- F + (P<C~> - P M F B^2 <C>) / P M B^2 <C>: the iteration
    has the same end, but has none where bins are narrow beside what the mask couples.

    Where pseudo-spectra U~ of the same skies in unfiltered maps are known, P M B^2 <C> P<C~> / P<U~> stands
    for P<C~>: the chance of skies is the same in both, also that of a small field, about which the spectra
    of the whole sky say little.

    Parameters
    ----------
    pseudo : float64 (n, n_spectra, l_max + 1)
        Pseudo-spectra of maps without noise, or with the noise subtracted.
    true : float64 (n, n_spectra, l_max + 1)
        Spectra of the a_lm of each sky, which remove most of the cosmic variance.
    names : tuple of str
    coupling : Coupling
    window : mapping of str to float64 (l_max + 1,)
        B^2: known beams and pixel window.
    binning : Binning
        Bins in which the sky has power.
    fitted : tuple of str
        Auto-spectra whose F is fitted; that of BB is poorly determined if B is weak.
    unfiltered : float64 (n, n_spectra, l_max + 1), optional
        Pseudo-spectra of unfiltered maps of the skies, on the same pixels with the same weights.

    Raises
    ------
    DataError
        If a bin has no power, or bins are too narrow to be told apart.
    """
    system = _System(names, tuple(name for name in fitted if name in names), coupling, window, binning)
    matrix = system.matrix(true.mean(axis=0))
    unit_response = matrix.sum(axis=1)
    if not np.all(matrix.diagonal() > 1e-6 * unit_response):
        raise DataError(
            "the skies have no power in a bin of the transfer function", mend="end the bins before"
        )
    rhs, own = system.binned(pseudo), None
    if unfiltered is not None:
        own = system.binned(unfiltered)
        rhs = rhs * (unit_response / own.mean(axis=0))
    values = solve_linear(matrix, rhs.mean(axis=0))
    # The prediction from its own sky is subtracted from each realization.
    predicted = system.predicted(true, values)
    if own is not None:
        predicted = own * (rhs.mean(axis=0) / own.mean(axis=0))
    deviations = solve_linear(matrix, (rhs - predicted).T).T
    test = MeanTest.from_samples(deviations + values - 1)
    shape = (len(system.fitted), binning.n)
    return TransferFunction(
        system.fitted, binning, values.reshape(shape), test.error.reshape(shape), test, own is not None
    )


def bin_indices(binning: Binning, l_max: int) -> Int64Array:
    """Return the bin of each multipole up to `l_max`; the first or last bin for multipoles outside."""
    index = np.searchsorted(binning.edges, np.arange(l_max + 1), side="right") - 1
    return np.clip(index, 0, binning.n - 1)


@dataclass(frozen=True)
class _System:
    """P M F B^2 C of the fitted spectra, concatenated, as a matrix times their F."""

    names: tuple[str, ...]
    fitted: tuple[str, ...]
    coupling: Coupling
    window: Mapping[str, FloatArray]
    binning: Binning

    def binned(self, pseudo: FloatArray) -> FloatArray:
        """Return the binned fitted spectra of (n, n_spectra, l_max + 1), float64 (n, n_fitted n_bins)."""
        rows = pseudo[:, [self.names.index(name) for name in self.fitted]]
        return self.binning.binned(rows).reshape(len(pseudo), -1)

    def matrix(self, sky: FloatArray) -> FloatArray:
        """Return the matrix for the spectra of a sky, (n_spectra, l_max + 1)."""
        n = self.binning.n
        starts = np.concatenate(([0], self.binning.edges[1:-1]))
        matrix = np.zeros((len(self.fitted), n, len(self.fitted), n))
        for (i, true), rows in self._rows.items():
            response = rows * sky[self.names.index(true)]
            matrix[i, :, self._source(true)] += np.add.reduceat(response, starts, axis=1)
        return matrix.reshape(len(self.fitted) * n, -1)

    def predicted(self, skies: FloatArray, transfer: FloatArray) -> FloatArray:
        """Return the matrices of skies (n, n_spectra, l_max + 1) times F, float64 (n, n_fitted n_bins)."""
        n_l = skies.shape[-1]
        by_multipole = transfer.reshape(len(self.fitted), -1)[:, bin_indices(self.binning, n_l - 1)]
        predicted = np.zeros((len(skies), len(self.fitted), self.binning.n))
        for (i, true), rows in self._rows.items():
            filtered = skies[:, self.names.index(true)] * by_multipole[self._source(true)]
            predicted[:, i] += np.einsum("bl,nl->nb", rows, filtered)
        return predicted.reshape(len(skies), -1)

    @cached_property
    def _rows(self) -> dict[tuple[int, str], FloatArray]:
        """P M B^2 from each true spectrum to each fitted one, (n_bins, l_max + 1)."""
        blocks = {}
        for i, pseudo in enumerate(self.fitted):
            for true in self.names:
                block = self.coupling.block(pseudo, true, self.names)
                if block is not None:
                    rows = self.binning.binned(np.ascontiguousarray(block.T)).T
                    blocks[i, true] = rows * self.window[true][: self.coupling.l_max + 1]
        return blocks

    def _source(self, true: str) -> int:
        """Return the index of the fitted spectrum whose F a spectrum has."""
        return self.fitted.index(true if true in self.fitted else {"EE": "BB", "BB": "EE"}[true])
