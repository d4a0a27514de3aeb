"""Visits: the samples of one pixel between two knots, gathered for whole streams on one rank each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.threads import map_threads
from petacomm.base.typing import BoolArray, Float32Array, FloatArray, Int32Array, Int64Array
from petacomm.mpi import Communicator
from petamap.mapmaking.distribution import distribute
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.baselines import BaselineNoise

# Columns of a visit on its way: stream, position, key (whole numbers), then the values of the kernel.
_STREAM, _POSITION, _KEY, _VALUES = 0, 1, 2, 3
# Of a stream: its number, the step (whole numbers), weight and inverse prior.
_NOISE_VALUES = 2


@dataclass(frozen=True)
class RankVisits:
    """Visits of the whole streams that a rank models, in the order of streams and time.

    Attributes
    ----------
    steps : int64 (n_streams,)
        Samples between knots.
    knots : int64 (n_streams + 1,)
        First knot of each stream.
    inverse_priors : float64 (n_streams, 9)
    streams : int64 (n_visits,)
        Stream of each visit, counted on this rank.
    before : int64 (n_visits,)
        Knot before each visit.
    keys : int64 (n_visits,)
        Its pixel; or ~key of the unknown that a gap is.
    values : float64 (n_visits, 2 n_stokes + 3)
        Those of ``cpp/petamap/mapmaking/baselines.h``.
    """

    steps: Int64Array
    knots: Int64Array
    inverse_priors: FloatArray
    streams: Int64Array
    before: Int64Array
    keys: Int64Array
    values: FloatArray

    @property
    def n_knots(self) -> int:
        """Number of knots."""
        return int(self.knots[-1])

    def select(self, chosen: BoolArray, rows: Int32Array, n_stokes: int) -> VisitRows:
        """Return some of the visits as the kernels take them, with the rows that they fall into."""
        bounds = np.searchsorted(self.streams[chosen], np.arange(len(self.steps) + 1))
        values = self.values[chosen, : 2 * n_stokes]
        weights = np.ascontiguousarray(values.reshape(-1, n_stokes, 2), np.float32)
        return VisitRows(bounds.astype(np.int64), self.knots, self.before[chosen], rows, weights)


@dataclass(frozen=True)
class VisitRows:
    """Visits as the kernels take them."""

    bounds: Int64Array
    knots: Int64Array
    before: Int64Array
    rows: Int32Array
    weights: Float32Array

    def arguments(self) -> tuple[Int64Array, Int64Array, Int64Array, Int32Array, Float32Array]:
        """Return the first arguments of the kernels."""
        return self.bounds, self.knots, self.before, self.rows, self.weights


def gather_visits(
    projection: Projection,
    noises: Sequence[BaselineNoise],
    gap_keys: Int64Array,
    pixel_keys: Int64Array,
    comm: Communicator,
) -> RankVisits:
    """Return the visits of the streams that this rank models. Collective.

    Parameters
    ----------
    projection : Projection
        Of the blocks of this rank.
    noises : sequence of BaselineNoise
        Noise of each segment.
    gap_keys : int64 (n_slots,)
        Keys of the unknowns of this rank's gaps.
    pixel_keys : int64 (n_local,)
        Key of the model's pixel that each local pixel lies in.
    comm : Communicator
    """
    layout, local = projection.layout, projection.local
    first_streams = _first_streams(layout, comm.size)
    coarse, table = np.unique(pixel_keys, return_inverse=True)
    pixels = table.astype(np.int32)

    def find(block: Int64Array) -> FloatArray:
        return _block_visits(projection, block, noises[int(block[5])], pixels, gap_keys, coarse)

    tables = map_threads(find, local.blocks, projection.n_threads)
    width = _VALUES + 2 * projection.stokes.n + 3
    visits = _send(np.concatenate([np.zeros((0, width)), *tables]), first_streams, comm)
    models = _send(_noise_table(projection, noises), first_streams, comm)
    return _arrange(visits, models, layout, first_streams[comm.rank : comm.rank + 2])


def _first_streams(layout: TimeLayout, n_ranks: int) -> Int64Array:
    """Return the first of the streams that each rank models, (n_ranks + 1,)."""
    return np.asarray(distribute(np.diff(layout.sample_keys).astype(np.float64), n_ranks), np.int64)


def _block_visits(
    projection: Projection,
    block: Int64Array,
    noise: BaselineNoise,
    table: Int32Array,
    gap_keys: Int64Array,
    pixel_keys: Int64Array,
) -> FloatArray:
    """Return the visits of the outputs of a block, (n, 3 + n_values)."""
    samples, n_stokes = projection.sample_pointing(block, inputs=False), projection.stokes.n
    segment = projection.local.segments[int(block[5])]
    stream = projection.layout.streams[segment.stream]
    first = segment.start + int(block[0] + block[2]) - segment.offset - stream.start
    n = len(samples.pixels)
    positions, pixels = np.empty(n, np.int64), np.empty(n, np.int32)
    values = np.empty((n, 2 * n_stokes + 3))
    count = _mapmaking.compress(
        samples.pixels, samples.angles, samples.gains, samples.efficiency, n_stokes, table, first,
        noise.step, noise.weight, positions, pixels, values,
    )  # fmt: skip
    rows = np.empty((count, _VALUES + values.shape[1]))
    whole = rows.view(np.int64)
    whole[:, _STREAM], whole[:, _POSITION] = segment.stream, positions[:count]
    whole[:, _KEY] = _keys(pixels[:count], gap_keys, pixel_keys)
    rows[:, _VALUES:] = values[:count]
    return rows


def _keys(pixels: Int32Array, gap_keys: Int64Array, pixel_keys: Int64Array) -> Int64Array:
    """Return the keys of local pixels, and ~key of slots."""
    keys = np.empty(len(pixels), np.int64)
    inside = pixels >= 0
    keys[inside] = pixel_keys[pixels[inside]]
    slots = ~pixels[~inside]
    keys[~inside] = ~gap_keys[slots] if len(gap_keys) else -1
    return keys


def _noise_table(projection: Projection, noises: Sequence[BaselineNoise]) -> FloatArray:
    rows = []
    for number, segment in enumerate(projection.local.segments):
        noise = noises[number]
        head = np.array([segment.stream, noise.step], np.int64).view(np.float64)
        rows.append(np.concatenate([head, noise.inverse_prior]))
    return np.array(rows).reshape(-1, _NOISE_VALUES + _mapmaking.BASELINE_BAND + 1)


def _send(table: FloatArray, first_streams: Int64Array, comm: Communicator) -> FloatArray:
    """Return the rows of this rank's streams, ordered by stream and, of visits, position."""
    streams = np.ascontiguousarray(table[:, _STREAM]).view(np.int64)
    if comm.size > 1:
        order = np.argsort(streams, kind="stable")
        counts = np.diff(np.searchsorted(streams[order], first_streams))
        table, _ = comm.alltoallv(np.ascontiguousarray(table[order]), counts)
        streams = np.ascontiguousarray(table[:, _STREAM]).view(np.int64)
    positions = np.ascontiguousarray(table[:, _POSITION]).view(np.int64)
    later = (streams[1:] > streams[:-1]) | ((streams[1:] == streams[:-1]) & (positions[1:] >= positions[:-1]))
    return table if later.all() else table[np.lexsort((positions, streams))]


def _arrange(visits: FloatArray, noises: FloatArray, layout: TimeLayout, own: Int64Array) -> RankVisits:
    first, last = (int(one) for one in own)
    streams, positions, keys = np.ascontiguousarray(visits[:, :_VALUES].T).view(np.int64)
    numbers = np.ascontiguousarray(noises[:, 0]).view(np.int64)
    chosen = np.searchsorted(numbers, np.arange(first, last))  # equal on all ranks that have a part
    steps = np.ascontiguousarray(noises[chosen, 1]).view(np.int64)
    lengths = np.diff(layout.sample_keys)[first:last]
    knots = np.concatenate([[0], np.cumsum((lengths - 1) // np.maximum(steps, 1) + 2)]).astype(np.int64)
    at = streams - first
    return RankVisits(
        steps, knots, noises[chosen, _NOISE_VALUES:], at, knots[at] + positions // steps[at], keys,
        visits[:, _VALUES:],
    )  # fmt: skip
