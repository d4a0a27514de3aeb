"""Maps of components of the sky whose spectra are known, solved for jointly from the data of all bands.

Detectors of a band b see d = P m_b + n, and m_b = sum_c s_bc m_c: the map of component c in the band, times a
known factor. So d = P S m + n, with the mixing matrix S of pixels (Stompor et al. 2009, MNRAS 392, 216, who
apply it to maps of bands), and the maps of components of least variance are

    (S^T A S) m = S^T b,   A = P^T N^-1 P,   b = P^T N^-1 d

where A and b are those of maps of bands, a row for each band and pixel, and of all their noise as it is
correlated in time: sums over samples are integers, and S^T adds up bands in their order. Unknowns of gaps and
templates do not know of components. M^-1 of the maps of bands becomes

    B^-1 S^T W M^-1 W S B^-1,   B = S^T W S,

where W are the weights of pixels in bands: symmetric and positive as M^-1 is, and B^-1 if M is W.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.progress import Progress
from petacomm.base.timers import Timers
from petacomm.base.typing import BoolArray, FloatArray
from petacomm.mpi import Communicator
from petacomm.reduction import OwnedRows
from petamap.data.observation import Observation
from petamap.mapmaking import binning
from petamap.mapmaking.cg import ConjugateGradients
from petamap.mapmaking.linear_operators import BlockDiagonalPreconditioner, Operator, Preconditioner
from petamap.mapmaking.mixing import MixingMatrix, own_rows
from petamap.mapmaking.noise_kernels import InverseNoise, ModelOf
from petamap.mapmaking.pixel_statistics import SINGULAR, Statistics
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.right_hand_side import RightHandSide
from petamap.mapmaking.system import MapmakingSystem, set_up
from petamap.mapmaking.system_options import SystemOptions
from petamap.mapmaking.vectors import SharedUnknowns, Unknowns
from petamap.sky.pixelization import Pixelization

# What pixels that a band alone cannot solve for are given of their mean weight, in the preconditioner.
_LEAST = 1e-3


@dataclass(frozen=True)
class OwnedUnknowns(SharedUnknowns):
    """Vectors of which no rank keeps ghosts."""

    @property
    def keeps_ghosts(self) -> bool:
        """Whether ranks keep rows of their ghosts."""
        return False

    def with_ghosts(self, vector: Unknowns) -> Unknowns:
        """Return a vector at the owners."""
        return Unknowns(*vector.owned)


class ComponentOperator(Operator):
    """S^T A S on maps of components. Collective.

    Parameters
    ----------
    operator : Operator
        A of the maps of bands.
    mixing : MixingMatrix
    bands : SharedUnknowns
        Of the maps of bands.
    """

    def __init__(self, operator: Operator, mixing: MixingMatrix, bands: SharedUnknowns) -> None:
        self._operator, self._mixing, self._bands = operator, mixing, bands
        self.comm, self.n_threads = operator.comm, operator.n_threads

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return S^T A S times vectors side by side. Collective."""
        seen = Unknowns(self._mixing.to_bands(vectors.pixels), vectors.gaps)
        found = self._operator.apply(self._bands.with_ghosts(seen) if self._bands.keeps_ghosts else seen)
        return Unknowns(self._mixing.to_components(found.pixels), found.gaps)


class ComponentPreconditioner(Preconditioner):
    """M^-1 of maps of components from that of maps of bands (module docstring). Collective.

    Parameters
    ----------
    bands : Preconditioner
    shared : SharedUnknowns
        Of the maps of bands.
    pixels : ComponentPixels
    """

    def __init__(self, bands: Preconditioner, shared: SharedUnknowns, pixels: ComponentPixels) -> None:
        self._bands, self._shared, self._pixels = bands, shared, pixels
        self.description, self.undetermined = f"{bands.description}, of bands", bands.undetermined
        from petamap.mapmaking.template_model import AmplitudePreconditioner  # most runs have no components

        local = bands.local if isinstance(bands, AmplitudePreconditioner) else bands
        self._is_local = isinstance(local, BlockDiagonalPreconditioner)

    def apply(self, vectors: Unknowns) -> Unknowns:
        """Return M^-1 times vectors side by side. Collective."""
        mixing, inverses = self._pixels.mixing, self._pixels.inverses
        if self._is_local:  # M is W in pixels, which gaps and templates do not see
            nothing = self._shared.zeros(mixing.n_stokes)
            pixels = np.repeat(nothing.pixels[..., None], vectors.width, axis=2)
            seen = self._with_ghosts(Unknowns(pixels, vectors.gaps))
            return Unknowns(mixing.multiply(inverses, vectors.pixels), self._bands.apply(seen).gaps)
        inner = Unknowns(mixing.multiply(inverses, vectors.pixels), vectors.gaps)
        seen = Unknowns(self._pixels.weigh(mixing.to_bands(inner.pixels)), inner.gaps)
        found = self._bands.apply(self._with_ghosts(seen))
        maps = mixing.to_components(self._pixels.weigh(found.pixels))
        return Unknowns(mixing.multiply(inverses, maps), found.gaps)

    def _with_ghosts(self, vector: Unknowns) -> Unknowns:
        return self._shared.with_ghosts(vector) if self._shared.keeps_ghosts else vector


class ComponentPixels:
    """Weights of the pixels of bands and components, and which of them can be solved for. Collective.

    Parameters
    ----------
    factors : float64 (n_bands, n_components, n_stokes)
        s_bc.
    options : SystemOptions

    Attributes
    ----------
    mixing : MixingMatrix
    inverses, binned_inverses : float64 (n_triangle, n_pixels)
        (S^T W S)^-1, and that with the weights of the binned map.
    few_bands : int
        Pixels of this rank that fewer bands see than there are components, which are cut.
    """

    mixing: MixingMatrix
    inverses: FloatArray
    binned_inverses: FloatArray
    few_bands: int

    def __init__(self, factors: FloatArray, options: SystemOptions) -> None:
        self._factors, self._options = factors, options

    def statistics_of_bands(self, projection: Projection, noise: InverseNoise, rows: OwnedRows) -> Statistics:
        """Return the statistics of maps of bands; pixels are dead that components are not solved for in."""
        self.mixing = MixingMatrix(self._factors, rows, projection.sky.n_pix)
        self._n_threads = projection.n_threads
        hits, self._weights = binning.hits_and_weights(projection, rows, noise.weights)
        hits_max = max(1, int(rows.comm.max(float(hits.max(initial=0)))))
        least = max(self._options.rcond_min, SINGULAR)
        solved = min(max(self._options.rcond_solved, SINGULAR), least)
        self.inverses, rcond = self.mixing.invert(self.mixing.weights(self._weights), solved)
        self._dead, self._unsolved = rcond < least, rcond < solved
        self._rcond, self._hits = rcond, self.mixing.gather(hits)
        seen = np.count_nonzero(self._hits, axis=1)
        self.few_bands = int(np.count_nonzero(self._dead & (seen < self.mixing.n_components)))
        binned_weights, self._binned = noise.weights, self._weights
        self.binned_inverses = self.inverses
        if self._options.uniform_binning:
            binned_weights = projection.units**2
            _, self._binned = binning.hits_and_weights(projection, rows, binned_weights)
            self.binned_inverses, _ = self.mixing.invert(self.mixing.weights(self._binned), 0.0)
            self.binned_inverses[:, self._dead] = 0.0
        dead, unsolved = (
            self.mixing.spread(one.view(np.uint8)).view(np.bool_) for one in (self._dead, self._unsolved)
        )
        covariance, rcond = self._inverted(self._weights, unsolved)
        binned, _ = self._inverted(self._binned, dead)
        return Statistics(hits, hits_max, covariance, rcond, dead, unsolved, binned_weights, binned)

    def _inverted(self, weights: FloatArray, dead: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return inverses of W in bands for preconditioners, made regular, and reciprocal conditions of W."""
        n = self.mixing.n_stokes
        diagonal, rcond = binning.DIAGONAL[n], np.zeros(len(weights))
        _mapmaking.invert(n, 0.0, weights.copy(), rcond, self._n_threads)
        regular = weights.copy()
        mean = regular[:, diagonal].sum(axis=1) / n
        regular[:, diagonal] += np.where(rcond < _LEAST, _LEAST * mean, 0.0)[:, None]
        _mapmaking.invert(n, 0.0, regular, np.zeros(len(weights)), self._n_threads)
        regular[dead] = 0.0
        return regular, rcond

    def weigh(self, bands: FloatArray) -> FloatArray:
        """Return W times maps of bands, (n_rows, n_stokes, width)."""
        out = np.empty_like(bands)
        _mapmaking.precondition(self._weights, np.ascontiguousarray(bands), out, self._n_threads)
        return out

    def statistics(self, bands: Statistics) -> Statistics:
        """Return the statistics of the rows of maps of components, those of each component alone.

        The binned map is made by `component_maps`, of all components together.
        """
        n, mixing = self.mixing.n_components, self.mixing
        rows, columns = np.triu_indices(mixing.n_stokes)
        own = [mixing.block(self.inverses, c, c)[:, rows, columns] for c in range(n)]
        hits, rcond, dead, unsolved = (
            np.tile(one, n) for one in (self._hits.sum(axis=1), self._rcond, self._dead, self._unsolved)
        )
        return replace(
            bands, hits=hits, covariance=np.concatenate(own), rcond=rcond, dead=dead, unsolved=unsolved,
            binned_inverse=np.zeros((0, len(rows))),
        )  # fmt: skip


@dataclass(kw_only=True)
class ComponentSystem(MapmakingSystem):
    """The system of the maps of components on this rank.

    Attributes
    ----------
    bands : MapmakingSystem
        Of the maps of bands: what reads the data, and applies A.
    pixels : ComponentPixels
    """

    bands: MapmakingSystem
    pixels: ComponentPixels

    def operator(self) -> Operator:
        """Return the operator S^T A S. Collective."""
        return ComponentOperator(self.bands.operator(), self.pixels.mixing, self.bands.shared)

    def solver(self) -> ConjugateGradients:
        """Return the solver of S^T A S x = S^T b. Collective."""
        return ConjugateGradients(self.operator(), self.preconditioner)

    def covariance_of(self, one: int, other: int) -> FloatArray:
        """Return the covariance of the white noise of two components, (n_pixels, n_stokes, n_stokes)."""
        found = self.pixels.mixing.block(self.pixels.inverses, one, other)
        found[self.statistics.dead[: len(found)]] = np.nan
        return found


def set_up_components(
    observations: Sequence[Observation],
    pixelization: Pixelization,
    options: SystemOptions,
    factors: FloatArray,
    names: tuple[str, ...],
    model_of: ModelOf,
    comm: Communicator,
    timers: Timers,
    progress: Progress,
) -> ComponentSystem:
    """Return the system of the maps of components. Collective.

    Parameters
    ----------
    observations, pixelization, model_of, comm, timers, progress
        As in `petamap.mapmaking.system.set_up`.
    options : SystemOptions
        With the bands as parts.
    factors : float64 (n_bands, n_components, n_stokes)
        s_bc.
    names : tuple of str
        Of the components.

    Raises
    ------
    ConfigError, DataError, ResourceError
        On all ranks, if the data do not allow a map, or memory does not suffice.
    """
    pixels = ComponentPixels(factors, options)
    bands = set_up(
        observations, pixelization, options, model_of, comm, timers, progress,
        statistics_of=pixels.statistics_of_bands,
    )  # fmt: skip
    mixing = pixels.mixing
    with timers.phase("reduction plan"):
        shared = OwnedUnknowns(own_rows(bands.shared.pixels, mixing.keys), bands.shared.gaps)
    given = {field.name: getattr(bands, field.name) for field in fields(MapmakingSystem)}
    return ComponentSystem(
        **given | {
            "shared": shared, "keys": mixing.keys, "statistics": pixels.statistics(bands.statistics),
            "preconditioner": ComponentPreconditioner(bands.preconditioner, bands.shared, pixels),
            "map_names": names,
        },
        bands=bands, pixels=pixels,
    )  # fmt: skip


def reading_system(system: MapmakingSystem) -> MapmakingSystem:
    """Return the system that reads the data of another: that of bands for components, else itself."""
    return system.bands if isinstance(system, ComponentSystem) else system


def component_maps(system: ComponentSystem, rhs: RightHandSide) -> tuple[RightHandSide, FloatArray]:
    """Return the right-hand side of components from that of bands, and their binned map. Collective.

    The binned map is (S^T W S)^-1 S^T P^T W d, (n_owned, n_stokes), with the weights W of binning.
    """
    mixing, pixels = system.pixels.mixing, system.pixels
    sums, binned = (mixing.to_components(part[..., None]) for part in (rhs.unknowns.pixels, rhs.binned))
    found = RightHandSide(Unknowns(sums[..., 0], rhs.unknowns.gaps), binned[..., 0])
    return found, mixing.multiply(pixels.binned_inverses, binned)[..., 0]
