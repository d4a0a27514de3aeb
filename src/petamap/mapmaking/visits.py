"""Visits: the samples of one pixel between two knots, gathered for whole streams on one rank each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.threads import map_threads
from petacomm.base.typing import AnyArray, BoolArray, Float32Array, FloatArray, Int32Array, Int64Array
from petacomm.mpi import Communicator
from petamap.mapmaking.distribution import distribute
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.baselines import BaselineNoise

# Whole numbers at the head of the row of a visit on its way: stream, position, key; then the kernel's values
# in float32. Of the row of a stream: its number and step; then the inverse prior.
_VISIT_HEAD, _NOISE_HEAD = 3, 2


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
    values : float32 (n_visits, 2 n_stokes + 3)
        Those of ``cpp/petamap/mapmaking/baselines.h``.
    """

    steps: Int64Array
    knots: Int64Array
    inverse_priors: FloatArray
    streams: Int64Array
    before: Int64Array
    keys: Int64Array
    values: Float32Array

    @property
    def n_knots(self) -> int:
        """Number of knots."""
        return int(self.knots[-1])

    def select(self, chosen: BoolArray, rows: Int32Array, n_stokes: int) -> VisitRows:
        """Return some of the visits as the kernels take them, with the rows that they fall into."""
        bounds = np.searchsorted(self.streams[chosen], np.arange(len(self.steps) + 1))
        values = self.values[chosen, : 2 * n_stokes]
        weights = np.ascontiguousarray(values).reshape(-1, n_stokes, 2)
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

    def find(block: Int64Array) -> Float32Array:
        return _block_visits(projection, block, noises[int(block[5])], pixels, gap_keys, coarse)

    tables = map_threads(find, local.blocks, projection.n_threads)
    visits = np.concatenate([_rows(0, projection.stokes.n), *tables])
    tables.clear()
    models = _send(_noise_table(projection, noises), _NOISE_HEAD, first_streams, comm)
    own = first_streams[comm.rank : comm.rank + 2]
    return _arrange(_send(visits, _VISIT_HEAD, first_streams, comm), models, layout, own)


def _rows(n: int, n_stokes: int) -> Float32Array:
    """Return memory for the rows of n visits."""
    return np.empty((n, 2 * _VISIT_HEAD + 2 * n_stokes + 3), np.float32)


def _head(table: AnyArray, n: int) -> Int64Array:
    """Return a view of the whole numbers at the head of each row, (n_rows, n)."""
    head: Int64Array = table[:, : 8 * n // table.itemsize].view(np.int64)
    return head


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
) -> Float32Array:
    """Return the rows of the visits of the outputs of a block."""
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
    rows = _rows(count, n_stokes)
    head = _head(rows, _VISIT_HEAD)
    head[:, 0], head[:, 1] = segment.stream, positions[:count]
    head[:, 2] = _keys(pixels[:count], gap_keys, pixel_keys)
    rows[:, 2 * _VISIT_HEAD :] = values[:count]
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
    return np.array(rows).reshape(-1, _NOISE_HEAD + _mapmaking.BASELINE_BAND + 1)


def _send(table: AnyArray, n_head: int, first_streams: Int64Array, comm: Communicator) -> AnyArray:
    """Return the rows of this rank's streams, ordered by the first two whole numbers of each."""
    if comm.size > 1:
        streams = _head(table, n_head)[:, 0]
        order = np.argsort(streams, kind="stable")
        counts = np.diff(np.searchsorted(streams[order], first_streams))
        table, _ = comm.alltoallv(np.ascontiguousarray(table[order]), counts)
    streams, positions = _head(table, n_head)[:, :2].T
    later = (streams[1:] > streams[:-1]) | ((streams[1:] == streams[:-1]) & (positions[1:] >= positions[:-1]))
    return table if later.all() else table[np.lexsort((positions, streams))]


def _arrange(visits: AnyArray, noises: AnyArray, layout: TimeLayout, own: Int64Array) -> RankVisits:
    first, last = (int(one) for one in own)
    streams, positions, keys = np.ascontiguousarray(_head(visits, _VISIT_HEAD).T)
    numbers, steps = np.ascontiguousarray(_head(noises, _NOISE_HEAD).T)
    chosen = np.searchsorted(numbers, np.arange(first, last))  # equal on all ranks that have a part
    steps = steps[chosen]
    lengths = np.diff(layout.sample_keys)[first:last]
    knots = np.concatenate([[0], np.cumsum((lengths - 1) // np.maximum(steps, 1) + 2)]).astype(np.int64)
    at = streams - first
    return RankVisits(
        steps, knots, noises[chosen, _NOISE_HEAD:], at, knots[at] + positions // steps[at], keys,
        visits[:, 2 * _VISIT_HEAD :],
    )  # fmt: skip
