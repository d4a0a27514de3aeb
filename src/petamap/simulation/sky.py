"""Simulated sky signal, computed on demand."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, NoReturn, Protocol

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.name_patterns import choose_names
from petacomm.base.typing import (
    AnyArray,
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
from petamap.simulation.seen_pixels import DetectorPointing, SeenPixels
from petamap.simulation.sky_costs import SkyCosts
from petamap.sky.healpix import Healpix
from petamap.sky.pixelization import Pixelization
from petamap.sky.ring_distribution import RingDistribution
from petamap.sky.submaps import Submaps

CHUNK = 8192  # samples processed at once, whose directions and pixels fit into the cache


class RingPart(NamedTuple):
    """Values of some of a rank's rings of a sky, (n_columns, n_pixels), and which of I, Q and U they are."""

    columns: slice
    rings: slice
    values: FloatArray


class Sky:
    """Sky map that is computed at first use and shared by all signals.

    Of a HEALPix map, the pixels are held that its signals can see, where these are few (`SeenPixels`).

    Parameters
    ----------
    pixelization : Pixelization
    make : callable, optional
        Returns I, or I, Q and U (COSMO), float64 (1 or 3, n_pix); nan for unknown pixels.
    make_rings : callable, optional
        In its place: yields parts of I, Q and U (`RingPart`) on the rings of a rank, given their
        `RingDistribution`. The ranks of a node then make the map together. Its values are all known.
    l_max : int
        Where it is made by rings, of what.
    """

    def __init__(
        self,
        pixelization: Pixelization,
        make: Callable[[], FloatArray] | None = None,
        make_rings: Callable[[RingDistribution], Iterable[RingPart]] | None = None,
        l_max: int = 0,
    ) -> None:
        self.pixelization, self.l_max = pixelization, l_max
        self._make, self._make_rings = make, make_rings
        self._lock = threading.Lock()
        self._seen: SeenPixels | None = None
        self._submaps: Submaps | None = None
        self._values: FloatArray | None = None
        self._unknown: BoolArray | None = None
        self._settled = False

    @classmethod
    def of_values(cls, pixelization: Pixelization, values: FloatArray) -> Sky:
        """Return the sky of values, float64 (n_pix, 1 or 3), which the ranks of a node may share."""
        sky = cls(pixelization)
        sky._keep(values, None)
        sky._settled = True
        return sky

    def see(self, pointings: Sequence[DetectorPointing], context: SourceContext) -> None:
        """Let detectors look at the sky, which holds what they see, too; all realizations find that once."""
        pixels, is_whole = self.pixelization, self._values is not None and self._submaps is None
        if is_whole or not isinstance(pixels, Healpix):
            return
        if self._seen is None:
            key = SeenPixels, pixels, tuple((id(one.pointing), one.detectors) for one in pointings)
            self._seen = context.keep(key, lambda: SeenPixels(pixels, pointings, context.n_threads))
            return
        self._seen = SeenPixels(pixels, [*self._seen.pointings, *pointings], context.n_threads)
        if self._submaps is not None:  # made for those before alone
            self._values, self._settled = None, False
            self.__dict__.pop("largest", None)

    def share(self, comm: Communicator) -> None:
        """Make the map once on each node, in memory that its ranks share, if none has it. Collective."""
        if self._settled:
            return
        self._settled = True
        if comm.max(float(self._values is not None)) > 0:
            return
        submaps = self._find_submaps(comm)
        if comm.max(float(comm.node().size)) == 1:
            return
        if self._make_rings is None:
            self._keep(share_on_nodes(comm, lambda: self._made(submaps)), submaps)
        else:
            rings, shape = self._rings(submaps, comm.node()), (self._n_rows(submaps), 3)
            filled = fill_on_nodes(comm, shape, np.float64, lambda out: self._fill(out, rings, submaps))
            self._keep(filled, submaps)

    def find(self, comm: Communicator) -> None:
        """Find what will be held, which `costs` then tells. Collective."""
        self._find_submaps(comm)

    def _find_submaps(self, comm: Communicator | None = None) -> Submaps | None:
        """Return the submaps that are seen; None for all of the map. Collective on `comm`."""
        return None if self._seen is None else self._seen.submaps(comm)

    @property
    def is_made(self) -> bool:
        """Whether its values are in memory."""
        return self._values is not None

    @property
    def is_looked_for(self) -> bool:
        """Whether ranks find together which part of it detectors see."""
        return self._seen is not None and self._seen.is_looked_for

    @property
    def costs(self) -> SkyCosts:
        """What it takes to make and hold; as some of the samples tell, where that is not found yet."""
        about = self._submaps if self.is_made or self._seen is None else self._seen.submaps_about()
        return SkyCosts.of(self.pixelization.n_pix, about, self.l_max)

    def _n_rows(self, submaps: Submaps | None) -> int:
        return self.pixelization.n_pix if submaps is None else submaps.n_rows

    def _rings(self, submaps: Submaps | None, comm: Communicator | None = None) -> RingDistribution:
        assert isinstance(self.pixelization, Healpix), "other maps are not made by rings"
        return RingDistribution(self.pixelization.n_side, comm, submaps)

    def _made(self, submaps: Submaps | None) -> FloatArray:
        """Return the values of submaps, (n_rows, n_stokes), made by this rank alone."""
        if self._make_rings is not None:
            values = np.empty((self._n_rows(submaps), 3))
            self._fill(values, self._rings(submaps), submaps)
            return values
        assert self._make is not None, "a sky is made once"
        whole = self._make()
        return np.ascontiguousarray((whole if submaps is None else whole[:, submaps.pixels]).T)

    def _fill(self, values: FloatArray, rings: RingDistribution, submaps: Submaps | None) -> None:
        """Write what is held of the rings of this rank. Collective on their ranks."""
        assert self._make_rings is not None, "a sky is made once"
        for columns, some, part in self._make_rings(rings):
            rows = rings.pixels_of(some)
            if submaps is not None:
                rows = submaps.rows_of(rows)
                held = rows >= 0
                rows, part = rows[held], part[:, held]
            values[rows, columns] = part.T

    def _keep(self, values: FloatArray, submaps: Submaps | None) -> None:
        unknown = np.asarray(np.isnan(values).any(axis=1))
        self._unknown = unknown if unknown.any() else None
        self._submaps, self._values = submaps, values
        if submaps is None:  # nothing can be missing: what makes the map may hold as much as the map
            self._make = self._make_rings = None

    @property
    def values(self) -> FloatArray:
        """Values of the pixels that are held, float64 (n_rows, n_stokes): all, or those that are seen."""
        with self._lock:
            if self._values is None:
                submaps = self._find_submaps()
                self._keep(self._made(submaps), submaps)
            assert self._values is not None, "kept"
        return self._values

    @property
    def submaps(self) -> Submaps | None:
        """Submaps that are held; None where all of the map is."""
        _ = self.values
        return self._submaps

    def rows_of(self, pixels: AnyArray) -> AnyArray:
        """Return the row in `values` of each pixel; -1 of the number -1, less of pixels that are not held."""
        submaps = self.submaps
        return pixels if submaps is None else submaps.rows_of(pixels)

    @cached_property
    def largest(self) -> float:
        """Return what no detector's signal exceeds: the largest of ``|I| + |(Q, U)|`` of a pixel held."""
        return largest_signal(self.values)

    def intensity(self) -> Sky:
        """Return the sky of I alone."""
        return _Intensity(self)

    def intensity_of_pixels(self, pixelization: Pixelization, pixels: Int64Array) -> FloatArray | None:
        """Return I, (n_pixels,), of samples that look at pixels of another pixelization.

        None where samples of a pixel may look at several of the sky's; nan of pixels that no sample looks at
        of those that see this sky.

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
        rows = self.rows_of(pixels)
        found: FloatArray = self.values[rows, 0]
        found[rows < 0] = np.nan
        bad = np.isnan(found) & (rows >= 0)
        if bad.any():
            raise DataError("the sky map has no value where samples look", where=f"pixel {pixels[bad][0]}")
        return found

    @property
    def unknown(self) -> BoolArray | None:
        """Mask of rows without a value, bool (n_rows,); None if there are none."""
        _ = self.values
        return self._unknown


def largest_signal(values: FloatArray) -> float:
    """Return the largest of ``|I| + |(Q, U)|`` of values (n, 1 or 3); those that are nan count nothing."""
    largest = 0.0
    for begin in range(0, len(values), CHUNK):
        known = np.nan_to_num(values[begin : begin + CHUNK])
        largest = max(largest, float((np.abs(known[:, 0]) + np.linalg.norm(known[:, 1:], axis=1)).max()))
    return largest


class _Intensity(Sky):
    """I of a sky, made of its values."""

    def __init__(self, sky: Sky) -> None:
        super().__init__(sky.pixelization)
        self._sky = sky

    def _find_submaps(self, comm: Communicator | None = None) -> Submaps | None:
        return self._sky._find_submaps(comm)

    def _made(self, submaps: Submaps | None) -> FloatArray:
        intensity = self._sky.values[:, :1]
        if submaps is not None:
            intensity = intensity[self._sky.rows_of(submaps.pixels)]
        return np.ascontiguousarray(intensity)


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
        """Key of skies that can be added in one batch: pointing, pixels, interpolation, detectors."""
        n_stokes, grid = self.sky.values.shape[1], self.sky.pixelization.grid.tobytes()
        held = id(self.sky.submaps)
        return type(self), id(self.pointing), grid, held, n_stokes, self.interpolate, self.detectors

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

    @property
    def shared_sky(self) -> Sky:
        """What the ranks of a node share of it: the sky."""
        return self.sky

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
            rows = one._rows_of(pixels, detector, first)
            for sky in skies:
                sky._check(rows, detector, first)
            values, pointing = [sky.sky.values for sky in skies], one.pointing
            response = pointing.intensity(detector), pointing.efficiency(detector)
            parts = [out[first - start : last - start] for out in outs]
            _simulation.add_skies(values, rows, weights, angles, gains, *response, parts, 1)

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

    def _rows_of(self, pixels: Int32Array, detector: int, start: int) -> Int32Array:
        """Return the rows of the pixels of samples in the values of the sky."""
        rows: Int32Array = self.sky.rows_of(pixels)
        if rows.min(initial=0) < -1:
            self._fail("looks at a pixel that no line of sight came near before", rows < -1, detector, start)
        return rows

    def _check(self, rows: Int32Array, detector: int, start: int) -> None:
        if self.sky.unknown is None:
            return
        bad = self.sky.unknown[rows] & (rows >= 0)
        if bad.any():
            self._fail("looks at a pixel where the sky map has no value", bad, detector, start)

    def _fail(self, what: str, bad: BoolArray, detector: int, start: int) -> NoReturn:
        sample = start + int(np.flatnonzero(bad.any(axis=1))[0])
        raise DataError(what, where=f"{self.where}, detector {detector}, sample {sample}")


def unpolarized(signal: Signal, pointing: Pointing) -> Signal:
    """Return the intensity of the signal of a sky, seen by another pointing."""
    if not isinstance(signal, SkySignal):
        return signal
    return dataclasses.replace(signal, sky=signal.sky.intensity(), pointing=pointing)


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
    found: list[Observation] = []
    pointings: list[DetectorPointing] = []
    for one in observations:
        numbers = frozenset(number for number, name in enumerate(one.detectors) if name in chosen)
        seen_by = DetectorPointing(required_pointing(one), numbers if options.detectors else None)
        if numbers:
            signal = SkySignal(
                sky, seen_by.pointing, options.interpolation == "bilinear", one.name, seen_by.detectors
            )
            pointings.append(seen_by)
        found.append(with_signal(one, signal) if numbers else one)
    sky.see(pointings, context)
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
