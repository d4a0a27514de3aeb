"""Exact pixel likelihood of low-resolution maps, and its maximum.

Pixels d are Gaussian with covariance C = N + sum over X, Y, l of C_l^XY P_l^XY. The derivatives of -2 ln L =
d' C^-1 d + ln |C| give Newton steps F^-1 g in the powers, with g_i = (d' C^-1 P_i C^-1 d - tr C^-1 P_i) / 2
and F_ij = tr(C^-1 P_i C^-1 P_j) / 2 (Bond, Jaffe & Knox 1998, section III). One step from a fiducial is the
quadratic estimator of Tegmark 1997 and Tegmark & de Oliveira-Costa 2001.

P_l = sum over m of y_lm y_lm', y_lm a real harmonic on the pixels: by the addition theorem the sum
is that of the spin-weighted Legendre functions of Zaldarriaga 1998. All traces are sums over G = Y' C^-1 Y.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.errors import ConfigError, ConvergenceError, DataError, ResourceError
from petacomm.base.host import available_bytes
from petacomm.base.threads import single_blas_thread
from petacomm.base.typing import BoolArray, FloatArray, Int64Array
from petamap.sky.harmonics import synthesise
from petamap.sky.power_spectra import Spectra
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.cross_spectra import spectra_names
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.transforms import COMPONENTS

_LEAST_EIGENVALUE = 1e-11  # of a Fisher matrix with unit diagonal; rounding makes 1e-15 of 0
_FIRST = 2  # monopole and dipole are templates


@dataclass(frozen=True)
class HarmonicModes:
    """Real harmonics on the observed pixels.

    Attributes
    ----------
    values : float64 (n_data, n_components, n_modes)
        Value of a mode of unit power in each datum.
    l : int64 (n_modes,)
        The same for each component, increasing from 2.
    components : str
        ``T``, ``EB`` or ``TEB``.
    """

    values: FloatArray
    l: Int64Array  # noqa: E741
    components: str


def harmonic_modes(
    n_side: int, seen: BoolArray, l_max: int, windows: dict[str, FloatArray], n_threads: int = 1
) -> HarmonicModes:
    """Return the harmonics of the data of HEALPix maps.

    Parameters
    ----------
    n_side : int
        Rings.
    seen : bool (n_stokes, n_pix)
        Which pixels of I, of Q and U, or of I, Q, U are data; their order is that of ``maps[seen]``.
    l_max : int
    windows : dict of float64 (l_max + 1,)
        Beam and pixels of ``T`` and ``P``.
    n_threads : int
    """
    components = COMPONENTS[len(seen)]
    last = range(_FIRST, l_max + 1)
    orders = [(l, m, part) for l in last for m in range(l + 1) for part in (1, 1j)[: m + 1]]  # noqa: E741
    size, n_data = (l_max + 1) * (l_max + 2) // 2, int(seen.sum())
    values = np.zeros((n_data, len(components), len(orders)))
    for row, component in enumerate(components):
        spin = 0 if component == "T" else 2
        stokes = slice(0, 1) if component == "T" else slice(len(seen) - 2, len(seen))
        alm = np.zeros((1 if spin == 0 else 2, size), np.complex128)
        maps = np.zeros(seen.shape)
        for column, (l, m, part) in enumerate(orders):  # noqa: E741
            place = (int(component == "B"), m * (2 * l_max + 1 - m) // 2 + l)
            alm[place] = part * windows["T" if spin == 0 else "P"][l] * (1 if m == 0 else np.sqrt(0.5))
            maps[stokes] = synthesise(alm, n_side, l_max, spin, n_threads)
            values[:, row, column] = maps[seen]
            alm[place] = 0
    return HarmonicModes(values, np.array([order[0] for order in orders]), components)


def likelihood_bytes(n_data: int, n_modes: int) -> int:
    """Return the peak bytes of a likelihood; `n_modes` counts all components."""
    return 8 * (3 * n_data**2 + 3 * n_data * n_modes + 2 * n_modes**2)


class PixelLikelihood:
    """Likelihood of bandpowers, given a map.

    Parameters
    ----------
    data : float64 (n_data,)
    noise : float64 (n_data, n_data)
        Covariance of the noise of the data, in the square of their unit; correlations included.
    modes : HarmonicModes
    binning : Binning
        From 2 or more to at most the last multipole of the modes.
    fiducial : Spectra
        The spectra of multipoles outside the bins, and those that `quadratic` starts from.
    templates : float64 (n_data, n_templates), optional
        Of any amplitude, marginalised: the data are projected on what is orthogonal to them.

    Raises
    ------
    ConfigError, DataError
        If parts do not fit together.
    ResourceError
        If the memory does not suffice; before anything is computed.
    """

    def __init__(
        self,
        data: FloatArray,
        noise: FloatArray,
        modes: HarmonicModes,
        binning: Binning,
        fiducial: Spectra,
        templates: FloatArray | None = None,
    ) -> None:
        n = len(data)
        if noise.shape != (n, n) or len(modes.values) != n:
            raise DataError(f"{n} data, noise of {noise.shape}, modes on {len(modes.values)} pixels")
        l_max = int(modes.l[-1])
        if binning.edges[0] < _FIRST or binning.l_max > l_max or fiducial.l_max < l_max:
            raise ConfigError(f"bins and fiducial spectra must lie between l = {_FIRST} and {l_max}")
        needed = likelihood_bytes(n, modes.values[0].size)
        if needed > available_bytes():
            raise ResourceError(
                f"the likelihood of {n} data needs {needed / 1e9:.1f} GB", mend="mask more or lower n_side"
            )
        self.names, self.binning, self.modes = spectra_names(modes.components), binning, modes
        self._fiducial = fiducial.select(self.names, l_max).values
        self._unit = fiducial.unit
        flat = modes.values.reshape(n, -1)
        self._data, self._noise, self._y = data, noise, flat
        self._basis: FloatArray | None = None
        if templates is None:
            return
        with single_blas_thread():
            basis = np.linalg.qr(templates, mode="complete")[0][:, templates.shape[1] :].astype(np.float64)
            self._basis = basis
            self._data, self._noise, self._y = basis.T @ data, basis.T @ noise @ basis, basis.T @ flat

    def spectra(self, powers: FloatArray) -> FloatArray:
        """Return C_l (n_spectra, l_max + 1): bandpowers (n_spectra, n_bins) in bins, fiducial outside."""
        found = self._fiducial.copy()
        inside = slice(int(self.binning.edges[0]), int(self.binning.edges[-1]))
        found[:, inside] = self.binning.unbinned(powers)[:, inside]
        return found

    def value(self, powers: FloatArray) -> float:
        """Return ln L of bandpowers, up to a constant; -inf where the covariance is not positive."""
        from scipy.linalg import solve_triangular

        with single_blas_thread():
            factor = self._factor(self.spectra(powers))
            if factor is None:
                return -np.inf
            white = solve_triangular(factor, self._data, lower=True)
            return float(-0.5 * np.sum(white**2) - np.sum(np.log(factor.diagonal())))

    def slope(self, powers: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return gradient (n,), Fisher matrix (n, n), and that of bins with multipoles.

        n = n_spectra n_bins; the last has shape (n, n_spectra, l_max + 1).

        Raises
        ------
        DataError
            If these powers give no covariance, or the pixels do not tell all bandpowers apart.
        """
        with single_blas_thread():
            filtered, gram = self._filtered(self.spectra(powers), self._data[:, None])
            return (self._gradient(filtered[0], gram), *self._fisher(gram))

    def quadratic(self) -> Bandpowers:
        """Return the quadratic estimate from the fiducial spectra, with Fisher errors and windows.

        Its mean is windows . C_l where multipoles outside the bins have their fiducial powers.
        """
        start = self.binning.binned(self._fiducial)
        gradient, fisher, wide = self.slope(start)
        with single_blas_thread():
            step = np.linalg.solve(fisher, gradient).reshape(start.shape)
            return self._bandpowers(start + step, fisher, wide)

    def estimates(self, data: FloatArray) -> FloatArray:
        """Return the quadratic estimates of many maps with this noise, float64 (n, n_spectra, n_bins).

        Errors and windows are those of `quadratic`; the covariance is factorized once.

        Parameters
        ----------
        data : float64 (n, n_data)
        """
        start = self.binning.binned(self._fiducial)
        with single_blas_thread():
            columns = data.T if self._basis is None else self._basis.T @ data.T
            filtered, gram = self._filtered(self.spectra(start), columns)
            fisher = self._fisher(gram)[0]
            gradients = np.stack([self._gradient(one, gram) for one in filtered], axis=1)
            steps = np.asarray(np.linalg.solve(fisher, gradients).T, np.float64)
        return start + steps.reshape(-1, *start.shape)

    def maximum(self, tolerance: float = 1e-3, most: int = 30) -> Bandpowers:
        """Return the bandpowers of the highest likelihood, with Fisher errors there.

        Newton-Raphson from the fiducial, with steps halved where the likelihood would fall.

        Parameters
        ----------
        tolerance : float
            The last step is below this fraction of every error.
        most : int
            Largest number of steps.

        Raises
        ------
        ConvergenceError
            If that many steps do not suffice.
        """
        with single_blas_thread():
            return self._maximize(tolerance, most)

    def _maximize(self, tolerance: float, most: int) -> Bandpowers:
        powers = self.binning.binned(self._fiducial)
        height = self.value(powers)
        for _ in range(most):
            gradient, fisher, wide = self.slope(powers)
            step = np.linalg.solve(fisher, gradient)
            if np.all(np.abs(step) < tolerance * np.sqrt(np.linalg.inv(fisher).diagonal())):
                return self._bandpowers(powers, fisher, wide)
            for halved in range(12):
                tried = powers + step.reshape(powers.shape) / 2**halved
                found = self.value(tried)
                if found >= height:
                    break
            else:  # nothing is higher but by rounding
                return self._bandpowers(powers, fisher, wide)
            powers, height = tried, found
        raise ConvergenceError(f"no maximum of the likelihood in {most} steps", mend="take wider bins")

    def _factor(self, spectra: FloatArray) -> FloatArray | None:
        from scipy.linalg import LinAlgError, cholesky

        covariance = self._noise.copy()
        by_component = self._y.reshape(len(self._y), len(self.modes.components), -1)
        weighted = np.zeros_like(by_component)
        for (a, b), spectrum in zip(self._pairs, spectra, strict=True):
            weighted[:, a] += by_component[:, b] * spectrum[self.modes.l]
            if a != b:
                weighted[:, b] += by_component[:, a] * spectrum[self.modes.l]
        covariance += weighted.reshape(self._y.shape) @ self._y.T
        try:
            factor: FloatArray = cholesky(covariance, lower=True, overwrite_a=True)
        except LinAlgError:
            return None
        return factor

    def _filtered(self, spectra: FloatArray, data: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return Y' C^-1 d of each column of the data, (n, n_components, n_modes), and Y' C^-1 Y."""
        from scipy.linalg import solve_triangular

        factor = self._factor(spectra)
        if factor is None:
            raise DataError(
                "the covariance of the pixels is not positive", mend="add noise, or change the spectra"
            )
        n_c, n_modes = len(self.modes.components), len(self.modes.l)
        white = solve_triangular(factor, np.column_stack((self._y, data)), lower=True)
        own = white[:, : n_c * n_modes]
        filtered = np.stack([own.T @ column for column in white[:, n_c * n_modes :].T])
        return filtered.reshape(-1, n_c, n_modes), (own.T @ own).reshape(n_c, n_modes, n_c, n_modes)

    @cached_property
    def _pairs(self) -> list[tuple[int, ...]]:
        return [tuple(self.modes.components.index(letter) for letter in name) for name in self.names]

    @cached_property
    def _bands(self) -> FloatArray:
        return self.binning.unbinned(np.eye(self.binning.n), int(self.modes.l[-1]))

    @cached_property
    def _first(self) -> Int64Array:
        return np.searchsorted(self.modes.l, np.arange(_FIRST, self.modes.l[-1] + 1))

    def _gradient(self, y: FloatArray, gram: FloatArray) -> FloatArray:
        gradient = np.zeros((len(self._pairs), int(self.modes.l[-1]) + 1))
        for i, (a, b) in enumerate(self._pairs):
            terms = y[a] * y[b] - gram[a, :, b].diagonal()
            gradient[i, _FIRST:] = np.add.reduceat(terms, self._first) * (0.5 if a == b else 1)
        return (gradient @ self._bands.T).ravel()

    def _fisher(self, gram: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Fisher matrix of bins, and that of bins with multipoles."""
        n, n_l, first = len(self._pairs), int(self.modes.l[-1]) + 1, self._first
        fisher = np.zeros((n, n_l, n, n_l))
        for i, (a, b) in enumerate(self._pairs):
            for j, (c, d) in enumerate(self._pairs):
                product = gram[a, :, c] * gram[b, :, d] + gram[a, :, d] * gram[b, :, c]
                sums = np.add.reduceat(np.add.reduceat(product, first, axis=0), first, axis=1)
                fisher[i, _FIRST:, j, _FIRST:] = sums * (0.5 if a == b else 1) * (0.5 if c == d else 1)
        wide = np.einsum("bl,iljm->ibjm", self._bands, fisher)
        size = n * self.binning.n
        binned = np.einsum("ibjm,cm->ibjc", wide, self._bands).reshape(size, size)
        _require_regular(binned)
        return binned, wide.reshape(size, n, n_l)

    def _bandpowers(self, powers: FloatArray, fisher: FloatArray, wide: FloatArray) -> Bandpowers:
        shape, edges = powers.shape, self.binning.edges
        covariance = np.asarray(np.linalg.inv(fisher), np.float64).reshape(shape * 2)
        windows = np.asarray(np.linalg.solve(fisher, wide.reshape(len(fisher), -1)), np.float64)
        windows = windows.reshape(*shape, *wide.shape[1:])
        windows[..., : edges[0]] = windows[..., edges[-1] :] = 0
        return Bandpowers(powers, self.names, self.binning, self._unit, covariance, windows)


def _require_regular(fisher: FloatArray) -> None:
    """Raise a DataError unless a Fisher matrix tells all bandpowers apart, within rounding."""
    scale = np.sqrt(np.maximum(fisher.diagonal(), np.finfo(float).tiny))
    least = float(np.linalg.eigvalsh(fisher / np.multiply.outer(scale, scale))[0])
    if not least > _LEAST_EIGENVALUE:
        raise DataError(
            f"the pixels do not tell {len(fisher)} bandpowers apart: their Fisher matrix is singular",
            mend="ask for fewer: wider bins, or a smaller last multipole; or map more of the sky",
        )
