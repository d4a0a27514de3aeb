"""Differences of two maps, or of two sets of spectra: by column, and on each angular scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import BoolArray, FloatArray
from petamap.sky.healpix import Healpix
from petamap.sky.map_units import unit_mend
from petamap.sky.sky_map import SkyMap
from petamap.sky.stokes import Stokes
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.cross_spectra import pseudo_spectra
from petamap.spectra.transforms import weighted_harmonics


@dataclass(frozen=True)
class Difference:
    """Difference of the second from the first, of a column or on a scale.

    Attributes
    ----------
    name : str
        Of the column: ``I``; or of what is on the scale: ``I``, or ``QU`` for both together.
    rms, of_first : float
        Root mean square of the difference, and of the first.
    largest : float
        Largest absolute difference; nan on a scale.
    l_first, l_last : int
        Multipoles of the scale; -1 for all.
    """

    name: str
    rms: float
    of_first: float
    largest: float = math.nan
    l_first: int = -1
    l_last: int = -1

    @property
    def relative(self) -> float:
        """The difference in units of the first: 0 of nothing, inf where the first alone is 0."""
        if self.rms == 0:
            return 0.0
        return self.rms / self.of_first if self.of_first else math.inf

    def within(self, relative: float, absolute: float) -> bool:
        """Return whether the difference is at most `absolute` + `relative` times the first; False if nan."""
        return bool(self.rms <= absolute + relative * self.of_first)


@dataclass(frozen=True)
class MapDifference:
    """Difference of two maps.

    Attributes
    ----------
    columns, scales : tuple of Difference
        Of each column; of I, and of Q and U, in octaves of l: none unless pixels are HEALPix.
    units : tuple of str
        Of the columns.
    n_both, n_first, n_second : int
        Pixels that are compared, and those that one of the maps alone has.
    missing : tuple of str
        Columns that one of the maps alone has.
    assumed : (tuple of str, tuple of str)
        Columns of the first and of the second map that have no unit, and are taken to have the other's.
    """

    columns: tuple[Difference, ...]
    scales: tuple[Difference, ...]
    units: tuple[str, ...]
    n_both: int
    n_first: int
    n_second: int
    missing: tuple[str, ...]
    assumed: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


def compare_maps(
    first: SkyMap, second: SkyMap, mask: FloatArray | None = None, n_threads: int = 1
) -> MapDifference:
    """Return the difference of two maps on the pixels that both have.

    Parameters
    ----------
    first, second : SkyMap
        Of the same pixels, in any order of HEALPix.
    mask : float64 (n_pix,), optional
        In the order of the first map: pixels of 0 are left out.
    n_threads : int

    Raises
    ------
    DataError
        If pixels, frames or units differ, there is no column that both have, or the mask leaves no pixel.
    """
    values = _in_order_of(first, second)
    names = tuple(name for name in first.names if name in second.names)
    if not names:
        what = f"columns {', '.join(first.names)} and {', '.join(second.names)}: none to compare"
        raise DataError(what)
    units = tuple(_unit(first, second, name) for name in names)
    a = first.values[[first.names.index(name) for name in names]]
    b = values[[second.names.index(name) for name in names]]
    inside = np.ones(a.shape[1], bool) if mask is None else mask > 0
    in_first = np.isfinite(a).all(axis=0) & inside
    in_second = np.isfinite(b).all(axis=0) & inside
    both = in_first & in_second
    if mask is not None and not (in_first | in_second).any():
        raise DataError("the mask leaves no pixel of either map", mend="take another mask, or none")
    difference = np.where(both, b - a, 0.0)
    columns = tuple(
        Difference(name, _rms(d[both]), _rms(x[both]), float(np.abs(d).max(initial=0)))
        for name, d, x in zip(names, difference, a, strict=True)
    )
    scales: tuple[Difference, ...] = ()
    if isinstance(first.pixelization, Healpix) and both.any() and Stokes.of_names(names):
        scales = _by_scale(difference, np.where(both, a, 0.0), both, first.pixelization, n_threads)
    missing = tuple(sorted({*first.names} ^ {*second.names}))
    alone = int((in_first & ~both).sum()), int((in_second & ~both).sum())
    assumed = _without_unit(first, names, units), _without_unit(second, names, units)
    return MapDifference(columns, scales, units, int(both.sum()), *alone, missing, assumed)


def _in_order_of(first: SkyMap, second: SkyMap) -> FloatArray:
    """Return the values of the second map in the order of the pixels of the first."""
    one, other = first.pixelization, second.pixelization
    if first.frame and second.frame and first.frame != second.frame:
        raise DataError(f"one map is {first.frame}, the other {second.frame}")
    if isinstance(one, Healpix) and isinstance(other, Healpix):
        if one.n_side != other.n_side:
            raise DataError(
                f"one map has n_side {one.n_side}, the other {other.n_side}",
                mend="bring the finer one to the n_side of the other",
            )
        if one.nest != other.nest:
            return second.values[:, one.reordered(np.arange(one.n_pix))]
        return second.values
    if one.describe() != other.describe() or one.n_pix != other.n_pix:
        raise DataError(f"the maps have other pixels: {one.describe()} and {other.describe()}")
    return second.values


def _unit(first: SkyMap, second: SkyMap, name: str) -> str:
    one = first.units[first.names.index(name)]
    other = second.units[second.names.index(name)]
    if one and other and one != other:
        raise DataError(f"{name} is in {one} in one map, in {other} in the other", mend=unit_mend(other, one))
    return one or other


def _without_unit(one: SkyMap, names: Sequence[str], units: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that have no unit in a map, and one in the other."""
    own = (one.units[one.names.index(name)] for name in names)
    return tuple(name for name, mine, unit in zip(names, own, units, strict=True) if unit and not mine)


def _rms(values: FloatArray) -> float:
    return math.sqrt(float(np.mean(values**2))) if values.size else 0.0


def _by_scale(
    difference: FloatArray, first: FloatArray, both: BoolArray, pixels: Healpix, n_threads: int
) -> tuple[Difference, ...]:
    """Return the differences of I, and of Q and U, in octaves of l.

    The rms on a scale is that of the map of these multipoles, sqrt(sum of (2l + 1) C_l / 4 pi), on the pixels
    compared: C_l is of the map with zeros elsewhere, divided by the part of the sky that these are.
    """
    weights = both.astype(np.float64)
    found = [
        pseudo_spectra(weighted_harmonics(one, pixels, weights, n_threads=n_threads), unit="")
        for one in (difference, first)
    ]
    kinds = {"I": ("TT",), "QU": ("EE", "BB")}
    scales = []
    for name, spectra in kinds.items():
        if spectra[0] not in found[0]:
            continue
        power = [sum(one[key] for key in spectra) / weights.mean() for one in found]
        for l_first, l_last in octaves(found[0].l_max):
            l = np.arange(l_first, l_last + 1)  # noqa: E741
            rms, of_first = (math.sqrt(float(((2 * l + 1) * one[l]).sum()) / (4 * math.pi)) for one in power)
            scales.append(Difference(name, rms, of_first, l_first=l_first, l_last=l_last))
    return tuple(scales)


def octaves(l_max: int) -> list[tuple[int, int]]:
    """Return first and last multipoles of octaves: 0 to 1, 2 to 3, 4 to 7, ... up to `l_max`."""
    found, first = [(0, min(1, l_max))], 2
    while first <= l_max:
        found.append((first, min(2 * first - 1, l_max)))
        first *= 2
    return found


def compare_bandpowers(first: Bandpowers, second: Bandpowers) -> tuple[Difference, ...]:
    """Return the difference of each spectrum that both have, over all bins.

    Raises
    ------
    DataError
        If bins or units differ, or there is no spectrum that both have.
    """
    if first.binning.of_d != second.binning.of_d or list(first.binning.ranges) != list(second.binning.ranges):
        raise DataError("the bins differ", mend="measure both with the same --l-min, --l-max and --width")
    if first.unit != second.unit:
        raise DataError(f"one is in {first.unit}, the other in {second.unit}")
    names = [name for name in first.names if name in second.names]
    if not names:
        raise DataError(f"spectra {' '.join(first.names)} and {' '.join(second.names)}: none to compare")
    pairs = [(name, second[name] - first[name], first[name]) for name in names]
    return tuple(Difference(name, _rms(d), _rms(values), float(np.abs(d).max())) for name, d, values in pairs)
