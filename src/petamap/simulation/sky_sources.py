"""Sources of simulated skies: of a map in a file, and drawn from power spectra."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.options import option
from petacomm.base.typing import ComplexArray, FloatArray
from petamap.data.observation import Observation
from petamap.data.source import SourceContext
from petamap.pointing.frames import OFFSET
from petamap.simulation.random_keys import Purpose, random_stream
from petamap.simulation.sky import RingPart, Sky, largest_signal, with_sky
from petamap.simulation.sky_costs import SkyCosts
from petamap.simulation.sky_spectra import (
    PLANCK2018,
    gaussian_alm,
    read_spectra,
    smooth_alm,
    synthesize_by_rings,
)
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_observed
from petamap.sky.map_units import unit_mend
from petamap.sky.observed_map import ObservedMap
from petamap.sky.pixelization import Pixelization
from petamap.sky.ring_distribution import RingDistribution
from petamap.sky.submaps import Submaps


@dataclass(frozen=True)
class SkyMapOptions:
    """A sky map in a FITS file: I, or I, Q, U, in the coordinates of the pointing."""

    map: str = option(path=True, help="FITS map: HEALPix; CAR and flat without interpolation")
    interpolation: str = option(
        "nearest", choices=("nearest", "bilinear"), help="value of the pixel, or between four (HEALPix)"
    )
    unit: str | None = option(None, help="of the map, where the file says none")
    polarization: str | None = option(
        None, choices=("COSMO", "IAU"), help="convention of the map, where the file has no POLCCONV"
    )
    frame: str | None = option(
        None,
        choices=("galactic", "equatorial", "ecliptic"),
        help="coordinates of the map, where the file has no COORDSYS",
    )
    scale: float = option(1.0, help="factor on the map")
    polarized: bool = option(True, help="Q and U of the map are seen too, if it has them")
    detectors: tuple[str, ...] = option(
        (), help="that see it: names, patterns, beginnings of names; default: all"
    )


@dataclass(frozen=True)
class SkySpectraOptions:
    """A Gaussian sky drawn from power spectra."""

    spectra: str = option(
        PLANCK2018,
        path_or_name=True,
        help="planck2018, a CAMB text file of D_l, or a FITS table of C_l as healpy writes",
    )
    unit: str = option("uK^2", help="of the spectra, where the file says none")
    n_side: int = option(256, minimum=1, maximum=8192, help="HEALPix resolution of the sky")
    l_max: int | None = option(None, minimum=2, help="default: 2 n_side, or where the spectra end")
    fwhm: float = option(0.0, dimension="angle", minimum=0.0, help="of a Gaussian beam")
    interpolation: str = option(
        "nearest", choices=("nearest", "bilinear"), help="value of the pixel, or between four"
    )
    scale: float = option(1.0, help="factor on the sky")
    seed: int = option(0, help="added to the seed of the run")
    realization: int = option(0, help="added to the realization of the run")
    fixed: bool = option(False, help="the same sky in every realization of the run")
    detectors: tuple[str, ...] = option(
        (), help="that see it: names, patterns, beginnings of names; default: all"
    )


class SkyMapSource:
    """Source of the signal of a sky map."""

    options: ClassVar[type] = SkyMapOptions

    def __init__(self, options: SkyMapOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        self._path = context.folder / options.map

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with the signal of the map added.

        Raises
        ------
        ConfigError
            If an observation has no pointing, or unit, coordinates or interpolation do not match.
        DataError
            If the file is not a map of I, or of I, Q and U.
        """
        options, where = self._options, str(self._path)
        stored = self._context.read(
            read_sky, self._path, options.unit, options.polarization, options.frame, options.polarized,
            options.scale,
        )  # fmt: skip
        if options.interpolation == "bilinear" and not isinstance(stored.pixelization, Healpix):
            raise ConfigError("only HEALPix maps are interpolated", where=where, mend="interpolation nearest")
        for observation in observations:
            frame = observation.frame
            if stored.unit != observation.unit:
                raise ConfigError(
                    f"the map is in '{stored.unit}', {observation.name} in '{observation.unit}'",
                    where=where,
                    mend=unit_mend(stored.unit, observation.unit),
                )
            if frame not in (None, OFFSET, stored.frame) and stored.frame:
                raise ConfigError(
                    f"the map is {stored.frame}, the pointing of {observation.name} {frame}",
                    where=where,
                    mend=f"rotate the map to {frame} coordinates, with healpy.Rotator for example",
                )
        return with_sky(observations, stored.sky, options, self._context)


@dataclass(eq=False)
class StoredSky:
    """Sky map of a file.

    Attributes
    ----------
    pixelization : Pixelization
    unit : str
    frame : str, optional
    n_read : int
        Pixels that the file has.
    largest : float
        Of all of them, as `Sky` has it of those that it holds.
    read : callable
        Reads the map of I, or I, Q and U.
    found : ObservedMap, optional
        What was read, until the sky holds what is seen of it.
    """

    pixelization: Pixelization
    unit: str
    frame: str | None
    n_read: int
    largest: float
    read: Callable[[], ObservedMap]
    found: ObservedMap | None

    @cached_property
    def sky(self) -> Sky:
        """The sky, which all signals of it share."""
        return _FileSky(self)


class _FileSky(Sky):
    """Sky of a file, which is read again where more of it is seen later."""

    def __init__(self, stored: StoredSky) -> None:
        super().__init__(stored.pixelization)
        self._stored = stored

    @cached_property
    def largest(self) -> float:
        """Return what no detector's signal exceeds, of all of the map."""
        return self._stored.largest

    @property
    def costs(self) -> SkyCosts:
        """What it takes to hold it beside what is read."""
        return replace(super().costs, n_made=self._stored.n_read)

    def _made(self, submaps: Submaps | None) -> FloatArray:
        found = self._stored.found or self._stored.read()
        return np.ascontiguousarray(found.values_at(None if submaps is None else submaps.pixels).T)

    def _keep(self, values: FloatArray, submaps: Submaps | None) -> None:
        super()._keep(values, submaps)
        self._stored.found = None


def read_sky(
    path: Path, unit: str | None, polarization: str | None, frame: str | None, polarized: bool, scale: float
) -> StoredSky:
    """Return the sky map of a file times a factor; of I alone unless it is polarized.

    Raises
    ------
    DataError
        If the file is not a map of I, or of I, Q and U.
    """
    read = partial(_read_scaled, path, unit, polarization, frame, polarized, scale)
    found, n = read(), 1 << 20
    pieces = (found.values[:, first : first + n].T for first in range(0, found.values.shape[1], n))
    largest = max((largest_signal(piece) for piece in pieces), default=0.0)
    return StoredSky(
        found.pixelization, found.units[0], found.frame, found.values.shape[1], largest, read, found
    )


def _read_scaled(
    path: Path, unit: str | None, polarization: str | None, frame: str | None, polarized: bool, scale: float
) -> ObservedMap:
    """Return the map of a file as `read_sky` takes it."""
    found = read_observed(path, unit=unit, polarization=polarization, frame=frame)
    if found.names not in (("I",), ("I", "Q", "U")):
        raise DataError(f"has columns {', '.join(found.names)}, not I, or I, Q, U", where=str(path))
    if not polarized:
        found = replace(found, values=found.values[:1].copy(), names=("I",), units=found.units[:1])
    found.values[...] *= scale
    return found


class SkySpectraSource:
    """Source of the signal of a Gaussian sky, which is common to all observations."""

    options: ClassVar[type] = SkySpectraOptions

    def __init__(self, options: SkySpectraOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        self.part = None if options.fixed else "sky"
        self.seen_by_all = not options.detectors
        named = PLANCK2018 if options.spectra == PLANCK2018 else context.folder / options.spectra
        self._spectra = context.read(read_spectra, named, options.unit)
        realization = options.realization + (0 if options.fixed else context.realization)
        seed = context.seed + options.seed
        self._words = np.stack([random_stream(Purpose.SKY, seed, realization, detector=k) for k in range(3)])
        end = self._spectra.shape[1] - 1
        self._l_max = min(2 * options.n_side, end) if options.l_max is None else options.l_max
        if self._l_max > end:
            raise ConfigError(f"l_max {self._l_max} is beyond the spectra, which end at {end}")

    def extend(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations with the signal of the sky added; the sky is computed at first use.

        Raises
        ------
        ConfigError
            If an observation has no pointing, or is not in K_CMB.
        """
        for observation in observations:
            if observation.unit != "K_CMB":
                raise ConfigError(
                    f"spectra give K_CMB, {observation.name} is in '{observation.unit}'",
                    mend="use a map in that unit instead",
                )
        sky = Sky(Healpix(self._options.n_side), make_rings=self.make_rings, l_max=self._l_max)
        return with_sky(observations, sky, self._options, self._context)

    def make(self) -> FloatArray:
        """Return I, Q, U of the sky in ring ordering, K_CMB, float64 (3, n_pix)."""
        return Sky(Healpix(self._options.n_side), make_rings=self.make_rings).values.T

    def make_rings(self, rings: RingDistribution) -> Iterator[RingPart]:
        """Yield the part of the sky that is on rings, some of them at a time. Collective on their ranks."""
        l_max, orders = self._l_max, rings.orders(self._l_max)
        alm = gaussian_alm(self._spectra, self._words, l_max, orders)
        alm *= self._options.scale
        alm = smooth_alm(alm, l_max, self.fwhm, orders)
        yield from synthesize_by_rings(alm, l_max, rings, self._context.n_threads)

    @property
    def fwhm(self) -> float:
        """Full width at half maximum of the beam, radians."""
        return self._options.fwhm

    def coefficients(self) -> tuple[ComplexArray, int]:
        """Return a_lm of T, E, B without the beam, complex128 (3, n_alm) m-major, K_CMB, and their l_max."""
        alm = gaussian_alm(self._spectra, self._words, self._l_max)
        return alm * self._options.scale, self._l_max

    def expected(self) -> FloatArray:
        """Return the expected spectra of the coefficients: TT, EE, BB, TE, float64 (4, l_max + 1), K^2."""
        return self._spectra[:, : self._l_max + 1] * self._options.scale**2
