"""Gaps: samples that must not enter the map, and the unknowns in their place."""

from __future__ import annotations

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.pages import zero_pages
from petacomm.base.threads import map_threads
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array, UInt8Array
from petamap.mapmaking.time_layout import ALIGNMENT, LocalBlocks, Segment, TimeLayout

_LENGTHS = {"exact": 1, "levels": ALIGNMENT, "cut": 0}
_CHUNK = 1 << 14  # samples between which slots are counted: a multiple of ALIGNMENT


class Gaps:
    """Gaps among the samples that a rank holds: flagged, outside the map, or in a pixel not solved for.

    A gap becomes an unknown of its own, which marginalises the sample exactly ("exact"); "levels" shares an
    unknown among up to 64 consecutive samples; "cut" leaves out the rows and columns of N^-1, which is exact
    for white noise alone. Unknowns are numbered in slots, in the order of the samples.

    Parameters
    ----------
    layout : TimeLayout
    local : LocalBlocks
    kind : str
        "exact", "levels" or "cut".

    Attributes
    ----------
    length : int
        Most samples of one unknown; 0 with "cut".
    bits : uint8 (n_held / 8,)
        One bit per sample, the lowest first, in whole words of 64.
    numbered : bool
        Whether there are gaps and they have slots.
    """

    def __init__(self, layout: TimeLayout, local: LocalBlocks, kind: str) -> None:
        self.layout = layout
        self.local = local
        self.length = _LENGTHS[kind]
        n_words = -(-local.n_held // 64)
        # what is never written takes no memory
        self.bits = zero_pages(8 * n_words, large=False).view(np.uint8) if n_words else np.zeros(0, np.uint8)
        self.numbered = False
        self._before = np.zeros(1, np.int64)  # slots that begin before each chunk, and all of them

    def __bool__(self) -> bool:
        return bool(self.bits.any())

    def add(self, position: int, gaps: BoolArray) -> None:
        """Mark gaps among consecutive held samples from a position that is a multiple of 8."""
        if not gaps.any():
            return
        bits = np.packbits(gaps, bitorder="little")
        self.bits[position // 8 : position // 8 + len(bits)] |= bits

    def among(self, position: int, n: int) -> UInt8Array:
        """Return 1 for each of n held samples that is a gap."""
        bits = self.bits[position // 8 : -(-(position + n) // 8)]
        return np.unpackbits(bits, bitorder="little")[position % 8 : position % 8 + n]

    @property
    def n(self) -> int:
        """Number of unknowns, once numbered; with "cut", one that stays zero."""
        return int(self._before[-1]) if self.length else 1

    def count(self) -> int:
        """Return the number of unknowns that the gaps marked so far make."""
        return int(self._counts().sum()) if self.length else 1

    def number(self, n_threads: int = 1) -> Int64Array:
        """Assign numbers to the slots; return the keys of the unknowns: positions among all samples."""
        if self.length:
            self._before = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts())])
        self.numbered = bool(self)
        return self.keys(n_threads)

    def _counts(self) -> Int64Array:
        """Return how many slots begin in each chunk of the held samples."""
        counts = np.zeros(-(-8 * len(self.bits) // _CHUNK), np.int64)
        _mapmaking.count_slots(self.bits, self.length, _CHUNK, counts)
        return counts

    def keys(self, n_threads: int = 1) -> Int64Array:
        """Return the keys of the unknowns, once numbered: positions among all samples."""
        segments, streams = self.local.segments, self.layout.streams
        keys = np.empty(self.n if self.length else 0, np.int64)
        if len(keys) == 0:
            return keys
        starts = streams.columns(segments.stream).start
        shifts = streams.keys(segments.stream) - starts + segments.start - segments.offset
        stops = segments.offset + segments.stop - segments.start
        firsts = np.append(self.first_slots(segments.offset), self.n)

        def find(number: int) -> None:
            _mapmaking.find_slots(
                self.bits, self.length, int(segments.offset[number]), int(stops[number]), int(shifts[number]),
                keys[firsts[number] : firsts[number + 1]],
            )  # fmt: skip

        map_threads(find, range(len(segments)), n_threads)
        return keys

    def of_segments(self, values: FloatArray) -> FloatArray:
        """Return the value of each slot, that of its segment: float64 (n,), from values (n_segment,)."""
        firsts = self.first_slots(self.local.segments.offset)
        return np.repeat(values, np.diff(firsts, append=self.n))

    def first_slots(self, positions: Int64Array) -> Int64Array:
        """Return the slots of the first gaps at or after held positions."""
        slots = np.zeros(len(positions), np.int64)
        if self.length:
            positions = np.ascontiguousarray(positions)
            _mapmaking.first_slots(self.bits, self.length, _CHUNK, self._before, positions, slots)
        return slots

    def write_slots(self, pixels: Int32Array, segment: Segment, start: int) -> None:
        """Replace negative pixels of a segment's samples from `start` on by ~slot."""
        position = segment.offset + start - segment.start
        since = start - self.layout.streams[segment.stream].start
        base = int(self.first_slots(np.array([position]))[0])
        _mapmaking.number_gaps(self.length, since, base, pixels)

    def by_segment(self) -> Int64Array:
        """Return how many recorded samples are outputs of this rank in each segment, and how many are gaps.

        int64 (n_segment, 2).
        """
        segments, blocks = self.local.segments, self.local.blocks
        numbers = blocks[:, 5]
        streams = self.layout.streams.columns(segments.stream[numbers])
        # samples of an observation minus positions among the held ones
        shifts = (segments.start - segments.offset)[numbers]
        start, margin = blocks[:, 0] + blocks[:, 2] + shifts, self.layout.margin
        begin = np.maximum(start, streams.start + margin)
        end = np.maximum(np.minimum(start + blocks[:, 3], streams.stop - margin), begin)
        found = np.zeros(len(blocks), np.int64)
        _mapmaking.count_gaps(self.bits, begin - shifts, end - shifts, found)
        counts = np.zeros((len(segments), 2), np.int64)
        np.add.at(counts, numbers, np.stack([end - begin, found], axis=1))
        return counts
