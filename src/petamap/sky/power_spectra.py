"""Power spectra in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray


@dataclass(frozen=True)
class Spectra:
    """C_l for l = 0 to l_max.

    Attributes
    ----------
    values : float64 (n_spectra, l_max + 1)
    names : tuple of str
        Two letters of T, E, B each; the first is of the first map.
    unit : str
        ``K_CMB^2``, or whatever the file says; empty where unknown.
    """

    values: FloatArray
    names: tuple[str, ...]
    unit: str = "K_CMB^2"

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or len(self.values) != len(self.names) or not self.values.size:
            raise DataError(f"{self.values.shape} numbers are no spectra {' '.join(self.names)}")

    @property
    def l_max(self) -> int:
        """The last multipole."""
        return int(self.values.shape[1]) - 1

    @property
    def multipoles(self) -> FloatArray:
        """0 to l_max, float64 (l_max + 1,)."""
        return np.arange(self.values.shape[1], dtype=np.float64)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> FloatArray:
        """Return one spectrum, float64 (l_max + 1,).

        Raises
        ------
        DataError
            If there is none of that name.
        """
        if name not in self.names:
            raise DataError(f"has no {name} spectrum, but {', '.join(self.names)}")
        row: FloatArray = self.values[self.names.index(name)]
        return row

    def chosen(self, names: tuple[str, ...], l_max: int | None = None) -> Spectra:
        """Return spectra in this order, up to `l_max`; zero where there are none."""
        stop = len(self.multipoles) if l_max is None else l_max + 1
        if stop > len(self.multipoles):
            raise DataError(f"spectra end at l = {self.l_max}, {stop - 1} is asked for")
        rows = [self[name] if name in self else np.zeros_like(self.values[0]) for name in names]
        return Spectra(np.stack(rows)[:, :stop], names, self.unit)


def d_of_c(l: FloatArray) -> FloatArray:  # noqa: E741
    """Return D_l / C_l = l (l + 1) / 2 pi."""
    factors: FloatArray = l * (l + 1) / (2 * np.pi)
    return factors
