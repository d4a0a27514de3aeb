"""Spectra options of a run configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from petamap.data.config import SpectraOptions
from petamap.spectra.measure import SpectraChoices


def spectra_choices(
    options: SpectraOptions, folder: Path, fwhm: float = 0.0, n_threads: int = 1
) -> SpectraChoices:
    """Return the choices of the section ``[spectra]``; `fwhm`, radians, is the default beam."""
    # the options allow no other words than the choices
    words: dict[str, Any] = {"weights": options.weights, "kind": options.apodization}
    return SpectraChoices(
        **words,
        mask=None if options.mask is None else folder / options.mask,
        threshold=options.threshold,
        apodization=options.apodize,
        l_min=options.l_min,
        l_max=options.l_max,
        width=options.width,
        of_d=options.power == "D",
        fwhm=fwhm if options.fwhm is None else options.fwhm,
        pixel_window=options.pixel_window,
        keep_dipole=options.keep_dipole,
        pure="" if options.purify == "none" else options.purify,
        n_threads=n_threads,
    )
