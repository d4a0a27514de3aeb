"""What was found in the streams of an observation: flags of glitches, and offsets after steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array, UInt8Array
from petamap.data.observation import Observation
from petamap.data.template import TemplateTerm


@dataclass(frozen=True, eq=False)
class GlitchFlags:
    """Ranges of samples of each detector (implements `Flags`).

    Attributes
    ----------
    ranges : mapping of int to int64 (n, 2)
        Ranges [start, stop) of a detector, increasing and disjoint; none of those left out.
    """

    ranges: Mapping[int, Int64Array]
    unsound = True

    def or_flags(self, detector: int, start: int, stop: int, out: UInt8Array) -> None:
        """Set `out`, uint8 (stop - start,), to 1 for samples of [start, stop) in a range."""
        if (ranges := self.ranges.get(detector)) is None:
            return
        first, last = np.searchsorted(ranges[:, 1], start, "right"), np.searchsorted(ranges[:, 0], stop)
        for begin, end in ranges[int(first) : int(last)].tolist():
            out[max(begin - start, 0) : end - start] = 1


@dataclass(frozen=True, eq=False)
class StepOffsets:
    """Offset of a detector after each of its steps, from the level at the interval's start (a `Template`).

    Attributes
    ----------
    detector : int
    steps : int64 (n,)
        First sample of each new level, increasing.
    """

    detector: int
    steps: Int64Array

    name = "steps"

    def concerns(self, detector: int, start: int, stop: int) -> bool:
        """Return whether the detector has a step in an interval."""
        return detector == self.detector and len(self._within(start, stop)) > 0

    def term(self, observation: Observation, start: int, stop: int) -> TemplateTerm:
        """Return a constant from each step to the next one, or to the end of the interval."""
        return TemplateTerm("constant", 1, np.append(self._within(start, stop) - start, stop - start))

    def _within(self, start: int, stop: int) -> Int64Array:
        return self.steps[(self.steps > start) & (self.steps < stop)]


def united_ranges(ranges: Int64Array) -> Int64Array:
    """Return the union of ranges [start, stop), int64 (n, 2), as increasing and disjoint ones."""
    ordered = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reached = np.maximum.accumulate(ordered[:, 1])
    first = np.flatnonzero(np.concatenate([[True], ordered[1:, 0] > reached[:-1]]))
    last = np.append(first[1:], len(ordered)) - 1
    return np.stack([ordered[first, 0], reached[last]], axis=1)
