"""Spectra of the finished realizations of a Monte Carlo, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.spectra.measure import SpectraChoices

PARTS = ("sky", "noise", "both")


@dataclass(frozen=True)
class Realizations:
    """Spectra of the maps of finished realizations.

    Attributes
    ----------
    numbers : int64 (n,)
        Realization numbers.
    names : tuple of str
        Names of the spectra, in the order of `spectra_names`.
    pseudo : mapping of str to float64 (n, n_spectra, l_max + 1)
        Pseudo-spectra of maps of the ``sky``, the ``noise``, or ``both``; one or more of these.
    pixelization : Healpix
    weights : float64 (2, n_pix)
        Weights of I, and of Q and U.
    input : float64 (n, n_spectra, l_max + 1), optional
        Spectra of the a_lm of each simulated sky, without beam and pixel window.
    choices : SpectraChoices
        Bins, beam, pixel window and purification.
    unit : str
    iterations : int64 (n, n_maps), optional
        Iterations of the solver for each map of a realization.
    unfiltered : float64 (n, n_spectra, l_max + 1), optional
        Pseudo-spectra of binned maps of the sky, beside those of maps that are filtered.

    Raises
    ------
    DataError
        If there are no realizations, or shapes do not match.
    """

    numbers: Int64Array
    names: tuple[str, ...]
    pseudo: Mapping[str, FloatArray]
    pixelization: Healpix
    weights: FloatArray
    input: FloatArray | None = None
    choices: SpectraChoices = field(default_factory=SpectraChoices)
    unit: str = "K_CMB^2"
    iterations: Int64Array | None = None
    unfiltered: FloatArray | None = None

    def __post_init__(self) -> None:
        if not self.pseudo or not set(self.pseudo) <= set(PARTS) or not len(self.numbers):
            raise DataError("no realization is finished", mend="let the Monte Carlo go on")
        shape = (self.n, len(self.names), self.l_max + 1)
        others = {"input": self.input, "unfiltered": self.unfiltered}
        spectra = {**self.pseudo, **{what: one for what, one in others.items() if one is not None}}
        for what, values in spectra.items():
            if values.shape != shape:
                raise DataError(f"{what}: {values.shape} are no {shape} realizations, spectra, multipoles")
        if self.iterations is not None and len(self.iterations) != self.n:
            raise DataError(f"iterations of {len(self.iterations)} realizations, not {self.n}")
        if self.weights.shape != (2, self.pixelization.n_pix):
            raise DataError(f"weights {self.weights.shape} are not those of I and of Q, U")

    @property
    def n(self) -> int:
        """Number of realizations."""
        return len(self.numbers)

    @property
    def l_max(self) -> int:
        """Largest multipole."""
        return int(next(iter(self.pseudo.values())).shape[-1]) - 1

    @property
    def main(self) -> FloatArray:
        """Pseudo-spectra of the main part: both, else sky, else noise; (n, n_spectra, l_max + 1)."""
        return next(self.pseudo[part] for part in ("both", "sky", "noise") if part in self.pseudo)

    @property
    def mean_input(self) -> Spectra | None:
        """Mean input spectra; None if the input is not known."""
        return None if self.input is None else Spectra(self.input.mean(axis=0), self.names, self.unit)

    def select(self, index: AnyArray | slice) -> Realizations:
        """Return a selection of the realizations by indices, a mask or a slice."""
        return replace(
            self,
            numbers=self.numbers[index],
            pseudo={part: values[index] for part, values in self.pseudo.items()},
            input=None if self.input is None else self.input[index],
            iterations=None if self.iterations is None else self.iterations[index],
            unfiltered=None if self.unfiltered is None else self.unfiltered[index],
        )
