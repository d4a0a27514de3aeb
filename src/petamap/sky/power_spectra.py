"""Angular power spectra in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.arguments import real_array
from petacomm.base.display import Displayed, some_names
from petacomm.base.errors import DataError
from petacomm.base.typing import FloatArray


@dataclass(frozen=True, repr=False)
class Spectra(Displayed):
    """Angular power spectra C_l for l = 0 to l_max.

    Parameters
    ----------
    values : float64 (n_spectra, l_max + 1)
        Spectra, one per row.
    names : tuple of str
        Two letters of T, E, B for each spectrum; the first letter refers to the first map.
    unit : str
        ``K_CMB^2``, or the unit given in the file; empty if unknown.

    Raises
    ------
    DataError
        If shapes do not match.

    Examples
    --------
    >>> import numpy as np
    >>> import petamap
    >>> spectra = petamap.Spectra(np.ones((2, 11)), ("TT", "EE"))
    >>> spectra.l_max, "TE" in spectra
    (10, False)
    >>> float(spectra["EE"].sum())
    11.0
    """

    values: FloatArray
    names: tuple[str, ...]
    unit: str = "K_CMB^2"

    def _facts(self) -> dict[str, object]:
        return {"names": some_names(self.names, 6), "l_max": self.l_max, "unit": self.unit}

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", real_array(self.values, "spectra"))
        if self.values.ndim != 2 or len(self.values) != len(self.names) or not self.values.size:
            raise DataError(f"{self.values.shape} numbers are no spectra {' '.join(self.names)}")

    @property
    def l_max(self) -> int:
        """Largest multipole."""
        return int(self.values.shape[1]) - 1

    @property
    def multipoles(self) -> FloatArray:
        """Multipoles 0 to l_max, float64 (l_max + 1,)."""
        return np.arange(self.values.shape[1], dtype=np.float64)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> FloatArray:
        """Return the spectrum of that name, float64 (l_max + 1,).

        Raises
        ------
        DataError
            If there is no spectrum of that name.
        """
        if name not in self.names:
            raise DataError(f"has no {name} spectrum, but {', '.join(self.names)}")
        row: FloatArray = self.values[self.names.index(name)]
        return row

    def select(self, names: tuple[str, ...], l_max: int | None = None) -> Spectra:
        """Return the spectra `names`, in this order, up to `l_max`; missing spectra are zero.

        Parameters
        ----------
        names : tuple of str
            Names of the spectra.
        l_max : int, optional
            Largest multipole; by default that of the spectra.

        Returns
        -------
        Spectra

        Raises
        ------
        DataError
            If the spectra end before `l_max`.
        """
        stop = len(self.multipoles) if l_max is None else l_max + 1
        if stop > len(self.multipoles):
            raise DataError(f"spectra end at l = {self.l_max}, {stop - 1} is asked for")
        rows = [self[name] if name in self else np.zeros_like(self.values[0]) for name in names]
        return Spectra(np.stack(rows)[:, :stop], names, self.unit)


def cl_to_dl_factor(l: FloatArray) -> FloatArray:  # noqa: E741
    """Return the factor from C_l to D_l: l (l + 1) / 2 pi."""
    return l * (l + 1) / (2 * np.pi)
