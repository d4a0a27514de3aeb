"""Simulated sky signal, computed on demand: from a map, or from power spectra."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.name_patterns import choose_names
from petacomm.base.options import option
from petacomm.base.typing import (
    BoolArray,
    ComplexArray,
    Float32Array,
    FloatArray,
    Int32Array,
    Int64Array,
    UInt32Array,
)
from petacomm.mpi import Communicator, share_on_nodes
from petamap.data.observation import Observation, Signal
from petamap.data.source import SourceContext
from petamap.data.template import OfPixels
from petamap.pointing.frames import OFFSET
from petamap.pointing.protocol import Pointing
from petamap.simulation import _simulation
from petamap.simulation.random_keys import Purpose, random_stream
from petamap.simulation.sky_spectra import PLANCK2018, gaussian_alm, read_spectra, smooth_alm, synthesize
from petamap.sky.healpix import Healpix
from petamap.sky.map_file import read_map
from petamap.sky.map_units import unit_mend
from petamap.sky.pixelization import Pixelization

CHUNK = 8192  # samples processed at once, whose directions and pixels fit into the cache


class Sky:
    """Sky map that is computed at first use and shared by all signals.

    Parameters
    ----------
    pixelization : Pixelization
    make : callable
        Returns I, or I, Q and U (COSMO), float64 (1 or 3, n_pix); nan for unknown pixels.
    """

    def __init__(self, pixelization: Pixelization, make: Callable[[], FloatArray]) -> None:
        self.pixelization = pixelization
        self._make = make
        self._lock = threading.Lock()
        self._values: FloatArray | None = None
        self._unknown: BoolArray | None = None
        self._settled = False

    def share(self, comm: Communicator) -> None:
        """Make the map once on each node, in memory that its ranks share, if none has it. Collective."""
        if self._settled:
            return
        self._settled = True
        if comm.max(float(self._values is not None)) == 0 and comm.max(float(comm.node().size)) > 1:
            self._keep(share_on_nodes(comm, lambda: self._make().T))

    def _keep(self, values: FloatArray) -> None:
        unknown = np.asarray(np.isnan(values).any(axis=1))
        self._unknown = unknown if unknown.any() else None
        self._values = values
        self._make = _made_already  # what it holds may be as large

    @property
    def values(self) -> FloatArray:
        """Values of the map, float64 (n_pix, n_stokes)."""
        with self._lock:
            if self._values is None:
                self._keep(np.ascontiguousarray(self._make().T))
            assert self._values is not None, "kept"
        return self._values

    @cached_property
    def largest(self) -> float:
        """Return what no detector's signal exceeds: the largest of ``|I| + |(Q, U)|`` of a pixel."""
        values = np.nan_to_num(self.values)
        polarization = np.linalg.norm(values[:, 1:], axis=1)
        return float((np.abs(values[:, 0]) + polarization).max(initial=0.0))

    def intensity_of_pixels(self, pixelization: Pixelization, pixels: Int64Array) -> FloatArray | None:
        """Return I, (n_pixels,), of samples that look at pixels of another pixelization.

        None where samples of a pixel may look at several of the sky's.

        Raises
        ------
        DataError
            If the sky has no value there.
        """
        own = self.pixelization
        if not np.array_equal(own.grid, pixelization.grid):
            if not (isinstance(own, Healpix) and isinstance(pixelization, Healpix)):
                return None
            if own.n_side > pixelization.n_side:
                return None
            numbers = np.empty(len(pixels), np.int32)
            own.pixels_of(pixelization.directions_of(pixels), numbers)
            pixels = numbers.astype(np.int64)
        found: FloatArray = self.values[pixels, 0]
        if np.isnan(found).any():
            where = f"pixel {pixels[np.isnan(found)][0]}"
            raise DataError("the sky map has no value where samples look", where=where)
        return found

    @property
    def unknown(self) -> BoolArray | None:
        """Mask of pixels without a value, bool (n_pix,); None if there are none."""
        _ = self.values
        return self._unknown


def _made_already() -> FloatArray:
    raise AssertionError("a sky is made once")


@dataclass(frozen=True, eq=False)
class SkySignal:
    """Signal of a sky map in the detectors (implements `BatchedSignal`).

    Attributes
    ----------
    sky : Sky
    pointing : Pointing
    interpolate : bool
        Bilinear interpolation between four pixels instead of the value of the pixel (HEALPix only).
    where : str
        Observation, for messages.
    detectors : frozenset of int, optional
        That see it; all without.
    """

    of_sky = any_order = True

    sky: Sky
    pointing: Pointing
    interpolate: bool = False
    where: str = ""
    detectors: frozenset[int] | None = None

    @property
    def batch_key(self) -> tuple[object, ...]:
        """Key of skies that can be added in one batch: pointing, pixelization, interpolation, detectors."""
        n_stokes, grid = self.sky.values.shape[1], self.sky.pixelization.grid.tobytes()
        return type(self), id(self.pointing), grid, n_stokes, self.interpolate, self.detectors

    @property
    def largest(self) -> float | None:
        """Return what no sample exceeds, if that is known without its gain."""
        return None if self.pointing.has_gains else self.sky.largest

    @property
    def of_pixels(self) -> OfPixels | None:
        """What returns the samples that look at pixels, if all detectors see them with the same response."""
        pointing, polarized = self.pointing, self.sky.values.shape[1] > 1
        if polarized or self.interpolate or pointing.has_gains or self.detectors is not None:
            return None
        alike = all(pointing.intensity(detector) == 1.0 for detector in range(pointing.n_det))
        return self.sky.intensity_of_pixels if alike else None

    def share(self, comm: Communicator) -> None:
        """Make the sky once on each node. Collective."""
        self.sky.share(comm)

    def add_signal(self, detector: int, start: int, stop: int, out: FloatArray) -> None:
        """Add samples [start, stop) of a detector to `out`, float64 (stop - start,).

        Directions outside the pixelization have no signal.

        Raises
        ------
        DataError
            If the pixel of a sample has no value, or the pointing has no directions for interpolation.
        """
        self.add_signal_batch([self], detector, start, stop, [out])

    @staticmethod
    def add_signal_batch(
        skies: Sequence[SkySignal], detector: int, start: int, stop: int, outs: Sequence[FloatArray]
    ) -> None:
        """Add several skies with the same `batch_key`, each to its array; the pointing is expanded once."""
        one = skies[0]
        if one.detectors is not None and detector not in one.detectors:
            return
        for first in range(start, stop, CHUNK):
            last = min(first + CHUNK, stop)
            pixels, weights, angles, gains = one._expand(detector, first, last)
            for sky in skies:
                sky._check(pixels, detector, first)
            values, pointing = [sky.sky.values for sky in skies], one.pointing
            response = pointing.intensity(detector), pointing.efficiency(detector)
            parts = [out[first - start : last - start] for out in outs]
            _simulation.add_skies(values, pixels, weights, angles, gains, *response, parts, 1)

    def _expand(
        self, detector: int, start: int, stop: int
    ) -> tuple[Int32Array, FloatArray | None, UInt32Array, Float32Array | None]:
        """Return pixels (n, 1 or 4), weights, response angles and gains."""
        pixelization, n = self.sky.pixelization, stop - start
        if self.interpolate and isinstance(pixelization, Healpix):
            directions, angles = self.pointing.directions(detector, start, stop)
            pixels, weights = pixelization.interpolation(directions)
            return pixels, weights, angles, pointing_gains(self.pointing, detector, start, stop)
        pixels, angles = np.empty(n, np.int32), np.empty(n, np.uint32)
        gains = np.empty(n, np.float32) if self.pointing.has_gains else None
        self.pointing.expand(pixelization, detector, start, stop, pixels, angles, gains)
        return pixels.reshape(n, 1), None, angles, gains

    def _check(self, pixels: Int32Array, detector: int, start: int) -> None:
        if self.sky.unknown is None:
            return
        bad = (self.sky.unknown[pixels] & (pixels >= 0)).any(axis=1)
        if bad.any():
            sample = start + int(np.flatnonzero(bad)[0])
            raise DataError(
                "looks at a pixel where the sky map has no value",
                where=f"{self.where}, detector {detector}, sample {sample}",
            )


def unpolarized(signal: Signal, pointing: Pointing) -> Signal:
    """Return the intensity of the signal of a sky, seen by another pointing."""
    if not isinstance(signal, SkySignal):
        return signal
    sky = signal.sky
    intensity = Sky(sky.pixelization, lambda: sky.values[:, :1].T)
    return dataclasses.replace(signal, sky=intensity, pointing=pointing)


def pointing_gains(pointing: Pointing, detector: int, start: int, stop: int) -> Float32Array | None:
    """Return the gains of samples [start, stop), float32 (stop - start,), or None if all are 1."""
    if not pointing.has_gains:
        return None
    gains = np.empty(stop - start, np.float32)
    pointing.expand(Healpix(1), detector, start, stop, np.empty(len(gains), np.int32), None, gains)
    return gains


def intensity_gains(pointing: Pointing, detector: int, start: int, stop: int) -> Float32Array | None:
    """Return gains times the intensity weight, of samples [start, stop), or None if all are 1."""
    gains, intensity = (
        pointing_gains(pointing, detector, start, stop),
        np.float32(pointing.intensity(detector)),
    )
    if intensity == 1:
        return gains
    return np.full(stop - start, intensity) if gains is None else gains * intensity


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


class SeenSky(Protocol):
    """Options of a source of a sky: who sees it, and how."""

    @property
    def interpolation(self) -> str:
        """Return ``nearest`` or ``bilinear``."""

    @property
    def detectors(self) -> tuple[str, ...]:
        """Return the detectors that see it; all where there are none."""


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
        sky_map = read_map(
            self._path, unit=options.unit, polarization=options.polarization, frame=options.frame
        )
        if sky_map.names not in (("I",), ("I", "Q", "U")):
            raise DataError(f"has columns {', '.join(sky_map.names)}, not I, or I, Q, U", where=where)
        if options.interpolation == "bilinear" and not isinstance(sky_map.pixelization, Healpix):
            raise ConfigError("only HEALPix maps are interpolated", where=where, mend="interpolation nearest")
        for observation in observations:
            frame = observation.frame
            if sky_map.unit != observation.unit:
                raise ConfigError(
                    f"the map is in '{sky_map.unit}', {observation.name} in '{observation.unit}'",
                    where=where,
                    mend=unit_mend(sky_map.unit, observation.unit),
                )
            if frame not in (None, OFFSET, sky_map.frame) and sky_map.frame:
                raise ConfigError(
                    f"the map is {sky_map.frame}, the pointing of {observation.name} {frame}",
                    where=where,
                    mend=f"rotate the map to {frame} coordinates, with healpy.Rotator for example",
                )
        n_stokes = len(sky_map.names) if options.polarized else 1
        sky = Sky(sky_map.pixelization, lambda: sky_map.values[:n_stokes] * options.scale)
        return with_sky(observations, sky, options, self._context)


class SkySpectraSource:
    """Source of the signal of a Gaussian sky, which is common to all observations."""

    options: ClassVar[type] = SkySpectraOptions

    def __init__(self, options: SkySpectraOptions, context: SourceContext) -> None:
        self._options, self._context = options, context
        self.part = None if options.fixed else "sky"
        self.seen_by_all = not options.detectors
        known = options.spectra == PLANCK2018
        self._spectra = read_spectra(PLANCK2018 if known else context.folder / options.spectra, options.unit)
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
        sky = Sky(Healpix(self._options.n_side), self.make)
        return with_sky(observations, sky, self._options, self._context)

    def make(self) -> FloatArray:
        """Return I, Q, U of the sky in ring ordering, K_CMB, float64 (3, n_pix)."""
        alm, l_max = self.coefficients()
        return synthesize(smooth_alm(alm, l_max, self.fwhm), l_max, self._options.n_side)

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


def with_sky(
    observations: Sequence[Observation],
    sky: Sky,
    options: SeenSky,
    context: SourceContext,
) -> list[Observation]:
    """Return the observations with the signal of a sky in the detectors that see it."""
    names = (name for one in observations for name in one.detectors)
    chosen = choose_names(options.detectors, names, "detector", where=context.place("detectors"))
    found = []
    for one in observations:
        numbers = frozenset(number for number, name in enumerate(one.detectors) if name in chosen)
        signal = SkySignal(
            sky, required_pointing(one), options.interpolation == "bilinear", one.name,
            numbers if options.detectors else None,
        )  # fmt: skip
        found.append(with_signal(one, signal) if numbers else one)
    return found


def with_signal(observation: Observation, signal: Signal) -> Observation:
    """Return an observation with one more signal."""
    return dataclasses.replace(observation, signals=(*observation.signals, signal))


def required_pointing(observation: Observation) -> Pointing:
    """Return the pointing of an observation.

    Raises
    ------
    ConfigError
        If it has none.
    """
    if observation.pointing is None:
        raise ConfigError(
            "has no pointing to look at the sky with",
            where=observation.name,
            mend="name the source of the pointing before that of the sky",
        )
    return observation.pointing
