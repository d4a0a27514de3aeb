"""Visits: the samples of one pixel between two knots, gathered for whole streams on one rank each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.distinct import distinct
from petacomm.base.threads import map_threads
from petacomm.base.typing import AnyArray, FloatArray, Int32Array, Int64Array
from petacomm.mpi import Communicator
from petacomm.sharing.index_map import rows_of_keys
from petamap.mapmaking.distribution import distribute
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.time_layout import TimeLayout
from petamap.noise.baselines import BaselineNoise


@dataclass(frozen=True)
class VisitRows:
    """Visits of whole streams in the order of time, as the kernels take them.

    Attributes
    ----------
    bounds, knots : int64 (n_streams + 1,)
        First visit and first knot of each stream.
    table : int32 (n_visits, 2 + 2 n_stokes)
        Of each visit the knot before it, in its stream; the row of vectors that it sees; then, as the bits of
        float32, its weights on the knots before and after (``cpp/petamap/mapmaking/baselines.h``).
    keys : int64 (n_rows,)
        Key of each row, increasing: of a pixel, or of the unknown that a gap is.
    """

    bounds: Int64Array
    knots: Int64Array
    table: Int32Array
    keys: Int64Array

    @property
    def n_stokes(self) -> int:
        """Number of Stokes parameters, 1 of gaps."""
        return int(self.table.shape[1] - 2) // 2

    def arguments(self) -> tuple[Int64Array, Int64Array, Int32Array]:
        """Return the first arguments of the kernels."""
        return self.bounds, self.knots, self.table

    def weights(self) -> FloatArray:
        """Return the sum of the weights of each row's first Stokes parameter, (n_rows,)."""
        columns = self.table[:, [2, 2 + self.n_stokes]].view(np.float32)
        sums: FloatArray = np.bincount(
            self.table[:, 1], columns.sum(axis=1, dtype=np.float64), len(self.keys)
        ).astype(np.float64)
        return sums

    def renumbered(self, keys: Int64Array) -> VisitRows:
        """Return the visits with rows of other keys, which hold theirs too; the table is changed in place."""
        if len(keys) == len(self.keys):
            return self
        self.table[:, 1] = rows_of_keys(keys, self.keys)[self.table[:, 1]] if len(self.table) else 0
        return replace(self, keys=keys)

    def grouped(self, groups: Int32Array, n_groups: int) -> VisitRows:
        """Return visits of groups of rows, of which there are fewer: neighbours become one."""
        table, bounds = np.empty_like(self.table), np.empty_like(self.bounds)
        n = _mapmaking.merge(*self.arguments(), groups, table, bounds)
        return VisitRows(bounds, self.knots, table[:n].copy(), np.arange(n_groups))


@dataclass(frozen=True)
class RankVisits:
    """Visits of the whole streams that a rank models.

    Attributes
    ----------
    knots : int64 (n_streams + 1,)
        First knot of each stream.
    inverse_priors : float64 (n_streams, 9)
    pixels, gaps : VisitRows
    products : float64 (n_knots, 3)
        F^T W F by the interval after each knot: before-before, before-after, after-after.
    """

    knots: Int64Array
    inverse_priors: FloatArray
    pixels: VisitRows
    gaps: VisitRows
    products: FloatArray

    @property
    def n_knots(self) -> int:
        """Number of knots."""
        return int(self.knots[-1])


@dataclass(frozen=True)
class _BlockVisits:
    """Visits of the outputs of a block; rows are local pixels and slots."""

    stream: int
    first: int  # the first interval between knots
    pixels: Int32Array
    gaps: Int32Array
    products: FloatArray


def gather_visits(
    projection: Projection,
    noises: Sequence[BaselineNoise],
    gap_keys: Int64Array,
    pixel_keys: Int64Array,
    comm: Communicator,
    *,
    marginalize: bool,
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
    marginalize : bool
        Whether gaps are unknowns; else they are known to be zero.
    """
    layout, local = projection.layout, projection.local
    first_streams = _first_streams(layout, comm.size)
    coarse, table = np.unique(pixel_keys, return_inverse=True)
    pixels = table.astype(np.int32)

    def find(block: Int64Array) -> _BlockVisits:
        return _block_visits(projection, block, noises[int(block[5])], pixels, marginalize)

    blocks = map_threads(find, local.blocks, projection.n_threads)
    # blocks of a stream are in the order of time on each rank, and ranks are in that order too
    blocks.sort(key=lambda block: block.stream)
    outbox = _Outbox(blocks, first_streams, comm)
    heads = outbox.send([np.array([[*_head(block)]]) for block in blocks], np.zeros((0, 5), np.int64))
    order = np.lexsort((heads[:, 1], heads[:, 0]))
    rows, keys = outbox.send_rows([block.pixels for block in blocks], coarse, projection.stokes.n)
    gap_rows, keys_of_gaps = outbox.send_rows([block.gaps for block in blocks], gap_keys, 1)
    products = outbox.send([block.products for block in blocks], np.zeros((0, 3)))
    blocks.clear()
    models = outbox.noises(_noise_table(projection, noises))
    own = slice(int(first_streams[comm.rank]), int(first_streams[comm.rank + 1]))
    chosen = np.searchsorted(models[:, 0], np.arange(own.start, own.stop))  # equal on all ranks with a part
    steps = models[chosen, 1].astype(np.int64)
    lengths = np.diff(layout.sample_keys)[own]
    knots = np.concatenate([[0], np.cumsum((lengths - 1) // np.maximum(steps, 1) + 2)]).astype(np.int64)
    at = heads[order, 0] - own.start

    def rows_of(table: Int32Array, counts: Int64Array, keys: Int64Array) -> VisitRows:
        per_stream = np.bincount(at, counts[order], len(steps)).astype(np.int64)
        bounds = np.concatenate([[0], np.cumsum(per_stream)])
        return VisitRows(bounds, knots, _in_order(table, counts, order), keys)

    return RankVisits(
        knots, models[chosen, 2:],
        rows_of(rows, heads[:, 2], keys), rows_of(gap_rows, heads[:, 3], keys_of_gaps),
        _by_interval(_in_order(products, heads[:, 4], order), knots[at] + heads[order, 1], heads[order, 4],
                     int(knots[-1])),
    )  # fmt: skip


def _first_streams(layout: TimeLayout, n_ranks: int) -> Int64Array:
    """Return the first of the streams that each rank models, (n_ranks + 1,)."""
    return np.asarray(distribute(np.diff(layout.sample_keys).astype(np.float64), n_ranks), np.int64)


def _block_visits(
    projection: Projection, block: Int64Array, noise: BaselineNoise, table: Int32Array, marginalize: bool
) -> _BlockVisits:
    """Return the visits of the outputs of a block."""
    samples, n_stokes = projection.sample_pointing(block, inputs=False), projection.stokes.n
    segment = projection.local.segments[int(block[5])]
    stream = projection.layout.streams[segment.stream]
    first = segment.start + int(block[0] + block[2]) - segment.offset - stream.start
    n = len(samples.pixels)
    pixels = np.empty((n, 2 + 2 * n_stokes), np.int32)
    gaps = np.empty((n if marginalize else 0, 4), np.int32)
    products = np.zeros(((first + n - 1) // noise.step - first // noise.step + 1, 3))
    n_pixels, n_gaps = _mapmaking.compress(
        samples.pixels, samples.angles, samples.gains, samples.efficiency, n_stokes, table, first,
        noise.step, noise.weight, pixels, gaps if marginalize else None, products,
    )  # fmt: skip
    return _BlockVisits(
        segment.stream, first // noise.step, pixels[:n_pixels].copy(), gaps[:n_gaps].copy(), products
    )


def _head(block: _BlockVisits) -> tuple[int, int, int, int, int]:
    return block.stream, block.first, len(block.pixels), len(block.gaps), len(block.products)


def _noise_table(projection: Projection, noises: Sequence[BaselineNoise]) -> FloatArray:
    """Return stream, step and inverse prior of each segment, (n_segment, 11)."""
    rows = [
        np.concatenate([[segment.stream, noises[number].step], noises[number].inverse_prior])
        for number, segment in enumerate(projection.local.segments)
    ]
    return np.array(rows).reshape(-1, 3 + _mapmaking.BASELINE_BAND)


class _Outbox:
    """Tables of blocks on their way to the ranks that model their streams. Collective."""

    def __init__(self, blocks: Sequence[_BlockVisits], first_streams: Int64Array, comm: Communicator) -> None:
        self._comm, self._first_streams = comm, first_streams
        self._bounds = np.searchsorted([block.stream for block in blocks], first_streams)

    def send(self, tables: Sequence[AnyArray], empty: AnyArray) -> AnyArray:
        """Return the rows of the tables of blocks that came here, in the order of ranks."""
        together = np.concatenate([empty, *tables])
        if self._comm.size == 1:
            return together
        lengths = np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.int64)
        return self._comm.alltoallv(together, np.diff(lengths[self._bounds]))[0]

    def noises(self, table: FloatArray) -> FloatArray:
        """Return the rows of segments, of which the streams come first, of the streams modelled here."""
        table = table[np.argsort(table[:, 0], kind="stable")]
        if self._comm.size > 1:
            counts = np.diff(np.searchsorted(table[:, 0], self._first_streams))
            table = self._comm.alltoallv(table, counts)[0]
        return table[np.argsort(table[:, 0], kind="stable")]

    def send_rows(
        self, tables: Sequence[Int32Array], keys: Int64Array, n_stokes: int
    ) -> tuple[Int32Array, Int64Array]:
        """Return the visits that came here, and the keys of their rows, increasing."""
        empty = np.zeros((0, 2 + 2 * n_stokes), np.int32)
        sent = [
            _renumber(np.concatenate([empty, *tables[first:last]]), keys)
            for first, last in zip(self._bounds[:-1], self._bounds[1:], strict=True)
        ]
        if self._comm.size == 1:
            return sent[0]
        counts, lengths = (np.array([len(one[part]) for one in sent], np.int64) for part in (0, 1))
        rows, n_rows = self._comm.alltoallv(np.concatenate([one[0] for one in sent]), counts)
        theirs, n_keys = self._comm.alltoallv(np.concatenate([one[1] for one in sent]), lengths)
        rows[:, 1] += np.repeat(np.cumsum(n_keys) - n_keys, n_rows).astype(np.int32)
        together = distinct(theirs.copy())
        rows[:, 1] = rows_of_keys(together, theirs)[rows[:, 1]] if len(rows) else 0
        return rows, together


def _renumber(table: Int32Array, keys: Int64Array) -> tuple[Int32Array, Int64Array]:
    """Return visits with rows of those keys alone that they see, in place, and these keys, increasing."""
    used = np.zeros(len(keys), np.bool_)
    used[table[:, 1]] = True
    seen = keys[used]
    together = distinct(seen.copy())
    numbers = np.empty(len(keys), np.int32)
    numbers[used] = rows_of_keys(together, seen)
    table[:, 1] = numbers[table[:, 1]]
    return table, together


def _in_order(table: AnyArray, counts: Int64Array, order: Int64Array) -> AnyArray:
    """Return pieces of a table, `counts` rows each, in another order."""
    if np.all(order[1:] > order[:-1]):
        return table
    ends = np.cumsum(counts)
    return np.concatenate([table[ends[i] - counts[i] : ends[i]] for i in order])


def _by_interval(products: FloatArray, firsts: Int64Array, counts: Int64Array, n_knots: int) -> FloatArray:
    """Return the products of blocks, which begin in the intervals `firsts`, added up: (n_knots, 3)."""
    ends = np.cumsum(counts)
    intervals = np.arange(len(products)) + np.repeat(firsts - (ends - counts), counts)
    return np.stack([np.bincount(intervals, column, n_knots) for column in products.T], axis=1)
