"""Finished realizations of a Monte Carlo, in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from petacomm.base.errors import DataError
from petacomm.base.typing import AnyArray, FloatArray, Int64Array
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.spectra.measure import Choices

PARTS = ("sky", "noise", "both")


@dataclass(frozen=True)
class Realizations:
    """Spectra of the maps of realizations that were finished.

    Attributes
    ----------
    numbers : int64 (n,)
        Which realization each is.
    names : tuple of str
        The spectra, as `spectra_names` gives them.
    pseudo : mapping of str to float64 (n, n_spectra, l_max + 1)
        Pseudo-spectra of maps with the ``sky`` alone, the ``noise`` alone, and ``both``; some of these.
    pixelization : Healpix
    weights : float64 (2, n_pix)
        Of I, and of Q and U, that the maps were seen with.
    input : float64 (n, n_spectra, l_max + 1), optional
        Spectra of the coefficients that each sky was drawn with, before beam and pixels.
    choices : Choices
        Bins, beam, pixel window and purification.
    unit : str
    iterations : int64 (n, n_maps), optional
        What the solver took for each of the maps of a realization.

    Raises
    ------
    DataError
        If there is none, or shapes differ.
    """

    numbers: Int64Array
    names: tuple[str, ...]
    pseudo: Mapping[str, FloatArray]
    pixelization: Healpix
    weights: FloatArray
    input: FloatArray | None = None
    choices: Choices = field(default_factory=Choices)
    unit: str = "K_CMB^2"
    iterations: Int64Array | None = None

    def __post_init__(self) -> None:
        if not self.pseudo or not set(self.pseudo) <= set(PARTS) or not len(self.numbers):
            raise DataError("no realization is finished", mend="let the Monte Carlo go on")
        shape = (self.n, len(self.names), self.l_max + 1)
        spectra = {**self.pseudo, **({} if self.input is None else {"input": self.input})}
        for what, found in spectra.items():
            if found.shape != shape:
                raise DataError(f"{what}: {found.shape} are no {shape} realizations, spectra, multipoles")
        if self.iterations is not None and len(self.iterations) != self.n:
            raise DataError(f"iterations of {len(self.iterations)} realizations, not {self.n}")
        if self.weights.shape != (2, self.pixelization.n_pix):
            raise DataError(f"weights {self.weights.shape} are not those of I and of Q, U")

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.numbers)

    @property
    def l_max(self) -> int:
        """The last multipole."""
        return int(next(iter(self.pseudo.values())).shape[-1]) - 1

    @property
    def main(self) -> FloatArray:
        """The part that is most like data: both, else sky, else noise; (n, n_spectra, l_max + 1)."""
        return next(self.pseudo[part] for part in ("both", "sky", "noise") if part in self.pseudo)

    @property
    def mean_input(self) -> Spectra | None:
        """The mean spectra of the skies drawn."""
        return None if self.input is None else Spectra(self.input.mean(axis=0), self.names, self.unit)

    def chosen(self, places: AnyArray | slice) -> Realizations:
        """Return some of them: indices, a mask or a slice."""
        return replace(
            self,
            numbers=self.numbers[places],
            pseudo={part: values[places] for part, values in self.pseudo.items()},
            input=None if self.input is None else self.input[places],
            iterations=None if self.iterations is None else self.iterations[places],
        )
