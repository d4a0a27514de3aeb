"""Bins of multipoles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.typing import FloatArray, Int64Array
from petamap.sky.power_spectra import cl_to_dl_factor


@dataclass(frozen=True)
class Binning:
    """Bins [edges[b], edges[b + 1]) of multipoles.

    Parameters
    ----------
    edges : sequence of int
        Increasing; the first at least 0.
    of_d : bool
        Bandpowers are means of D_l = l (l + 1) C_l / 2 pi, taken as flat in a bin, instead of C_l (Hivon et
        al. 2002, equation 20).

    Raises
    ------
    ConfigError
        If `edges` are not increasing, or D_l bins begin at l = 0.
    """

    edges: Int64Array
    of_d: bool = True

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges)
        if edges.ndim != 1 or len(edges) < 2 or edges[0] < 0 or np.any(np.diff(edges) <= 0):
            raise ConfigError(f"no bins of multipoles: {list(edges)}", mend="edges increase from 0 or more")
        if self.of_d and edges[0] == 0:
            raise ConfigError("D_l has no power at l = 0", mend="begin at l = 2, or bin C_l")
        object.__setattr__(self, "edges", edges.astype(np.int64))

    @staticmethod
    def linear(l_min: int, l_max: int, width: int, of_d: bool = True) -> Binning:
        """Return bins of `width` from `l_min` up to at most `l_max`; a remainder is in no bin."""
        if width < 1:
            raise ConfigError(f"a bin of {width} multipoles")
        return Binning(np.arange(l_min, l_max + 2, width), of_d)

    @property
    def n(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @property
    def l_max(self) -> int:
        """The last multipole in a bin."""
        return int(self.edges[-1]) - 1

    @property
    def middle(self) -> FloatArray:
        """The mean multipole of each bin, float64 (n,)."""
        return (self.edges[:-1] + self.edges[1:] - 1) / 2

    @property
    def ranges(self) -> Sequence[tuple[int, int]]:
        """First and last multipole of each bin."""
        return [(int(a), int(b) - 1) for a, b in zip(self.edges[:-1], self.edges[1:], strict=True)]

    def binned(self, values: FloatArray) -> FloatArray:
        """Return bandpowers P C of spectra (..., l_max + 1 or more), float64 (..., n)."""
        first, stop = int(self.edges[0]), int(self.edges[-1])
        inside = values[..., first:stop] * self._factors()
        sums: FloatArray = np.add.reduceat(inside, self.edges[:-1] - first, axis=-1)
        return sums / np.diff(self.edges)

    def spread(self, matrix: FloatArray) -> FloatArray:
        """Return M Q of a matrix (n_l, l_max + 1 or more): its columns summed as flat bands, (n_l, n)."""
        first, stop = int(self.edges[0]), int(self.edges[-1])
        inside = matrix[:, first:stop] / self._factors()
        return np.add.reduceat(inside, self.edges[:-1] - first, axis=1)

    def unbinned(self, values: FloatArray, l_max: int | None = None) -> FloatArray:
        """Return C_l (..., l_max + 1) from bandpowers (..., n): flat in bins, 0 outside."""
        spectrum = np.zeros((*values.shape[:-1], max(self.l_max, l_max or 0) + 1))
        inside = np.repeat(values, np.diff(self.edges), axis=-1) / self._factors()
        spectrum[..., self.edges[0] : self.edges[-1]] = inside
        return spectrum[..., : (self.l_max if l_max is None else l_max) + 1]

    def _factors(self) -> FloatArray:
        l = np.arange(self.edges[0], self.edges[-1], dtype=np.float64)  # noqa: E741
        return cl_to_dl_factor(l) if self.of_d else np.ones_like(l)
