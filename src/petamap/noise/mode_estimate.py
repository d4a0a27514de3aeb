"""Couplings and spectra of the noise that detectors share, measured in their streams.

Where detectors share N modes, the cross spectra of their streams are, in each bin b of frequency,

    R_b = C K_b C^T + S_b,    K_b and S_b diagonal,

the model of factor analysis. Principal components of the band in which they stand out most are where its
couplings C are looked for; the expectation-maximization algorithm fits them to all bins (Rubin & Thayer 1982,
Psychometrika 47, 69; by bins of frequency as in SMICA, Delabrouille, Cardoso & Patanchon 2003, MNRAS 346,
1089). Spectra are then measured at full resolution, in streams: amplitudes z = A x of the modes, and what is
left of each detector, e = (1 - B A) x (`petamap.noise.common_modes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import BoolArray, ComplexArray, FloatArray, Int64Array
from petamap.noise.common_modes import CommonNoise, orthonormal_modes
from petamap.noise.model import EstimatedPsd, NoiseModel, TabulatedPsd
from petamap.noise.psd import noise_psd
from petamap.noise.welch import detrended, fill_gaps, hann

_FIRST = 4  # lowest line that is used: those below see little but window and trend
_LINES = 32, 256  # fewest and most lines of a bin
_FLOOR = 1e-3  # of the power of a detector is its own in each bin, at least
_ITERATIONS, _SETTLED = 300, 1e-5
_LEAST = 0.1  # of what amplitudes leave of a detector is its own noise, at least
# Share of the weight that detectors with good samples have at an instant where amplitudes are known.
_KNOWN = 0.5


@dataclass(frozen=True, eq=False)
class ModeBasis:
    """Amplitudes z = A x of modes at an instant, of which B z is the part in the streams.

    Attributes
    ----------
    basis : float64 (n_det, n_modes)
        U, orthonormal columns.
    sigmas : float64 (n_det,)
        W^-1/2, K: A = U^T W^1/2 and B = W^-1/2 U.
    """

    basis: FloatArray
    sigmas: FloatArray

    @property
    def couplings(self) -> FloatArray:
        """B, (n_det, n_modes), K."""
        return self.basis * self.sigmas[:, None]

    @property
    def n_modes(self) -> int:
        """Number of modes."""
        return int(self.basis.shape[1])


@dataclass(frozen=True, eq=False)
class EstimatedModes:
    """Common modes of an interval, as measured.

    Attributes
    ----------
    basis : ModeBasis
    amplitudes : tuple of TabulatedPsd
        Spectrum of each amplitude, without unit.
    """

    basis: ModeBasis
    amplitudes: tuple[TabulatedPsd, ...]

    def with_spectra(self, change: Callable[[TabulatedPsd], TabulatedPsd]) -> EstimatedModes:
        """Return the modes with each spectrum changed."""
        return replace(self, amplitudes=tuple(change(psd) for psd in self.amplitudes))

    def common_noise(self, models: Sequence[NoiseModel], interval: int) -> tuple[CommonNoise, ...]:
        """Return what detectors share, of models of their own noise: nothing of amplitudes is left to it."""
        shared = []
        for psd, column, couplings in zip(
            self.amplitudes, self.basis.basis.T, self.basis.couplings.T, strict=True
        ):
            own = np.zeros(len(psd.values))
            for model, factor in zip(models, column / self.basis.sigmas, strict=True):
                assert isinstance(model, TabulatedPsd)
                if factor:
                    own += factor**2 * noise_psd(model, psd.frequencies)
            values = np.maximum(psd.values - own, _FLOOR * psd.values)
            shared.append(CommonNoise(couplings, TabulatedPsd(psd.frequencies, values), interval))
        return tuple(shared)


class ModeStreams:
    """Amplitudes of modes along time, from the streams of detectors, one after the other.

    Where a detector has no good sample, the others give the amplitudes: weighted least squares.

    Parameters
    ----------
    basis : ModeBasis
    shape : tuple of int
        Of the streams of a detector, (n, n_samp).
    """

    def __init__(self, basis: ModeBasis, shape: tuple[int, int]) -> None:
        self._basis, n = basis, basis.n_modes
        self._sums = np.zeros((n, *shape))
        self._missing = np.zeros((n, n, shape[1]))

    def add(self, detector: int, samples: FloatArray, good: BoolArray) -> None:
        """Add a detector's streams, (n, n_samp), and the mask of its good samples, (n_samp,)."""
        row = self._basis.basis[detector]
        for total, factor in zip(self._sums, row / self._basis.sigmas[detector], strict=True):
            total += factor * np.where(good, samples, 0)
        self._missing += np.multiply.outer(np.multiply.outer(row, row), ~good)

    def amplitudes(self) -> tuple[FloatArray, BoolArray]:
        """Return z, (n_modes, n, n_samp), and where it is known, (n_samp,)."""
        n = len(self._sums)
        some = np.flatnonzero(np.any(self._missing != 0, axis=(0, 1)))
        known = np.ones(self._sums.shape[2], np.bool_)
        if len(some):
            normal = np.eye(n) - np.moveaxis(self._missing[:, :, some], 2, 0)
            enough = np.linalg.eigvalsh(normal)[:, 0] > _KNOWN
            known[some[~enough]] = False
            some, normal = some[enough], normal[enough]
            sums = np.moveaxis(self._sums[:, :, some], 2, 0)
            self._sums[:, :, some] = np.moveaxis(np.linalg.solve(normal, sums), 0, 2)
        return self._sums, known

    def subtract(self, detector: int, amplitudes: FloatArray, samples: FloatArray) -> None:
        """Subtract B z from a detector's streams, (n, n_samp)."""
        for amplitude, factor in zip(amplitudes, self._basis.couplings[detector], strict=True):
            samples -= factor * amplitude


def are_distinct(n_modes: int, n_det: int) -> bool:
    """Return whether so many modes can be told from the noise of so many detectors.

    Couplings, spectra of modes and of detectors are no more than the cross spectra of detectors if
    (n_det - n_modes)^2 >= n_det + n_modes (Lawley & Maxwell 1971, Factor Analysis, ch. 2).
    """
    return n_det > n_modes and (n_det - n_modes) ** 2 >= n_det + n_modes


def check_n_modes(n_modes: int, n_det: int, where: str) -> None:
    """Raise ConfigError if so many modes cannot be told from the noise of so many detectors."""
    if not are_distinct(n_modes, n_det):
        raise ConfigError(
            f"{n_modes} mode{'s' * (n_modes > 1)} of common noise cannot be told from the noise of "
            f"{n_det} detector{'s' * (n_det > 1)}",
            where=where,
            mend="lower noise.n_modes",
        )


def spectral_lines(samples: FloatArray, good: BoolArray, sample_rate: float) -> ComplexArray:
    """Return a Fourier transform of a stream at the lines of `line_bins`, complex128 (n_line,), K Hz^-1/2.

    The mean square of a line is the one-sided power there. Gaps are filled and a linear trend is removed.
    """
    from scipy.fft import rfft

    n = len(samples)
    window = hann(n)
    transform = rfft(window * detrended(fill_gaps(samples, good)))[line_bins(n)[0]]
    return np.asarray(transform * np.sqrt(2 / sample_rate / np.sum(window[good] ** 2)), np.complex128)


def line_bins(n_samp: int) -> tuple[Int64Array, Int64Array]:
    """Return the lines of a transform of so many samples that are used, (n_line,), and where bins begin.

    Bins are octaves, or wider; in those with many lines, some of them are used, evenly.
    """
    last = max(n_samp // 2, _FIRST + 1)
    edges = [_FIRST]
    while 2 * edges[-1] < last:
        edges.append(max(2 * edges[-1], edges[-1] + _LINES[0]))
    edges[-1] = last
    lines = [np.arange(a, b)[:: max(1, -(-(b - a) // _LINES[1]))] for a, b in pairwise(edges)]
    lengths = [len(one) for one in lines]
    return np.concatenate(lines), np.cumsum([0, *lengths])


def fit_modes(lines: ComplexArray, bins: Int64Array, n_modes: int) -> ModeBasis:
    """Return the amplitudes of the modes that lines of all detectors show.

    Parameters
    ----------
    lines : complex128 (n_det, n_line)
        Of `spectral_lines`; zero for a detector that has none, which has no coupling.
    bins : int64 (n_bin + 1,)
        Where bins begin, and the end.
    n_modes : int
        None are found if those detectors are too few to tell them from their own noise.
    """
    some = np.flatnonzero(np.any(lines != 0, axis=1))
    if not are_distinct(n_modes, len(some)):
        return ModeBasis(np.zeros((len(lines), 0)), np.ones(len(lines)))
    fit = _Fit(_whitened(lines[some], bins), bins, n_modes)
    fit.run()
    # The weights of the detectors are those of their own noise at the highest frequencies.
    basis, sigmas = np.zeros((len(lines), n_modes)), np.ones(len(lines))
    sigmas[some] = np.sqrt(fit.own[:, -1])
    basis[some] = orthonormal_modes(fit.couplings / sigmas[some, None], fit.powers.mean(axis=1))
    return ModeBasis(basis, sigmas)


def _whitened(lines: ComplexArray, bins: Int64Array) -> ComplexArray:
    """Return lines over the mean size of those of all detectors at their frequencies.

    Within a bin of a steep spectrum, the lowest lines would be the only ones that count. What all detectors
    are divided by changes no coupling.
    """
    power = np.mean(np.abs(lines) ** 2, axis=0)
    edges = [0]
    while edges[-1] < len(power):
        edges.append(edges[-1] + max(8, edges[-1] // 8))
    edges[-1] = len(power)
    middles = [0.5 * (a + b - 1) for a, b in pairwise(edges)]
    means = [power[a:b].mean() for a, b in pairwise(edges)]
    level = np.exp(np.interp(np.arange(len(power)), middles, np.log(means)))
    return lines / np.sqrt(level)


class _Fit:
    """The factor analysis of lines of detectors, (n_det, n_line), in bins."""

    def __init__(self, lines: ComplexArray, bins: Int64Array, n_modes: int) -> None:
        self.lines, self._parts = lines, [slice(a, b) for a, b in pairwise(bins)]
        powers = np.abs(lines) ** 2
        self._totals = np.stack([powers[:, part].mean(axis=1) for part in self._parts], axis=1)
        self.couplings = self._principal_components(bins, n_modes)
        self.own = self._totals / 2
        sizes = np.einsum("dm,dm->m", self.couplings, self.couplings)
        self.powers = np.multiply.outer(1 / sizes, self._totals.sum(axis=0) / 2)

    def _principal_components(self, bins: Int64Array, n_modes: int) -> FloatArray:
        """Return the largest principal components of the band from below in which they stand out most."""
        widths = np.repeat(self._totals, np.diff(bins), axis=1)
        scaled = self.lines / np.sqrt(widths)
        best, found, total = -np.inf, np.zeros(0), np.zeros((len(scaled), len(scaled)))
        for part in self._parts:
            total += np.einsum("dl,el->de", scaled[:, part], scaled[:, part].conj()).real
            values, vectors = np.linalg.eigh(total / part.stop)
            # white noise alone has eigenvalues within 2 sqrt(n_det / n_line) of 1
            excess = (values[-n_modes] - 1) * np.sqrt(part.stop)
            if excess > best:
                best, found = excess, vectors[:, -n_modes:]
        return np.asarray(found * np.sqrt(self._totals.mean(axis=1))[:, None])

    def run(self) -> None:
        """Fit couplings, (n_det, n_modes), `powers`, (n_modes, n_bin), and `own` noise, (n_det, n_bin)."""
        for _ in range(_ITERATIONS):
            before = self.couplings * np.sqrt(self.powers.mean(axis=1))
            self._step()
            after = self.couplings * np.sqrt(self.powers.mean(axis=1))
            if np.abs(after - before).max() < _SETTLED * np.abs(after).max():
                break

    def _step(self) -> None:
        """Take one step of expectation and maximization."""
        n_det, n_modes = self.couplings.shape
        cross = np.zeros((n_det, n_modes))  # sum of x z* / S of each detector
        normal = np.zeros((n_det, n_modes, n_modes))
        moments = []
        for number, part in enumerate(self._parts):
            x, weights = self.lines[:, part], 1 / self.own[:, number]
            z, covariance = self._expected(x, weights, self.powers[:, number])
            second = np.einsum("ml,nl->mn", z, z.conj()).real + x.shape[1] * covariance
            products = np.einsum("dl,ml->dm", x, z.conj()).real
            cross += weights[:, None] * products
            normal += weights[:, None, None] * second
            moments.append((second / x.shape[1], products / x.shape[1]))
        c = np.asarray(np.linalg.solve(normal, cross[:, :, None])[:, :, 0], np.float64)
        self.couplings = c
        for number, (second, product) in enumerate(moments):
            self.powers[:, number] = np.diagonal(second)
            explained = 2 * np.einsum("dm,dm->d", c, product) - np.einsum("dm,mn,dn->d", c, second, c)
            total = self._totals[:, number]
            self.own[:, number] = np.maximum(total - explained, _FLOOR * total)

    def _expected(
        self, x: ComplexArray, weights: FloatArray, powers: FloatArray
    ) -> tuple[ComplexArray, FloatArray]:
        """Return expected amplitudes of lines, (n_modes, n_line), and their covariance."""
        weighted = self.couplings * weights[:, None]
        covariance = np.linalg.inv(np.einsum("dm,dn->mn", weighted, self.couplings) + np.diag(1 / powers))
        return np.einsum("mn,nl->ml", covariance, np.einsum("dn,dl->nl", weighted, x)), covariance


def detector_spectra(basis: ModeBasis, left: Sequence[EstimatedPsd | None]) -> list[EstimatedPsd | None]:
    """Return the spectra of detectors alone from those of e = (1 - B A) x, what their amplitudes leave.

    The noise of other detectors is in amplitudes, and is subtracted with them: e_d has the spectrum
    sum_d' M_dd' S_d' with M the squared elements of 1 - B A.

    Parameters
    ----------
    basis : ModeBasis
    left : sequence of EstimatedPsd or None
        Of each detector; None of one that has none, which has no coupling.
    """
    known = [number for number, psd in enumerate(left) if psd is not None]
    share = np.einsum("dm,em->de", basis.couplings, basis.basis / basis.sigmas[:, None])
    mixing = ((np.eye(len(left)) - share) ** 2)[np.ix_(known, known)]
    found: list[EstimatedPsd | None] = list(left)
    solved: dict[bytes, FloatArray] = {}  # spectra at the frequencies of a detector, which many have
    for row, number in enumerate(known):
        one = left[number]
        assert one is not None
        key = one.frequencies.tobytes()
        if key not in solved:
            powers = [noise_psd(psd, one.frequencies) for psd in left if psd is not None]
            solved[key] = np.linalg.solve(mixing, np.array(powers))
        # what is left of one that is hardly more than a mode says little of its own noise
        found[number] = replace(one, values=np.maximum(solved[key][row], _LEAST * one.values))
    return found
