"""Gaps: samples that must not enter the map, and the unknowns in their place."""

from __future__ import annotations

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.typing import BoolArray, Int32Array, Int64Array, UInt8Array
from petamap.mapmaking.time_layout import ALIGNMENT, LocalBlocks, Segment, TimeLayout

_LENGTHS = {"exact": 1, "levels": ALIGNMENT, "cut": 0}


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
        One bit per sample, the lowest first.
    numbered : bool
        Whether there are gaps and they have slots.
    """

    def __init__(self, layout: TimeLayout, local: LocalBlocks, kind: str) -> None:
        self.layout = layout
        self.local = local
        self.length = _LENGTHS[kind]
        self.bits = np.zeros(-(-local.n_held // 8), np.uint8)
        self.numbered = False
        self._starts = np.zeros(0, np.int64)

    def __bool__(self) -> bool:
        return bool(self.bits.any())

    def add(self, position: int, gaps: BoolArray) -> None:
        """Mark gaps among consecutive held samples from a position that is a multiple of 8."""
        bits = np.packbits(gaps, bitorder="little")
        self.bits[position // 8 : position // 8 + len(bits)] |= bits

    def among(self, position: int, n: int) -> UInt8Array:
        """Return 1 for each of n held samples that is a gap."""
        bits = self.bits[position // 8 : -(-(position + n) // 8)]
        return np.unpackbits(bits, bitorder="little")[position % 8 : position % 8 + n]

    @property
    def n(self) -> int:
        """Number of unknowns, once numbered; with "cut", one that stays zero."""
        return len(self._starts) if self.length else 1

    def count(self) -> int:
        """Return the number of unknowns that the gaps marked so far make."""
        return sum(len(self._slots(segment)) for segment in self.local.segments) if self.length else 1

    def number(self) -> Int64Array:
        """Assign numbers to the slots; return the keys of the unknowns: positions among all samples."""
        if self.length:
            slots = [self._slots(segment) for segment in self.local.segments]
            self._starts = np.concatenate([*slots, np.zeros(0, np.int64)])
        self.numbered = bool(self)
        return self.keys()

    def _slots(self, segment: Segment) -> Int64Array:
        """Return the first held position of each slot of a segment."""
        gaps = np.flatnonzero(self.among(segment.offset, segment.stop - segment.start))
        # segments begin at a multiple of the longest gap after their stream
        begins = np.ones(len(gaps), bool)
        begins[1:] = (np.diff(gaps) > 1) | (gaps[1:] % self.length == 0)
        return gaps[begins] + segment.offset

    def keys(self) -> Int64Array:
        """Return the keys of the unknowns, once numbered: positions among all samples."""
        segments, streams = self.local.segments, self.layout.streams
        shifts = streams.keys(segments.stream) - streams.columns(segments.stream).start
        shifts += segments.start - segments.offset
        keys = np.repeat(shifts, self._slots_of_segments())
        keys += self._starts
        return keys

    def segments(self) -> Int64Array:
        """Return the segment of each slot."""
        return np.repeat(np.arange(len(self.local.segments)), self._slots_of_segments())

    def _slots_of_segments(self) -> Int64Array:
        """Return how many slots each segment has; they are numbered in the order of the held samples."""
        ends = np.concatenate([self.local.segments.offset, [self.local.n_held]])
        return np.diff(np.searchsorted(self._starts, ends))

    def first_slot(self, position: int) -> int:
        """Return the slot of the first gap at or after a held position."""
        before = int(np.searchsorted(self._starts, position, side="right"))
        is_gap = self.bits[position // 8] >> (position % 8) & 1
        return before - int(is_gap) if self.length else 0

    def write_slots(self, pixels: Int32Array, segment: Segment, start: int) -> None:
        """Replace negative pixels of a segment's samples from `start` on by ~slot."""
        position = segment.offset + start - segment.start
        since = start - self.layout.streams[segment.stream].start
        _mapmaking.number_gaps(self.length, since, self.first_slot(position), pixels)

    def by_segment(self) -> Int64Array:
        """Return how many recorded samples are outputs of this rank in each segment, and how many are gaps.

        int64 (n_segment, 2).
        """
        counts = np.zeros((len(self.local.segments), 2), np.int64)
        for first, _, n_left, n_out, _, number in self.local.blocks.tolist():
            segment = self.local.segments[number]
            start = segment.start + first + n_left - segment.offset
            begin, end = self.layout.streams[segment.stream].recorded_range(start, start + n_out)
            n = max(0, end - begin)
            counts[number] += n, int(self.among(segment.offset + begin - segment.start, n).sum())
        return counts
