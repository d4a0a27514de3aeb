"""MASTER: from pseudo-spectra to bandpowers of the sky (Hivon et al. 2002; Brown, Castro & Taylor 2005).

The pseudo-spectra of a weighted map are, on average, Cp_l = sum over l' of M_ll' F_l' C_l' + N_l. With P that
averages in bins and Q that spreads bandpowers over multipoles, bandpowers are (P M F Q)^-1 P (Cp - N).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import FloatArray
from petamap.sky.power_spectra import Spectra
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.coupling import Coupling
from petamap.spectra.multipole_bins import Binning

# Spectra that mix and are solved for together.
_GROUPS = (("TT",), ("EE", "BB"), ("EB", "BE"), ("TE",), ("TB",), ("ET",), ("BT",))
# How many times errors may grow as bins are told from others. In bins of 180 degrees over the radius of a
# disk they do 2 times, E and B at most 50; in those half as wide 600 times and more.
_MOST_GROWTH = 100.0


@dataclass(frozen=True)
class MasterEstimator:
    """Estimator of bandpowers from pseudo-spectra.

    Parameters
    ----------
    coupling : Coupling
    binning : Binning
    names : tuple of str
        The spectra, as `spectra_names` gives them.
    transfer : mapping of str to float64 (l_max + 1,), optional
        F_l of each spectrum: beams and pixels of both maps, and filters. 1 by default.

    Raises
    ------
    ConfigError
        If bins reach beyond the coupling, or the transfer lacks a spectrum.
    """

    coupling: Coupling
    binning: Binning
    names: tuple[str, ...]
    transfer: Mapping[str, FloatArray] | None = None

    def __post_init__(self) -> None:
        if self.binning.l_max > self.coupling.l_max:
            raise ConfigError(
                f"bins reach to l = {self.binning.l_max}, spectra to {self.coupling.l_max}",
                mend="raise l_max or end the bins before",
            )
        if self.transfer is None:
            return
        for name in self.names:
            if name not in self.transfer or len(self.transfer[name]) <= self.coupling.l_max:
                raise ConfigError(f"no transfer of {name} to l = {self.coupling.l_max}")

    def bandpowers(self, pseudo: Spectra, noise: Spectra | None = None) -> Bandpowers:
        """Return the bandpowers of the sky, without errors.

        Parameters
        ----------
        pseudo : Spectra
            All of `names`, to `l_max` of the coupling at least.
        noise : Spectra, optional
            Pseudo-spectra of the noise, to be subtracted.

        Raises
        ------
        DataError
            If a spectrum is missing or too short.
        """
        rows = np.stack([self._less_noise(pseudo, name, noise) for name in self.names])
        values = self.decoupled(rows[None])[0]
        return Bandpowers(values, self.names, self.binning, pseudo.unit, None, self.windows)

    def decoupled(self, pseudo: FloatArray) -> FloatArray:
        """Return the bandpowers of many skies, float64 (n, n_spectra, n_bins), independent of each other.

        Parameters
        ----------
        pseudo : float64 (n, n_spectra, l_max + 1)
            Without noise, in the order of `names`.
        """
        binned = self.binning.binned(pseudo)
        values = np.empty_like(binned)
        for group in self.groups:
            places = [self.names.index(name) for name in group]
            found = solve_linear(self._left[group], binned[:, places].reshape(len(pseudo), -1).T)
            values[:, places] = found.T.reshape(len(pseudo), len(group), -1)
        return values

    def expected(self, true: Spectra) -> Bandpowers:
        """Return the expected bandpowers of skies with spectra `true`; missing spectra are 0."""
        sky = true.select(self.names, self.coupling.l_max).values
        values = np.einsum("ablm,lm->ab", self.windows, sky)
        return Bandpowers(values, self.names, self.binning, true.unit)

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Groups of spectra that are solved for together."""
        found = (tuple(name for name in group if name in self.names) for group in _GROUPS)
        return tuple(group for group in found if group)

    @cached_property
    def windows(self) -> FloatArray:
        """The bandpower windows W = (P M F Q)^-1 P M F, float64 (n_spectra, n_bins, n_spectra, l_max + 1)."""
        n_l, n = self.coupling.l_max + 1, self.binning.n
        windows = np.zeros((len(self.names), n, len(self.names), n_l))
        for group in self.groups:
            places = [self.names.index(name) for name in group]
            right = np.zeros((len(group), n, len(group), n_l))
            for i, pseudo in enumerate(group):
                for j, true in enumerate(group):
                    right[i, :, j] = self._rows(pseudo, true)
            found = solve_linear(self._left[group], right.reshape(len(group) * n, -1)).reshape(right.shape)
            windows[np.ix_(places, range(n), places, range(n_l))] = found
        return windows

    def narrow_bins(self, n_bins: int) -> str | None:
        """Return which of the first bins are too narrow for the weights, in words; None if none is.

        With A = P M F Q of unit diagonal, errors of a bandpower grow by at most the sum of |A^-1| in its row
        as it is told from others: a few times where bins are as wide as what the weights resolve, and without
        end below.
        """
        growths = {group: self._growth(group)[:n_bins] for group in self.groups}
        group, growth = max(growths.items(), key=lambda item: float(item[1].max()))
        narrow = np.flatnonzero(growth > _MOST_GROWTH)
        if not len(narrow):
            return None
        first, last = self.binning.edges[narrow[0]], self.binning.edges[narrow[-1] + 1] - 1
        times = float(f"{growth.max():.1g}")
        return (
            f"{len(narrow)} of {n_bins} bins of {' and '.join(group)}, from l = {first} to {last}, are too "
            f"narrow for so small a part of the sky: errors grow up to {times:,.0f} times as they are told "
            "from others; take wider ones"
        )

    def _growth(self, group: tuple[str, ...]) -> FloatArray:
        """Return how many times errors grow in each bin, the most of the spectra of a group, (n_bins,)."""
        left = self._left[group]
        inverse = solve_linear(left / left.diagonal(), np.eye(len(left)))
        return np.asarray(np.abs(inverse).sum(axis=1).reshape(len(group), -1).max(axis=0), np.float64)

    @cached_property
    def _left(self) -> dict[tuple[str, ...], FloatArray]:
        """Return P M F Q of each group."""
        n = self.binning.n
        left = {}
        for group in self.groups:
            matrix = np.empty((len(group), n, len(group), n))
            for i, pseudo in enumerate(group):
                for j, true in enumerate(group):
                    matrix[i, :, j] = self.binning.spread(self._rows(pseudo, true))
            left[group] = matrix.reshape(len(group) * n, -1)
        return left

    def _rows(self, pseudo: str, true: str) -> FloatArray:
        """Return P M F of one spectrum in another, (n_bins, l_max + 1)."""
        block = self.coupling.block(pseudo, true, self.names)
        if block is None:
            return np.zeros((self.binning.n, self.coupling.l_max + 1))
        rows = np.ascontiguousarray(self.binning.binned(np.ascontiguousarray(block.T)).T)
        return rows if self.transfer is None else rows * self.transfer[true][: self.coupling.l_max + 1]

    def _less_noise(self, pseudo: Spectra, name: str, noise: Spectra | None) -> FloatArray:
        if pseudo.l_max < self.coupling.l_max:
            raise DataError(f"pseudo-spectra end at {pseudo.l_max}, the coupling at {self.coupling.l_max}")
        spectrum = pseudo[name]
        if noise is not None and name in noise:
            if noise.l_max < pseudo.l_max:
                raise DataError(f"the noise ends at l = {noise.l_max}, the spectra at {pseudo.l_max}")
            spectrum = spectrum - noise[name][: len(spectrum)]
        return spectrum


def solve_linear(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Return matrix^-1 right by elimination with pivots; LAPACK's bits would depend on its threads.

    Parameters
    ----------
    matrix : float64 (n, n)
    right : float64 (n, n_columns)
        No column depends on the others.

    Raises
    ------
    DataError
        If the matrix is singular: bins cannot be separated.
    """
    left, found = matrix.copy(), right.copy()
    scale = np.abs(left).max()
    for i in range(len(left)):
        pivot = i + int(np.argmax(np.abs(left[i:, i])))
        if not abs(left[pivot, i]) > 1e-13 * scale:
            raise DataError(
                "the weights leave too little sky to tell the bins apart",
                mend="take wider bins, or a larger l_min",
            )
        for part in (left, found):
            part[[i, pivot]] = part[[pivot, i]]
        found[i] /= left[i, i]
        left[i] /= left[i, i]
        factors = left[:, i].copy()
        factors[i] = 0
        left -= np.multiply.outer(factors, left[i])
        found -= np.multiply.outer(factors, found[i])
    return found
