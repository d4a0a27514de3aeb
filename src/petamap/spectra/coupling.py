"""Mode coupling by weights: the matrices of MASTER."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from petacomm.base.typing import FloatArray
from petamap.spectra import _spectra
from petamap.spectra.cross_spectra import window_spectra
from petamap.spectra.transforms import Harmonics

WINDOWS = ("TT", "TP", "PT", "PP")
KINDS = ("00", "02", "20", "++", "--")
PURE_KINDS = ("pp", "2p", "0p", "p0")
_PART = 1 << 28  # terms of the sums that one call of the kernel makes: half a second of a core

# pseudo-spectrum from true spectra: which matrix, with which sign (Brown, Castro & Taylor 2005, equation 16)
_MIXING: dict[str, dict[str, tuple[str, float]]] = {
    "TT": {"TT": ("00", 1.0)},
    "TE": {"TE": ("02", 1.0)},
    "TB": {"TB": ("02", 1.0)},
    "ET": {"ET": ("20", 1.0)},
    "BT": {"BT": ("20", 1.0)},
    "EE": {"EE": ("++", 1.0), "BB": ("--", 1.0)},
    "BB": {"EE": ("--", 1.0), "BB": ("++", 1.0)},
    "EB": {"EB": ("++", 1.0), "BE": ("--", -1.0)},
    "BE": {"EB": ("--", -1.0), "BE": ("++", 1.0)},
}


@dataclass(frozen=True)
class Coupling:
    """Mode-coupling matrices from true spectra to pseudo-spectra.

    Attributes
    ----------
    matrices : float64 (5 or 9, l_max + 1, l_max + 1)
        In the order of KINDS, and PURE_KINDS where a map is pure: the first index is l of the
        pseudo-spectrum. 0 where a window is lacking.
    pure : (str, str)
        The components of first and second map that are pure: none, ``B`` or ``EB``.
    """

    matrices: FloatArray
    pure: tuple[str, str] = ("", "")

    @property
    def l_max(self) -> int:
        """Last multipole of the matrices."""
        return int(self.matrices.shape[1]) - 1

    def block(self, pseudo: str, true: str, names: tuple[str, ...]) -> FloatArray | None:
        """Return the coupling of spectrum `true` to `pseudo`, (l_max + 1, l_max + 1); None where it is zero.

        Parameters
        ----------
        pseudo, true : str
        names : tuple of str
            All spectra: where there is an EB and no BE, EB is both.
        """
        parts = []
        for name, (kind, sign) in self._mixing(pseudo).items():
            if name == true or (name[::-1] == true and name not in names):
                parts.append(sign * self.matrices[(KINDS + PURE_KINDS).index(kind)])
        return sum(parts[1:], parts[0]) if parts else None

    def _mixing(self, pseudo: str) -> dict[str, tuple[str, float]]:
        sides = "".join(
            "p" if letter in pure else "02"[letter != "T"]
            for letter, pure in zip(pseudo, self.pure, strict=True)
        )
        if "p" not in sides:
            return _MIXING[pseudo]
        return {pseudo: ("2p" if sides == "p2" else sides, 1.0)}


def mode_coupling(
    first: Harmonics, second: Harmonics | None = None, l_max: int | None = None, n_threads: int = 1
) -> Coupling:
    """Return the coupling of the weights that maps were seen with; up to their `l_max` by default."""
    windows = window_spectra(first, second)
    pure = (first.pure, first.pure if second is None else second.pure)
    return coupling_of_windows(windows, first.l_max if l_max is None else l_max, n_threads, pure)


def coupling_of_windows(
    windows: Mapping[str, FloatArray], l_max: int, n_threads: int = 1, pure: tuple[str, str] = ("", "")
) -> Coupling:
    """Return M_ll' = (2 l' + 1) / 4 pi sum over l3 of (2 l3 + 1) W_l3 J_s J_s', J_s = (l l' l3; s -s 0).

    s = 0 for T and 2 for E, B; ``++`` and ``--`` are the sums over l + l' + l3 even and odd (Hivon et al.
    2002, equation A31; Brown, Castro & Taylor 2005, appendix A). The symbols are computed in closed form; no
    bit depends on threads.

    A pure component has J_0 times N_l' / N_l, N_l = sqrt((l + 2)! / (l - 2)!), instead of J_2: its
    pseudo-coefficients are those of a weighted scalar field, with nothing of odd l + l' + l3.

    Parameters
    ----------
    windows : mapping of str to float64 (n,)
        Spectra of the weights, by the kinds WINDOWS.
    l_max, n_threads : int
    pure : (str, str)
        As of `Coupling`.
    """
    plain = _matrices(windows, l_max, n_threads)
    if not any(pure):
        return Coupling(plain)
    both = _matrices(dict.fromkeys(("TT", "TP"), windows["PP"]), l_max, n_threads)[:2]
    sides = [
        _matrices({"TT": windows[kind]}, l_max, n_threads)[0] if kind in windows else np.zeros_like(plain[0])
        for kind in ("TP", "PT")
    ]
    factor = spin_factor(np.arange(l_max + 1.0))
    inverse = np.divide(1, factor, out=np.zeros_like(factor), where=factor > 0)
    ratio = np.multiply.outer(inverse, factor)
    rows = np.stack((both[0] * ratio, both[1], *sides)) * ratio
    return Coupling(np.concatenate((plain, rows)), pure)


def _matrices(windows: Mapping[str, FloatArray], l_max: int, n_threads: int) -> FloatArray:
    size = max(len(window) for window in windows.values())
    padded = np.zeros((len(WINDOWS), size))
    for row, kind in zip(padded, WINDOWS, strict=True):
        if kind in windows:
            row[: len(windows[kind])] = windows[kind]
    padded *= (2 * np.arange(size) + 1) / (4 * np.pi)
    matrices = np.empty((len(KINDS), l_max + 1, l_max + 1))
    central = _central_binomials(2 * l_max)
    for first, stop in _parts(l_max):  # signals are raised between two
        _spectra.coupling(padded, central, first, stop, matrices, n_threads)
    matrices *= 2 * np.arange(l_max + 1) + 1
    return matrices


def _parts(l_max: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of multipoles whose rows, of as many terms as the square of each, are equal work."""
    n_parts = -(-((l_max + 1) ** 3) // (3 * _PART))
    edges = np.rint((l_max + 1) * (np.arange(n_parts + 1) / n_parts) ** (1 / 3)).astype(int)
    return pairwise(np.unique(edges).tolist())


def spin_factor(l: FloatArray) -> FloatArray:  # noqa: E741
    """Return sqrt((l + 2)! / (l - 2)!), 0 below l = 2."""
    return np.sqrt(np.maximum((l + 2) * (l + 1) * l * (l - 1), 0))


def _central_binomials(last: int) -> FloatArray:
    """Return (2n)! / (4^n n!^2) for n = 0 to `last`."""
    n = np.arange(1, last + 1, dtype=np.longdouble)
    return np.concatenate(([1.0], np.cumprod((2 * n - 1) / (2 * n)))).astype(np.float64)
