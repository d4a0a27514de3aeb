"""Simulated sky signal, computed on demand."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.name_patterns import choose_names
from petacomm.base.typing import (
    BoolArray,
    Float32Array,
    FloatArray,
    Int32Array,
    Int64Array,
    UInt32Array,
)
from petacomm.mpi import Communicator, fill_on_nodes, share_on_nodes
from petamap.data.observation import Observation, Signal
from petamap.data.source import SourceContext
from petamap.data.template import OfPixels
from petamap.pointing.protocol import Pointing
from petamap.simulation import _simulation
from petamap.sky.healpix import Healpix
from petamap.sky.pixelization import Pixelization
from petamap.sky.ring_distribution import RingDistribution

CHUNK = 8192  # samples processed at once, whose directions and pixels fit into the cache


class Sky:
    """Sky map that is computed at first use and shared by all signals.

    Parameters
    ----------
    pixelization : Pixelization
    make : callable
        Returns I, or I, Q and U (COSMO), float64 (1 or 3, n_pix); nan for unknown pixels.
    make_rings : callable, optional
        Returns the part on the rings of a rank, (3, rings.n_pix), given their `RingDistribution`: the
        ranks of a node then make the map together.
    """

    def __init__(
        self,
        pixelization: Pixelization,
        make: Callable[[], FloatArray],
        make_rings: Callable[[RingDistribution], FloatArray] | None = None,
    ) -> None:
        self.pixelization = pixelization
        self._make, self._make_rings = make, make_rings
        self._lock = threading.Lock()
        self._values: FloatArray | None = None
        self._unknown: BoolArray | None = None
        self._settled = False

    @classmethod
    def of_values(cls, pixelization: Pixelization, values: FloatArray) -> Sky:
        """Return the sky of values that the ranks of a node have once, float64 (n_pix, 1 or 3)."""
        sky = cls(pixelization, _made_already)
        sky._keep(values)
        sky._settled = True
        return sky

    def share(self, comm: Communicator) -> None:
        """Make the map once on each node, in memory that its ranks share, if none has it. Collective."""
        if self._settled:
            return
        self._settled = True
        if comm.max(float(self._values is not None)) > 0:
            return
        by_rings, pixels = self._make_rings, self.pixelization
        if comm.max(float(comm.node().size)) == 1:
            return
        if by_rings is None:
            self._keep(share_on_nodes(comm, lambda: self._make().T))
        else:
            assert isinstance(pixels, Healpix)
            rings = RingDistribution(pixels.n_side, comm.node())

            def fill(values: FloatArray) -> None:
                values[rings.pixels] = by_rings(rings).T

            self._keep(fill_on_nodes(comm, (pixels.n_pix, 3), np.float64, fill))

    def _keep(self, values: FloatArray) -> None:
        unknown = np.asarray(np.isnan(values).any(axis=1))
        self._unknown = unknown if unknown.any() else None
        self._values = values
        self._make, self._make_rings = _made_already, None  # what they hold may be as large

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


class SeenSky(Protocol):
    """Options of a source of a sky: who sees it, and how."""

    @property
    def interpolation(self) -> str:
        """Return ``nearest`` or ``bilinear``."""

    @property
    def detectors(self) -> tuple[str, ...]:
        """Return the detectors that see it; all where there are none."""


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
