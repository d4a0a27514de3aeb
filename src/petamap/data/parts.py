"""Parts of the data, each of which has a map of its own: which samples of a detector are in which part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array

# Samples in no part, which lie outside all maps.
NO_PART = -1


@dataclass(frozen=True, eq=False)
class PartRuns:
    """Parts of the samples of a detector, constant over runs of samples.

    Attributes
    ----------
    starts : int64 (n_runs,)
        First sample of each run, increasing from 0; a run ends where the next one begins.
    parts : int64 (n_runs,)
        `NO_PART` for samples in none.
    """

    starts: Int64Array
    parts: Int64Array

    @staticmethod
    def constant(part: int) -> PartRuns:
        """Return the runs of a detector of which all samples are in one part."""
        return PartRuns(np.zeros(1, np.int64), np.array([part], np.int64))

    def among(self, start: int, stop: int) -> Int64Array:
        """Return the parts that samples [start, stop) are in, increasing."""
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        return np.unique(self.parts[max(first, 0) : np.searchsorted(self.starts, stop)])

    def within(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield begin, end and part of the runs of samples [start, stop)."""
        ends = [*self.starts[1:].tolist(), stop]
        for begin, end, part in zip(self.starts.tolist(), ends, self.parts.tolist(), strict=True):
            if max(begin, start) < min(end, stop):
                yield max(begin, start), min(end, stop), part

    def joined(self) -> PartRuns:
        """Return the runs with all parts as one."""
        return PartRuns(self.starts, np.minimum(self.parts, 0))


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of the data of a run.

    Attributes
    ----------
    names : tuple of str
        Of the parts, in the order of their numbers.
    of : callable
        Returns the `PartRuns` of an observation and a detector, by their numbers.
    """

    names: tuple[str, ...]
    of: Callable[[int, int], PartRuns]

    @property
    def n(self) -> int:
        """Number of parts."""
        return len(self.names)

    def joined(self) -> Parts:
        """Return all parts as one."""
        return Parts(("all",), lambda observation, detector: self.of(observation, detector).joined())
