"""Visits: the samples of one pixel between two knots, gathered for whole streams on one rank each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.distinct import distinct
from petacomm.base.threads import map_threads
from petacomm.base.typing import AnyArray, FloatArray, Int32Array, Int64Array
from petacomm.mpi import Communicator
from petacomm.sharing.index_map import rows_of_keys
from petamap.mapmaking.amplitude_visits import amplitude_visits, join_blocks, stream_functions
from petamap.mapmaking.projection import Projection
from petamap.mapmaking.stream_terms import SelectedTerms, StreamTerms
from petamap.noise.baselines import BaselineNoise

# Columns of the table of blocks: stream, position of the first sample, intervals, visits of pixels, of gaps,
# of pixels in the functions of amplitudes.
_STREAM, _FIRST, _INTERVALS, _PIXELS, _GAPS, _AMPLITUDES = range(6)


@dataclass(frozen=True)
class VisitRows:
    """Visits of whole streams in the order of time, as the kernels take them.

    Attributes
    ----------
    knots : int64 (n_streams + 1,)
        First knot of each stream.
    firsts : int64 (n_knots + 1,)
        First visit of the interval after each knot.
    table : int32 (n_visits, 2 + n_stokes)
        Of each visit the row of vectors that it sees; then, as the bits of float32, its mean time since the
        knot before and for each Stokes parameter the sum of responses and weights
        (``cpp/petamap/mapmaking/baselines.h``).
    keys : int64 (n_rows,)
        Key of each row, increasing: of a pixel, or of the unknown that a gap is.
    n_stokes : int
        Of vectors; 1 of gaps.
    """

    knots: Int64Array
    firsts: Int64Array
    table: Int32Array
    keys: Int64Array
    n_stokes: int

    @cached_property
    def lists(self) -> _mapmaking.VisitLists:
        """The visits as the kernels take them, checked once."""
        return _mapmaking.VisitLists(self.knots, self.firsts, self.table, self.n_stokes)

    def renumbered(self, keys: Int64Array) -> VisitRows:
        """Return the visits with rows of other keys, which hold theirs too; the table is changed in place."""
        if len(keys) != len(self.keys) and len(self.table):
            self.table[:, 0] = rows_of_keys(keys, self.keys)[self.table[:, 0]]
        return replace(self, keys=keys)

    def grouped(self, groups: Int32Array, n_groups: int) -> VisitRows:
        """Return visits of groups of rows, of which there are fewer: neighbours become one."""
        table, firsts = np.empty_like(self.table), np.empty_like(self.firsts)
        _mapmaking.merge(self.lists, groups, table, firsts)
        return replace(self, firsts=firsts, table=table[: firsts[-1]].copy(), keys=np.arange(n_groups))


@dataclass(frozen=True)
class StreamNoises:
    """Baselines of the streams that a rank models.

    Attributes
    ----------
    streams : int64 (n_streams,)
        Numbers of the streams, consecutive.
    knots : int64 (n_streams + 1,)
        First knot of each.
    steps : int64 (n_streams,)
    weights : float64 (n_streams,)
    units : float64 (n_streams,)
        Of samples, in which weights and priors are.
    inverse_priors : float64 (n_streams, 9)
    """

    streams: Int64Array
    knots: Int64Array
    steps: Int64Array
    weights: FloatArray
    units: FloatArray
    inverse_priors: FloatArray


@dataclass(frozen=True)
class RankVisits:
    """Visits of the whole streams that a rank models.

    Attributes
    ----------
    noises : StreamNoises
    pixels, gaps : VisitRows
    products : float64 (n_knots, 3)
        F^T W F by the interval after each knot: before-before, before-after, after-after.
    amplitudes : VisitRows, optional
        Of pixels, where amplitudes are the knots; after those of each stream comes a knot without any.
    """

    noises: StreamNoises
    pixels: VisitRows
    gaps: VisitRows
    products: FloatArray
    amplitudes: VisitRows | None = None

    @property
    def knots(self) -> Int64Array:
        """First knot of each stream."""
        return self.noises.knots

    @property
    def n_knots(self) -> int:
        """Number of knots."""
        return int(self.knots[-1])

    def band_products(self) -> FloatArray:
        """Return F^T W F of all streams: its diagonal and what is beside it, (2, n_knots)."""
        diagonal, beside = self.products[:, 0].copy(), self.products[:, 1]
        diagonal[1:] += self.products[:-1, 2]
        return np.stack([diagonal, beside])


def gather_visits(
    projection: Projection,
    noises: Sequence[BaselineNoise],
    gap_keys: Int64Array,
    pixel_keys: Int64Array,
    comm: Communicator,
    *,
    marginalize: bool,
    terms: StreamTerms | SelectedTerms | None = None,
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
    terms : StreamTerms or SelectedTerms, optional
        Of the templates of the model.
    """
    first_streams = projection.layout.rank_streams(comm.size)
    outbox = _Outbox(projection, noises, gap_keys, pixel_keys, first_streams, terms, marginalize=marginalize)
    blocks, tables = outbox.fill()
    received = _Inbox(comm, blocks, tables, np.searchsorted(blocks[:, _STREAM], first_streams))
    return received.arrange(stream_noises(projection, noises, comm), projection.stokes.n, terms)


@dataclass(frozen=True)
class _BlockTables:
    """What ranks send: by block, then by interval or visit; and the keys of rows for each rank.

    Rows are numbered anew for each rank that visits go to.
    """

    counts: Int64Array  # (n_intervals, 2) visits of pixels and of gaps
    products: FloatArray  # (n_intervals, 3)
    visits: tuple[Int32Array, Int32Array]  # of pixels and of gaps
    amplitudes: Int32Array | None  # visits of pixels in their functions
    keys: tuple[list[Int64Array], list[Int64Array]]


class _Outbox:
    """Visits of this rank's blocks, in the order of streams."""

    def __init__(
        self,
        projection: Projection,
        noises: Sequence[BaselineNoise],
        gap_keys: Int64Array,
        pixel_keys: Int64Array,
        first_streams: Int64Array,
        terms: StreamTerms | SelectedTerms | None,
        *,
        marginalize: bool,
    ) -> None:
        self.projection, self.noises, self.marginalize = projection, noises, marginalize
        self.terms = terms
        self.keys, self.gap_keys = distinct(pixel_keys.copy()), gap_keys
        self.rows = rows_of_keys(self.keys, pixel_keys)
        local = projection.local
        streams = local.segments.stream[local.blocks[:, 5]]
        self.order = np.argsort(streams, kind="stable")
        self.blocks, self.streams = local.blocks[self.order], streams[self.order]
        self.n_ranks = len(first_streams) - 1
        # a rank holds streams of few others
        ranks = np.searchsorted(first_streams, self.streams, side="right") - 1
        self.ranks, self.rank_of = np.unique(ranks, return_inverse=True)

    def fill(self) -> tuple[Int64Array, _BlockTables]:
        """Return the table of blocks, and theirs."""
        blocks = np.zeros((len(self.blocks), 6), np.int64)
        seen = np.zeros((len(self.ranks), len(self.keys)), np.uint8)
        seen_slots = np.zeros((len(self.ranks), max(1, self.projection.gaps.n)), np.uint8)

        def count(number: int) -> None:
            rank, first, step = int(self.rank_of[number]), self._first(number), self._noise(number).step
            pixels = self.projection.outputs(int(self.order[number])).pixels
            found = _mapmaking.count_visits(pixels, self.rows, first, step, seen[rank], seen_slots[rank])
            intervals = (first + len(pixels) - 1) // step - first // step + 1
            n_gaps = found[1] if self.marginalize else 0
            blocks[number] = self.streams[number], first, intervals, found[0], n_gaps, 0

        map_threads(count, range(len(blocks)), self.projection.n_threads)
        pixels = [_rows_of(self.keys, one) for one in seen]
        gaps = [_rows_of(self.gap_keys, one[: len(self.gap_keys)]) for one in seen_slots]
        tables = self._compress(blocks, [one[1][self.rows] for one in pixels], [one[1] for one in gaps])
        return blocks, replace(tables, keys=(self._by_rank(pixels), self._by_rank(gaps)))

    def _by_rank(self, found: Sequence[tuple[Int64Array, Int32Array]]) -> list[Int64Array]:
        """Return the keys of the rows of each rank of the run."""
        keys = [np.zeros(0, np.int64)] * self.n_ranks
        for rank, (held, _) in zip(self.ranks, found, strict=True):
            keys[rank] = held
        return keys

    def _compress(
        self, blocks: Int64Array, pixel_rows: list[Int32Array], gap_rows: list[Int32Array]
    ) -> _BlockTables:
        """Return the tables of blocks, with the rows that the rank of each has."""
        n_stokes = self.projection.stokes.n
        lengths = blocks[:, _INTERVALS:_AMPLITUDES]
        ends = np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(lengths, axis=0)])
        n_intervals, n_visits, n_gaps = (int(n) for n in ends[-1])
        counts, products = np.zeros((n_intervals, 2), np.int64), np.zeros((n_intervals, 3))
        visits = np.empty((n_visits, 2 + n_stokes), np.int32)
        gaps = np.empty((n_gaps, 3), np.int32)

        def write(number: int) -> None:
            samples = self.projection.outputs(int(self.order[number]))
            intervals, own, own_gaps = (slice(*pair) for pair in zip(*ends[number : number + 2], strict=True))
            noise, rank = self._noise(number), int(self.rank_of[number])
            _mapmaking.compress(
                samples.pixels, samples.angles, samples.gains, samples.intensity, samples.efficiency,
                n_stokes, pixel_rows[rank], gap_rows[rank] if self.marginalize else None, self._first(number),
                noise.step, noise.constant, noise.weight, visits[own], gaps[own_gaps], counts[intervals],
                products[intervals],
            )  # fmt: skip

        map_threads(write, range(len(blocks)), self.projection.n_threads)
        amplitudes = self._amplitudes(blocks, pixel_rows) if self.terms else None
        return _BlockTables(counts, products, (visits, gaps), amplitudes, ([], []))

    def _amplitudes(self, blocks: Int64Array, pixel_rows: list[Int32Array]) -> Int32Array:
        """Return what pixels have of the functions of blocks, and write how many to the table of blocks."""
        assert self.terms is not None
        n_stokes, margin = self.projection.stokes.n, self.projection.layout.margin
        functions_of = lru_cache(2)(stream_functions)  # which detectors have in common
        tables = [np.empty((0, 2 + n_stokes), np.int32)]
        for number, (stream, first) in enumerate(blocks[:, [_STREAM, _FIRST]].tolist()):
            terms = self.terms.of(stream)
            if not terms:
                continue
            functions = functions_of(terms, first - margin, first - margin + int(self.blocks[number, 3]))
            samples = self.projection.outputs(int(self.order[number]))
            pixels, responses = samples.pixels, np.empty((len(samples.pixels), n_stokes))
            _mapmaking.write_responses(
                pixels, samples.angles, samples.gains, samples.intensity, samples.efficiency, responses
            )
            rows = np.where(pixels < 0, -1, pixel_rows[int(self.rank_of[number])][np.maximum(pixels, 0)])
            tables.append(amplitude_visits(functions, rows, responses * self._noise(number).weight))
            blocks[number, _AMPLITUDES] = len(tables[-1])
        return np.concatenate(tables)

    def _noise(self, number: int) -> BaselineNoise:
        return self.noises[int(self.blocks[number, 5])]

    def _first(self, number: int) -> int:
        """Return the position of a block's first output in its stream."""
        block, layout = self.blocks[number], self.projection.layout
        segment = self.projection.local.segments[int(block[5])]
        return int(
            segment.start + block[0] + block[2] - segment.offset - layout.streams[segment.stream].start
        )


def _rows_of(keys: Int64Array, seen: AnyArray) -> tuple[Int64Array, Int32Array]:
    """Return the distinct keys that were seen, increasing, and the row among them of each key."""
    there = np.flatnonzero(seen)
    if len(there) == len(keys) and bool(np.all(keys[1:] > keys[:-1])):
        return keys, np.arange(len(keys), dtype=np.int32)
    held = distinct(keys[there].copy())
    rows = np.zeros(len(keys), np.int32)
    rows[there] = rows_of_keys(held, keys[there])
    return held, rows


def stream_noises(
    projection: Projection, noises: Sequence[BaselineNoise], comm: Communicator
) -> StreamNoises:
    """Return the noise of the streams that this rank models, from those of its segments. Collective."""
    first_streams = projection.layout.rank_streams(comm.size)
    rows = [
        np.concatenate([[segment.stream, noise.step, noise.weight, projection.units[n]], noise.inverse_prior])
        for n, (segment, noise) in enumerate(zip(projection.local.segments, noises, strict=True))
    ]
    table = np.array(rows).reshape(-1, 5 + _mapmaking.BASELINE_BAND)
    table = table[np.argsort(table[:, 0], kind="stable")]
    if comm.size > 1:
        counts = np.diff(np.searchsorted(table[:, 0], first_streams))
        table = comm.alltoallv(table, counts)[0]
        table = table[np.argsort(table[:, 0], kind="stable")]
    # equal on all ranks that have a part of a stream
    streams = np.arange(*first_streams[comm.rank : comm.rank + 2])
    own = table[np.searchsorted(table[:, 0], streams)]
    steps, lengths = own[:, 1].astype(np.int64), projection.layout.streams.lengths(streams)
    knots = np.concatenate([[0], np.cumsum((lengths - 1) // np.maximum(steps, 1) + 2)]).astype(np.int64)
    inverse_priors = np.ascontiguousarray(own[:, 4:])
    return StreamNoises(streams, knots, steps, own[:, 2].copy(), own[:, 3].copy(), inverse_priors)


class _Inbox:
    """Visits that came to this rank, by block in the order of ranks. Collective."""

    def __init__(
        self, comm: Communicator, blocks: Int64Array, tables: _BlockTables, bounds: Int64Array
    ) -> None:
        self._comm = comm
        lengths = np.concatenate([np.zeros((1, 4), np.int64), np.cumsum(blocks[:, _INTERVALS:], axis=0)])
        n_intervals, n_visits, n_gaps, n_seen = np.ascontiguousarray(np.diff(lengths[bounds], axis=0).T)
        self.blocks = self._send(blocks, np.diff(bounds))
        self.counts = self._send(tables.counts, n_intervals)
        self.products = self._send(tables.products, n_intervals)
        self.pixels, self.pixel_keys = self._send_visits(tables.visits[0], n_visits, tables.keys[0])
        self.gaps, self.gap_keys = self._send_visits(tables.visits[1], n_gaps, tables.keys[1])
        self.amplitudes = np.zeros((0, 2), np.int32)
        if tables.amplitudes is not None:
            self.amplitudes, _ = self._send_visits(tables.amplitudes, n_seen, tables.keys[0])

    def _send(self, table: AnyArray, counts: Int64Array) -> AnyArray:
        return table if self._comm.size == 1 else self._comm.alltoallv(table, counts)[0]

    def _send_visits(
        self, table: Int32Array, counts: Int64Array, keys: list[Int64Array]
    ) -> tuple[Int32Array, Int64Array]:
        """Return visits, with rows of all keys that came with them."""
        if self._comm.size == 1:
            return table, keys[0]
        rows, n_rows = self._comm.alltoallv(table, counts)
        lengths = np.array([len(one) for one in keys], np.int64)
        theirs, n_keys = self._comm.alltoallv(np.concatenate(keys), lengths)
        rows[:, 0] += np.repeat(np.cumsum(n_keys) - n_keys, n_rows).astype(np.int32)
        together = distinct(theirs.copy())
        if len(rows):
            rows[:, 0] = rows_of_keys(together, theirs)[rows[:, 0]]
        return rows, together

    def arrange(
        self, noises: StreamNoises, n_stokes: int, terms: StreamTerms | SelectedTerms | None
    ) -> RankVisits:
        """Return the visits of the streams that have the noises."""
        knots, steps, first = noises.knots, noises.steps, int(noises.streams[:1].sum())
        order = np.lexsort((self.blocks[:, _FIRST], self.blocks[:, _STREAM]))
        sorted_blocks = self.blocks[order]
        streams, n_intervals = sorted_blocks[:, _STREAM] - first, sorted_blocks[:, _INTERVALS]
        firsts = knots[streams] + sorted_blocks[:, _FIRST] // steps[streams]
        before = np.cumsum(n_intervals) - n_intervals
        intervals = np.arange(n_intervals.sum()) + np.repeat(firsts - before, n_intervals)

        def in_order(table: AnyArray, column: int) -> AnyArray:
            return _in_order(table, self.blocks[:, column], order)

        def by_interval(table: AnyArray) -> list[AnyArray]:
            return [np.bincount(intervals, column, knots[-1]) for column in in_order(table, _INTERVALS).T]

        def rows(table: Int32Array, column: int, counts: AnyArray, keys: Int64Array, n: int) -> VisitRows:
            ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            return VisitRows(knots, ends, in_order(table, column), keys, n)

        n_pixels, n_gaps = by_interval(self.counts)
        return RankVisits(
            noises, rows(self.pixels, _PIXELS, n_pixels, self.pixel_keys, n_stokes),
            rows(self.gaps, _GAPS, n_gaps, self.gap_keys, 1), np.stack(by_interval(self.products), axis=1),
            self._amplitude_rows(order, noises.streams, n_stokes, terms) if terms else None,
        )  # fmt: skip

    def _amplitude_rows(
        self, order: Int64Array, streams: Int64Array, n_stokes: int, terms: StreamTerms | SelectedTerms
    ) -> VisitRows:
        """Return the visits of amplitudes, of which those of blocks are summed."""
        counts = self.blocks[:, _AMPLITUDES]
        table = _in_order(self.amplitudes, counts, order)
        of_stream = np.repeat(self.blocks[order, _STREAM] - streams[:1].sum(), counts[order])
        numbers = [1 + sum(term.n_amplitudes for term in terms.of(stream)) for stream in streams.tolist()]
        knots = np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64)
        table, places = join_blocks(table, knots[of_stream] + table[:, 1], n_stokes)
        ends = np.cumsum(np.bincount(places, minlength=knots[-1]))
        firsts = np.concatenate([[0], ends]).astype(np.int64)
        return VisitRows(knots, firsts, table, self.pixel_keys, n_stokes)


def _in_order(table: AnyArray, counts: Int64Array, order: Int64Array) -> AnyArray:
    """Return the pieces of a table, `counts` rows each, in another order."""
    if np.all(order[1:] > order[:-1]):
        return table
    ends = np.cumsum(counts)
    return np.concatenate([table[ends[i] - counts[i] : ends[i]] for i in order])
