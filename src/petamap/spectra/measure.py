"""Bandpowers of the maps of a run by MASTER."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from petacomm.base.arguments import require_integer, require_real
from petacomm.base.display import Displayed
from petacomm.base.errors import ConfigError, DataError
from petacomm.base.typing import FloatArray
from petamap.sky.harmonics import ITERATIONS
from petamap.sky.healpix import Healpix
from petamap.sky.power_spectra import Spectra
from petamap.sky.sky_map import SkyMap
from petamap.spectra.bandpowers import Bandpowers
from petamap.spectra.beams import map_window, window_products
from petamap.spectra.coupling import Coupling, mode_coupling
from petamap.spectra.cross_spectra import pseudo_spectra, spectra_names
from petamap.spectra.dipole_fit import DipoleFit, subtract_dipole_fit
from petamap.spectra.gaussian_errors import knox_errors
from petamap.spectra.masks import Apodization, apodize, effective_fractions, subtract_monopole
from petamap.spectra.master import MasterEstimator
from petamap.spectra.multipole_bins import Binning
from petamap.spectra.purification import last_amplified_multipole, pure_noise, purify
from petamap.spectra.run_maps import RunMaps, Weighting, read_mask
from petamap.spectra.transforms import Harmonics, weighted_harmonics

# Width of edges in pixels that keeps E out of pure B to 1e-4 (docs/petamap/spectra.md).
_PIXELS_OF_EDGES = 10.5
_LARGEST, _MOST_ITERATIONS = 2**20, 1000  # multipole; residuals that are analysed


@dataclass(frozen=True)
class SpectraChoices:
    """Choices of how spectra are measured.

    Attributes
    ----------
    weights : {"auto", "covariance", "hits", "uniform"}
        Of pixels, as `RunMaps.weights` says.
    mask : Path, optional
        A HEALPix map of the same n_side, 0 to 1; values below `threshold` are masked.
    threshold : float
    apodization : float
        Width of soft edges of the mask, and of what was observed; radians.
    kind : {"C1", "C2", "smooth"}
    l_min, l_max, width : int
        Of the bins; `l_max` is 2 n_side by default, the width 10 or a third of the multipoles where there are
        fewer than 30.
    of_d : bool
        Bandpowers of D_l instead of C_l.
    fwhm : float
        Of the Gaussian beam that the maps have; radians.
    pixel_window : bool
        Whether pixels average over the sky, which is divided out.
    noise : {"none", "white"}
        Noise bias to subtract from auto-spectra: that of the run's covariance, without correlations.
    keep_dipole : bool
        Leave monopole and dipole of I where they are.
    pure : {"", "B", "EB"}
        Components that are to be pure. Q and U are then weighted by the mask alone where `weights` is
        ``auto``: others vary too fast.
    """

    weights: Weighting = "auto"
    mask: Path | None = None
    threshold: float = 0.5
    apodization: float = 0.0
    kind: Apodization = "C2"
    l_min: int = 2
    l_max: int | None = None
    width: int | None = None
    of_d: bool = True
    fwhm: float = 0.0
    pixel_window: bool = True
    noise: Literal["none", "white"] = "none"
    keep_dipole: bool = False
    pure: str = ""
    iterations: int = ITERATIONS
    n_threads: int = 1

    def __post_init__(self) -> None:
        for name, least, most in (
            ("l_min", 0, _LARGEST), ("l_max", 0, _LARGEST), ("width", 1, _LARGEST), ("n_threads", 1, 2**16),
            ("iterations", 0, _MOST_ITERATIONS),
        ):  # fmt: skip
            if getattr(self, name) is not None:
                require_integer(getattr(self, name), name, least, most)
        for name in ("fwhm", "apodization"):
            require_real(getattr(self, name), name, 0.0, math.pi)


@dataclass(frozen=True, repr=False)
class Measurement(Displayed):
    """Measured bandpowers, with their estimator.

    Attributes
    ----------
    bandpowers : Bandpowers
    master : MasterEstimator
        Estimator, for comparison with a theory.
    f_sky : dict
        `effective_fraction` of the weights, for ``TT``, ``TP``, ``PT``, ``PP``.
    notes : tuple of str
        Remarks for the user.
    n_realizations : int or None
        Realizations of the covariance; None where it is that of Gaussian skies.
    """

    bandpowers: Bandpowers
    master: MasterEstimator
    f_sky: dict[str, float]
    notes: tuple[str, ...]
    n_realizations: int | None = None

    def _facts(self) -> dict[str, object]:
        return {
            "bandpowers": self.bandpowers,
            "f_sky": ", ".join(f"{name} {value:.3g}" for name, value in self.f_sky.items()),
            "n_realizations": self.n_realizations,
        }

    def expected(self, theory: Spectra) -> Bandpowers:
        """Return the expected bandpowers of skies with these spectra.

        Raises
        ------
        DataError
            If the theory ends before the bins do.
        """
        last = self.bandpowers.binning.l_max
        if theory.l_max < last:
            raise DataError(f"the theory ends at l = {theory.l_max}, the bins at {last}")
        # multipoles beyond the bins count next to nothing
        end = self.master.coupling.l_max
        values = np.pad(theory.values, ((0, 0), (0, max(end - theory.l_max, 0))))
        named = dict(zip(theory.names, values, strict=True))
        none = np.zeros_like(values[0])
        rows = [named.get(name, named.get(name[::-1], none)) for name in self.master.names]
        whole = self.master.expected(Spectra(np.stack(rows), self.master.names, theory.unit))
        return whole.cut(self.bandpowers.binning.n)


def bandpowers(
    run: str | os.PathLike[str], second: str | os.PathLike[str] | None = None, **choices: Any
) -> Measurement:
    """Measure the bandpowers of the map of a finished run, or the cross-spectra of two runs.

    Masks, beam and pixel window are undone on average by MASTER (Hivon et al. 2002; Brown, Castro & Taylor
    2005); errors are those of Gaussian skies.

    Parameters
    ----------
    run : path
        Folder of a run, with its ``summary.json`` and a HEALPix map.
    second : path, optional
        Folder of another run of the same n_side, for cross-spectra.
    **choices
        Fields of `SpectraChoices`, such as ``width``, ``fwhm`` (radians), ``mask`` (path) and ``pure``.

    Returns
    -------
    Measurement
        Its ``bandpowers`` has values and covariance, in the square of the unit of the maps.

    Raises
    ------
    ConfigError, DataError
        If a folder holds no HEALPix map, or maps, mask and choices do not fit together.

    Examples
    --------
    >>> import petamap
    >>> config = petamap.parse_config('''
    ... [run]
    ... name = "night"
    ... [map]
    ... n_side = 16
    ... [[source]]
    ... kind = "satellite"
    ... duration = "6 h"
    ... sample_rate = "5 Hz"
    ... [[source]]
    ... kind = "noise"
    ... net = "60 uK s^0.5"
    ... ''')
    >>> summary = petamap.run(config, out="maps")
    >>> found = petamap.bandpowers("maps", width=8, pixel_window=False)
    >>> found.bandpowers.names
    ('TT', 'EE', 'BB', 'TE', 'EB', 'TB')
    """
    for given in (run, second):
        if not isinstance(given, str | os.PathLike | None):
            raise ConfigError(
                f"a {type(given).__name__} is no folder of a run",
                mend="write the maps, petamap.run(config, out=folder), and give the folder",
            )
    other = None if second is None else RunMaps(Path(second))
    return measure_bandpowers(RunMaps(Path(run)), SpectraChoices(**choices), other)


def measure_bandpowers(first: RunMaps, choices: SpectraChoices, second: RunMaps | None = None) -> Measurement:
    """Return the bandpowers of a run, or the cross-spectra of two.

    Errors are those of Gaussian skies (`knox_errors`), from the spectra measured.

    Raises
    ------
    ConfigError, DataError
        If maps, mask and choices do not fit together.
    """
    n_side = first.pixelization.n_side
    if second is not None and second.pixelization.n_side != n_side:
        raise DataError(f"n_side {second.pixelization.n_side}, not {n_side}", where=str(second.path))
    binning, wanted = make_bins(choices, n_side, 3 * n_side - 1)
    parts = [_Weighted(maps, choices) for maps in (first, second) if maps is not None]
    return _decoupled(parts, binning, wanted, choices)


def make_bins(choices: SpectraChoices, n_side: int, reach: int) -> tuple[Binning, int]:
    """Return bins up to `reach`, and the number of those requested.

    Bins continue beyond those requested, so that power from there is separated.

    Raises
    ------
    ConfigError
        If the last multipole is beyond `reach`, or no bin fits.
    """
    last = min(2 * n_side, reach) if choices.l_max is None else choices.l_max
    if last > reach:
        raise ConfigError(f"l_max {last} is beyond the reach of n_side {n_side}", mend=f"at most {reach}")
    width = choices.width or max(1, min(10, (last + 1 - choices.l_min) // 3))
    if choices.l_min + width > last + 1:
        raise ConfigError(
            f"no bin of {width} multipoles fits from {choices.l_min} to {last}",
            mend="make it narrower, or choose other multipoles",
        )
    binning = Binning.linear(choices.l_min, reach, width, choices.of_d)
    return binning, int(np.searchsorted(binning.edges, last + 1, side="right")) - 1


def coefficients(
    sky: SkyMap,
    pixelization: Healpix,
    weights: Sequence[FloatArray],
    choices: SpectraChoices,
    l_max: int | None = None,
) -> Harmonics:
    """Return the coefficients of a weighted map, without its dipole and purified as chosen.

    Parameters
    ----------
    sky : SkyMap
    pixelization : Healpix
        That of the map.
    weights : float64 (n_pix,) of I, and of Q and U
    choices : SpectraChoices
    l_max : int, optional
        3 n_side - 1 by default.
    """
    values = sky.values.copy()
    if not choices.keep_dipole and sky.stokes is not None and "I" in sky.stokes.value:
        directions = pixelization.directions_of(np.arange(pixelization.n_pix))
        values[0] = subtract_monopole(values[0], weights[0], directions)
    seen = weighted_harmonics(
        values, pixelization, weights[0], weights[1], l_max, choices.iterations, choices.n_threads
    )
    if not choices.pure:
        return seen
    return purify(seen, values, pixelization, weights[1], choices.pure, choices.iterations, choices.n_threads)


class _Weighted:
    """A map of a run with its weights."""

    def __init__(self, maps: RunMaps, choices: SpectraChoices) -> None:
        self.maps = maps
        mask = _mask(maps, choices)
        self.weights = [weights * mask for weights in maps.weights(choices.weights)]
        self.pure = choices.pure
        if self.pure and choices.weights == "auto":
            self.weights[1] = mask
        self.harmonics = coefficients(maps.sky, maps.pixelization, self.weights, choices)

    @cached_property
    def fit(self) -> DipoleFit:
        """The fit of monopole and dipole."""
        polarized = self.weights[1] if "E" in self.harmonics.components else None
        return DipoleFit(self.weights[0], polarized, self.maps.pixelization)

    def white_noise(self, names: tuple[str, ...]) -> Spectra:
        """Return the pseudo-spectra of white noise: (area / 4 pi) times the sum of w^2 sigma^2 area."""
        n_pix = self.maps.pixelization.n_pix
        levels = {}
        for letters, weights in zip(("I", "QU"), self.weights, strict=True):
            used = weights > 0
            variance = self.maps.variances.get(letters, np.zeros(n_pix))[used]
            levels[letters] = 4 * math.pi * float(np.sum(weights[used] ** 2 * variance)) / n_pix**2
        rows = np.zeros((len(names), self.harmonics.l_max + 1))
        for row, name in zip(rows, names, strict=True):
            if name[0] == name[1]:
                row += levels["I" if name[0] == "T" else "QU"]
            if name[0] == name[1] and name[0] in self.pure:
                variance = self.maps.variances.get("QU", np.zeros(n_pix))
                row[:] = pure_noise(self.weights[1], variance, self.maps.pixelization, self.harmonics.l_max)
        return Spectra(rows, names)


def _mask(maps: RunMaps, choices: SpectraChoices) -> FloatArray:
    mask = maps.seen
    if choices.mask is not None:
        mask *= read_mask(choices.mask, maps.pixelization, maps.sky.frame, choices.threshold)
    if not mask.any():
        raise DataError("the mask leaves no pixel", where=str(choices.mask or maps.path))
    return apodize(
        mask, maps.pixelization, choices.apodization, choices.kind, choices.n_threads, bool(choices.pure)
    )


def _decoupled(parts: list[_Weighted], binning: Binning, wanted: int, choices: SpectraChoices) -> Measurement:
    one, other = parts[0], parts[-1]
    second = None if len(parts) == 1 else other.harmonics
    names = spectra_names(one.harmonics.components, None if second is None else second.components)
    unit = f"{one.maps.sky.unit}^2"
    n_side, l_max = one.maps.pixelization.n_side, one.harmonics.l_max
    window = map_window(n_side if choices.pixel_window else None, choices.fwhm, l_max)
    master = MasterEstimator(_coupling(parts, choices), binning, names, window_products(names, window))
    pseudo = pseudo_spectra(one.harmonics, second, unit)
    f_sky = effective_fractions(one.weights, other.weights)
    raw = master.bandpowers(pseudo)
    autos = [raw if second is None else _auto(part, binning, window, unit, choices) for part in parts]
    found = raw
    if choices.noise == "white" and second is None:
        found = master.bandpowers(pseudo, one.white_noise(names))
    found = found.with_errors(knox_errors(raw, autos[0], autos[-1], f_sky))
    narrow = master.narrow_bins(wanted)
    notes = (*_notes(parts, choices), *([narrow] if narrow else []))
    return Measurement(found.cut(wanted), master, f_sky, notes)


def _auto(
    part: _Weighted, binning: Binning, window: dict[str, FloatArray], unit: str, choices: SpectraChoices
) -> Bandpowers:
    names = spectra_names(part.harmonics.components)
    master = MasterEstimator(_coupling([part], choices), binning, names, window_products(names, window))
    return master.bandpowers(pseudo_spectra(part.harmonics, unit=unit))


def _coupling(parts: list[_Weighted], choices: SpectraChoices) -> Coupling:
    """Return the coupling of a map, or of two, with the effect of the fit of monopole and dipole."""
    one, other = parts[0].harmonics, parts[-1].harmonics
    coupling = mode_coupling(one, None if len(parts) == 1 else other, n_threads=choices.n_threads)
    if choices.keep_dipole or "T" not in one.components + other.components:
        return coupling
    return subtract_dipole_fit(coupling, *(part.fit for part in parts))


def _notes(parts: list[_Weighted], choices: SpectraChoices) -> tuple[str, ...]:
    notes = _notes_of_purity(parts, choices) if choices.pure else []
    if len(parts) == 1 and choices.noise == "white" and not parts[0].maps.variances:
        notes.append("the run has written no covariance: no noise bias is taken off")
    elif len(parts) == 1 and choices.noise == "white":
        notes.append("the bias of white noise is taken off; that of correlated noise is left")
    elif len(parts) == 1:
        notes.append("the noise of the map is in these spectra (--noise white, or cross-spectra of two runs)")
    return tuple(notes)


def _notes_of_purity(parts: list[_Weighted], choices: SpectraChoices) -> list[str]:
    """Return remarks on E that may leak into pure components, and on errors that are too small."""
    pixels, notes = parts[0].maps.pixelization, []
    side = math.sqrt(4 * math.pi / pixels.n_pix)
    if choices.apodization < _PIXELS_OF_EDGES * side and any(np.any(part.weights[1] == 0) for part in parts):
        need = math.ceil(math.degrees(_PIXELS_OF_EDGES * side))
        notes.append(
            f'pure components need soft edges: E leaks less than 1e-4 from --apodize "{need} deg" on'
        )
    if choices.weights != "auto":
        notes.append(
            "weights that vary from pixel to pixel let E into pure components: --weights auto does not"
        )
    last = max(last_amplified_multipole(part.weights[1], pixels, part.harmonics.l_max) for part in parts)
    notes.append(
        f"errors of pure components know nothing of the noise that is amplified in them up to l = {last}: "
        "take them from a Monte Carlo (petamap mc, then --montecarlo)"
    )
    return notes
