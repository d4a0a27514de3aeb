"""Auto- and cross-spectra of coefficients."""

from __future__ import annotations

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import ComplexArray, FloatArray, Int64Array
from petamap.sky.power_spectra import Spectra
from petamap.sky.ring_distribution import RingDistribution
from petamap.spectra.transforms import Harmonics

_AUTO = ("TT", "EE", "BB", "TE", "EB", "TB")
_CROSS = ("TT", "EE", "BB", "TE", "EB", "TB", "ET", "BE", "BT")


def spectra_names(first: str, second: str | None = None) -> tuple[str, ...]:
    """Return the names of the spectra of one map, TT EE BB TE EB TB, or of two, ET BE BT as well.

    The first letter is of the first map. In a cross-spectrum TE and ET are two measurements of one quantity.

    Parameters
    ----------
    first, second : str
        The components, as ``TEB``; no second for an auto-spectrum.
    """
    known = _AUTO if second is None else _CROSS
    return tuple(name for name in known if name[0] in first and name[1] in (second or first))


def pseudo_spectra(
    first: Harmonics,
    second: Harmonics | None = None,
    unit: str = "K_CMB^2",
    rings: RingDistribution | None = None,
) -> Spectra:
    """Return pseudo-spectra of weighted maps: C_l = sum over m of Re x_lm y_lm* / (2l + 1).

    Parameters
    ----------
    first : Harmonics
    second : Harmonics, optional
        For cross-spectra.
    unit : str
    rings : RingDistribution, optional
        To whose ranks orders of the coefficients are dealt: all get the spectra. Collective.

    Raises
    ------
    DataError
        If the two end at different l_max.
    """
    other = first if second is None else second
    if first.l_max != other.l_max:
        raise DataError(f"a_lm to l_max {first.l_max} and {other.l_max} have no cross-spectrum")
    names = spectra_names(first.components, None if second is None else second.components)
    l_max, one = first.l_max, first.alm if rings is None else rings.to_multipoles(first.alm, first.l_max)
    two = one if second is None else other.alm if rings is None else rings.to_multipoles(other.alm, l_max)
    own = np.arange(l_max + 1) if rings is None else rings.orders(l_max)
    rows = np.stack([
        _sums_over_orders(one[first.components.index(name[0])], two[other.components.index(name[1])], own)
        for name in names
    ])  # fmt: skip
    return Spectra(rows if rings is None else rings.gather_multipoles(rows, l_max), names, unit)


def window_spectra(first: Harmonics, second: Harmonics | None = None) -> dict[str, FloatArray]:
    """Return the spectra of the weights, for each kind of pair: ``TT``, ``TP``, ``PT``, ``PP``.

    P stands for E and B; kinds that the maps lack are left out. Each is float64 (l_max_weights + 1,).

    Raises
    ------
    DataError
        If the two end at different multipoles.
    """
    other = first if second is None else second
    if first.l_max_weights != other.l_max_weights:
        raise DataError("weights to different l_max have no cross-spectrum")
    mine, theirs = ({"TP"[c != "T"]: i for i, c in enumerate(part.components)} for part in (first, other))
    return {
        a + b: cross_spectrum(first.weights[i], other.weights[j], first.l_max_weights)
        for a, i in mine.items()
        for b, j in theirs.items()
    }


def cross_spectrum(first: ComplexArray, second: ComplexArray, l_max: int) -> FloatArray:
    """Return the cross-spectrum of a_lm in m-major order, float64 (l_max + 1,)."""
    return _sums_over_orders(first, second, np.arange(l_max + 1))


def _sums_over_orders(first: ComplexArray, second: ComplexArray, multipoles: Int64Array) -> FloatArray:
    """Return the cross-spectrum at increasing multipoles, of a_lm of these in m-major order, float64 (n,)."""
    products = first.real * second.real + first.imag * second.imag
    spectrum = products[: len(multipoles)].copy()
    start = len(multipoles)
    for m in range(1, int(multipoles[-1]) + 1 if start else 0):
        skipped = int(np.searchsorted(multipoles, m))
        stop = start + len(multipoles) - skipped
        spectrum[skipped:] += 2 * products[start:stop]
        start = stop
    return spectrum / (2 * multipoles + 1)
