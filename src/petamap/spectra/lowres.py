"""Low-resolution maps of a run for the pixel likelihood, with their smoothing, noise and mask.

A map is analysed to l = 3 n_side - 1 of the low resolution, multiplied by the cosine window

    w_l = 1 up to l = n_side,  (1 + cos(pi (l - n_side) / 2 n_side)) / 2 up to 3 n_side

(Benabed et al. 2009, section 4.1), and synthesised on the large pixels. White noise goes the same way. There
are more pixels than multipoles, so that a little regularization noise must make the covariance regular: it is
added to the map as well (Planck Collaboration 2020 V, section 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import BoolArray, FloatArray
from petamap.sky.covariance_file import PixelCovariance
from petamap.sky.harmonics import analyse, in_ring_order, multipoles, synthesise
from petamap.sky.healpix import Healpix
from petamap.spectra.beams import map_window
from petamap.spectra.run_maps import RunMaps
from petamap.spectra.transforms import downgrade_means

# Deviation of the noise that is added to downgrade_map maps, in parts of that of the map's own values.
_REGULAR = 1e-3
# A large pixel is data where at least this much of its window was observed.
_OBSERVED = 0.98


@dataclass(frozen=True)
class LowResolutionMap:
    """A low-resolution map.

    Attributes
    ----------
    n_side : int
    values : float64 (n_stokes, n_pix)
        In rings.
    seen : bool (n_stokes, n_pix)
        Which of them are data; their order is that of ``values[seen]``.
    noise : float64 (n_data, n_data)
        Covariance of the noise of the data.
    windows : dict of float64 (l_max + 1,)
        Windows of a_lm of ``T`` and ``P`` in the map.
    """

    n_side: int
    values: FloatArray
    seen: BoolArray
    noise: FloatArray
    windows: dict[str, FloatArray]

    @property
    def data(self) -> FloatArray:
        """The data, float64 (n_data,)."""
        return self.values[self.seen]

    @property
    def templates(self) -> FloatArray | None:
        """Monopole and dipole of I, float64 (n_data, 4); None without I."""
        if len(self.values) == 2:
            return None
        directions = Healpix(self.n_side).directions_of(np.flatnonzero(self.seen[0]))
        found = np.zeros((int(self.seen.sum()), 4))
        found[: len(directions)] = np.column_stack((np.ones(len(directions)), directions))
        return found


def cosine_window(n_side: int) -> FloatArray:
    """Return w_l for l = 0 to 3 n_side - 1."""
    x = np.clip((np.arange(3.0 * n_side) - n_side) / (2 * n_side), 0, 1)
    return 0.5 * (1 + np.cos(np.pi * x))


def native_map(
    maps: RunMaps, mask: FloatArray, fwhm: float, pixel_window: bool, covariance: PixelCovariance | None
) -> LowResolutionMap:
    """Return a low-resolution map unchanged, with the covariance of all its pixels as noise, or white noise.

    Parameters
    ----------
    maps : RunMaps
    mask : float64 (n_pix,)
        In the map's order; data are where it is 1 and the map has values.
    fwhm, pixel_window
        Of the map, as of `map_window`.
    covariance : PixelCovariance, optional

    Raises
    ------
    DataError
        If the covariance is of another map, or there is none at all.
    """
    pixels, n_stokes = maps.pixelization, len(maps.sky.values)
    used = in_ring_order(mask * maps.seen, pixels)[0] > 0.5
    values = in_ring_order(np.nan_to_num(maps.sky.values), pixels)
    if covariance is None:
        noise = np.diag(_variances(maps)[:, used].ravel())
    elif covariance.n_side != pixels.n_side or len(covariance.stokes) != n_stokes:
        has = f"{covariance.stokes} of n_side {covariance.n_side}"
        raise DataError(f"the pixel covariance is of {has}, not of this map", where=str(maps.folder))
    else:
        noise = covariance.submatrix(np.flatnonzero(used))
    windows = map_window(pixels.n_side if pixel_window else None, fwhm, 3 * pixels.n_side - 1)
    return LowResolutionMap(pixels.n_side, values, np.tile(used, (n_stokes, 1)), noise, windows)


def downgrade_map(
    maps: RunMaps,
    mask: FloatArray,
    n_side: int,
    fwhm: float,
    pixel_window: bool,
    normal: FloatArray,
    n_threads: int = 1,
) -> LowResolutionMap:
    """Return a map in larger pixels, with white noise propagated from the run's covariance.

    Parameters
    ----------
    maps : RunMaps
    mask : float64 (n_pix,)
        In the map's order. Large pixels are data where its mean is at least 1/2, and where the window sees
        nothing of pixels that were not observed. What is masked but observed takes part in the smoothing.
    n_side : int
        Less than that of the map.
    fwhm, pixel_window
        Of the map, as of `map_window`.
    normal : float64 (n_stokes n_pix of n_side,)
        Standard normal numbers, for the noise that is added.
    n_threads : int

    Raises
    ------
    ConfigError
        If `n_side` is not less than that of the map.
    DataError
        If the run has no covariance of pixels, or no pixel is left.
    """
    high = maps.pixelization
    if n_side >= high.n_side or n_side & (n_side - 1):
        raise ConfigError(f"n_side {n_side}, of a map of {high.n_side}", mend="choose a smaller power of 2")
    window = cosine_window(n_side)
    smooth = _Smoothing(high.n_side, n_side, window, n_threads)
    observed = smooth.map(in_ring_order(maps.seen, high))[0] > _OBSERVED
    used = observed & (downgrade_means(in_ring_order(mask, high)[0], high.n_side, n_side) >= 0.5)
    if not used.any():
        raise DataError("no pixel is left", mend="a smaller mask, or a larger n_side", where=str(maps.path))
    low = smooth.map(in_ring_order(np.nan_to_num(maps.sky.values), high))
    noise = smooth.noise(_variances(maps), used)
    for rows, _ in _blocks(len(low)):
        deviation = _REGULAR * float(np.std(low[rows, used]))
        low[rows] += deviation * normal.reshape(low.shape)[rows]
        diagonal = np.arange(rows.start * used.sum(), rows.stop * used.sum())
        noise[diagonal, diagonal] += deviation**2
    both = map_window(high.n_side if pixel_window else None, fwhm, 3 * n_side - 1)
    windows = {kind: row * window for kind, row in both.items()}
    return LowResolutionMap(n_side, low, np.tile(used, (len(low), 1)), noise, windows)


def _variances(maps: RunMaps) -> FloatArray:
    """Return white variances in ring order, float64 (n_stokes, n_pix); 0 where unknown."""
    if not maps.variances:
        raise DataError(
            "the run has written no covariance", where=str(maps.folder), mend="products.covariance = true"
        )
    rows = np.concatenate([[row] * len(letters) for letters, row in maps.variances.items()])
    return in_ring_order(np.where(rows > 0, rows, 0.0), maps.pixelization)


class _Smoothing:
    """Operator S from a map in small pixels to one in large pixels; blocks of I and of Q, U."""

    def __init__(self, high: int, low: int, window: FloatArray, n_threads: int) -> None:
        self.high, self.low, self.n_threads = high, low, n_threads
        self.l_max = len(window) - 1
        self._factors = window[multipoles(self.l_max).astype(np.int64)]

    def map(self, values: FloatArray) -> FloatArray:
        """Return S times a map (n_stokes, n_pix)."""
        found = []
        for rows, spin in _blocks(len(values)):
            alm = analyse(values[rows], self.high, self.l_max, spin, n_threads=self.n_threads)
            found.append(synthesise(alm * self._factors, self.low, self.l_max, spin, self.n_threads))
        return np.concatenate(found)

    def noise(self, variances: FloatArray, used: BoolArray) -> FloatArray:
        """Return S diag(variances) S^T between large pixels that are used, (n_data, n_data).

        S^T of a pixel is the window's beam around it: analysis is synthesis transposed, times the area.
        """
        n_stokes, n_used = len(variances), int(used.sum())
        found = np.zeros((n_stokes, n_used, n_stokes, n_used))
        areas = self.low**2 / self.high**2
        for rows, spin in _blocks(n_stokes):
            for stokes in range(rows.start, rows.stop):
                for place, pixel in enumerate(np.flatnonzero(used)):
                    one = np.zeros((rows.stop - rows.start, len(used)))
                    one[stokes - rows.start, pixel] = areas
                    alm = analyse(one, self.low, self.l_max, spin, 0, self.n_threads) * self._factors
                    beam = synthesise(alm, self.high, self.l_max, spin, self.n_threads) * variances[rows]
                    alm = analyse(beam, self.high, self.l_max, spin, 0, self.n_threads) * self._factors
                    back = synthesise(alm, self.low, self.l_max, spin, self.n_threads)
                    found[stokes, place, rows] = back[:, used]
        matrix = found.reshape(n_stokes * n_used, -1)
        return 0.5 * (matrix + matrix.T)


def _blocks(n_stokes: int) -> list[tuple[slice, int]]:
    return {1: [(slice(0, 1), 0)], 2: [(slice(0, 2), 2)], 3: [(slice(0, 1), 0), (slice(1, 3), 2)]}[n_stokes]
