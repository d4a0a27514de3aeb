"""Samples of files, read in large pieces by a thread that is ahead of those who ask for them."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

from petacomm.base.errors import STOPS
from petacomm.base.host import return_free_memory
from petacomm.base.threads import await_result
from petacomm.base.typing import AnyArray

PIECE = 1 << 18  # samples: two megabytes of float64
SHORT = 1 << 15  # samples of an interval that is read as it is asked for
_KEPT = 3  # pieces for each thread that asks: a block of the map-maker and its halos lie in two
_AHEAD = 2  # pieces
_PARTS = 3  # parts of files for each thread that asks: signal and flags, which are read in turns


class Place(NamedTuple):
    """Samples [start, stop) of rows [first, last)."""

    first: int
    last: int
    start: int
    stop: int


class ReadAhead:
    """Samples of the detectors of an observation in a file, which are asked for in their order.

    A piece is `PIECE` samples of a row, or less of whole chunks, or all rows where they are no more. A thread
    reads those that follow what is asked for. What it fails to read is read again by those who ask: errors
    come from there, and name what was asked for.

    Parameters
    ----------
    read : callable
        Function of a `Place` that returns its samples, (last - first, stop - start). Called by any thread.
    n_rows, n_samp : int
    intervals : sequence of (int, int)
        Samples that will be asked for if nothing else is announced: interval by interval, row by row in each.
    name : str
        File and part, the same on all ranks.
    grain : int
        Samples that are read together, from multiples of it on.
    sample_bytes : int
        Of a sample as `read` returns it.
    """

    def __init__(
        self,
        read: Callable[[Place], AnyArray],
        n_rows: int,
        n_samp: int,
        intervals: Sequence[tuple[int, int]],
        name: str = "",
        grain: int = 1,
        sample_bytes: int = 8,
    ) -> None:
        self.read = read
        self.name, self.grain, self.n_samp, self.sample_bytes = name, grain, n_samp, sample_bytes
        self._n_rows = n_rows
        self.whole = Place(0, n_rows, 0, n_samp) if n_rows * n_samp <= PIECE else None
        self._announced: dict[int, list[tuple[int, int]]] | None = None
        self._following: dict[tuple[int, int], tuple[int, int]] = {}
        self._begun: set[tuple[int, int]] = set()
        self._shared: dict[int, list[tuple[int, int, AnyArray]]] = {}
        self._intervals = [one for one in intervals if one[1] - one[0] >= SHORT]
        self._starts = [start for start, _ in self._intervals]
        self._row, self._in_order = 0, True

    def announce(self, ranges: Iterable[Place], shared: Iterable[tuple[Place, AnyArray]]) -> None:
        """Tell what will be asked for, in this order, and what of it is in memory, until `forget_pieces`.

        Parameters
        ----------
        ranges : iterable of Place
            Each of one row; of a row, increasing.
        shared : iterable of (Place, array)
            Places and their samples, (last - first, stop - start).
        """
        self.withdraw()
        self._announced = {}
        for place, values in shared:
            for row in range(place.first, place.last):
                self._shared.setdefault(row, []).append((place.start, place.stop, values[row - place.first]))
        for parts in self._shared.values():
            parts.sort(key=lambda part: part[0])
        left: list[tuple[int, int]] = []
        for row, _, start, stop in ranges:
            for begin, end in self._not_shared(row, start, stop):
                self._announced.setdefault(row, []).append((begin, end))
                left.append((row, begin))
        self._following = dict(pairwise(left))

    def _not_shared(self, row: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
        for first, last, _ in self._shared.get(row, ()):
            if start < min(first, stop):
                yield start, min(first, stop)
            start = max(start, last) if first < stop else start
        if start < stop:
            yield start, stop

    def withdraw(self) -> None:
        """Forget what was announced."""
        self._announced, self._following, self._begun, self._shared = None, {}, set(), {}

    def parts(self, row: int, start: int, stop: int) -> Iterator[tuple[slice, AnyArray]]:
        """Yield parts of samples [start, stop) of a row: their places among these, and values, (n,).

        Raises
        ------
        UserError
            That of `read`.
        """
        if row != self._row:
            self._row, self._in_order = row, row == self._row + 1
        begin = start
        while start < stop:
            if (known := self._in_memory(row, start)) is not None:
                first, last, shared = known
                end = min(stop, last)
                yield slice(start - begin, end - begin), shared[start - first : end - first]
                start = end
                continue
            place = self._place(row, start)
            end = stop if place is None else min(stop, place.stop)
            values = None if place is None else self._part(place, row, start, end)
            if values is None:
                values = self.read(Place(row, row + 1, start, end))[0]
            yield slice(start - begin, end - begin), values
            start = end

    def _place(self, row: int, sample: int) -> Place | None:
        """Return the piece with a sample; None where a sample is in no long interval."""
        if self.whole is not None:
            return self.whole
        found = self._range(row, sample)
        if found is None:
            return None
        start, stop = found
        length = PIECE // self.grain * self.grain or PIECE
        grid = sample // length * length
        return Place(row, row + 1, max(start, grid), min(stop, grid + length))

    def _range(self, row: int, sample: int) -> tuple[int, int] | None:
        """Return the range with a sample, of those that will be asked for; None if there is none."""
        ranges = self._intervals if self._announced is None else self._announced.get(row, [])
        number = bisect_right(ranges, sample, key=lambda one: one[0]) - 1
        return ranges[number] if number >= 0 and sample < ranges[number][1] else None

    def _in_memory(self, row: int, sample: int) -> tuple[int, int, AnyArray] | None:
        """Return shared samples among which one is, and their range."""
        parts = self._shared.get(row, [])
        number = bisect_right(parts, sample, key=lambda part: part[0]) - 1
        return parts[number] if number >= 0 and sample < parts[number][1] else None

    def _next(self, place: Place) -> Place | None:
        """Return the piece that will be asked for after another."""
        if self.whole is not None:
            return None
        row = place.first
        if self._announced is not None:
            return self._next_announced(place)
        number = bisect_right(self._starts, place.start) - 1
        if place.stop < self._intervals[number][1]:
            return self._place(row, place.stop)
        if not self._in_order:
            return None
        if row + 1 < self._n_rows:
            return self._place(row + 1, self._starts[number])
        return self._place(0, self._starts[number + 1]) if number + 1 < len(self._starts) else None

    def _next_announced(self, place: Place) -> Place | None:
        found = self._range(place.first, place.start)
        if found is None:
            return None
        if place.stop < found[1]:
            return self._place(place.first, place.stop)
        following = self._following.get((place.first, found[0]))
        # What another thread has begun, it reads.
        return None if following is None or following in self._begun else self._place(*following)

    def _part(self, place: Place, row: int, start: int, stop: int) -> AnyArray | None:
        """Return samples of a piece, and have the next ones read; None if it could not be read."""
        if self._announced is not None and (found := self._range(row, start)):
            self._begun.add((row, found[0]))
        wanted, following = [place], self._next(place)
        while following is not None and len(wanted) <= _AHEAD:
            wanted.append(following)
            following = self._next(following)
        try:
            values = await_result(_pieces.get(self, wanted))
        except STOPS:
            raise
        except Exception:  # another part of the piece may be at fault
            return None
        part: AnyArray = values[row - place.first, start - place.start : stop - place.start]
        return part


class _Pieces:
    """Pieces that were read or are being read: a few of each of a few parts of files, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[ReadAhead, OrderedDict[Place, Future[AnyArray]]] = OrderedDict()
        self._askers: set[int] = set()
        self._thread = ThreadPoolExecutor(1, "read-ahead")

    def get(self, rows: ReadAhead, wanted: Sequence[Place]) -> Future[AnyArray]:
        """Return the first of some pieces; the thread reads all of them, in their order."""
        with self._lock:
            self._askers.add(threading.get_ident())
            found = self._found.setdefault(rows, OrderedDict())
            self._found.move_to_end(rows)
            for place in wanted:
                if place in found:
                    found.move_to_end(place)
                else:
                    found[place] = self._thread.submit(rows.read, place)
            first = found[wanted[0]]
            while len(found) > _KEPT * len(self._askers) + _AHEAD:
                found.popitem(last=False)
            while len(self._found) > _PARTS * len(self._askers):
                self._found.popitem(last=False)
        return first

    def forget(self) -> None:
        """Forget all pieces."""
        with self._lock:
            self._found.clear()
            self._askers.clear()


_pieces = _Pieces()
announced: list[ReadAhead] = []  # of which this pass has announced samples


def forget_pieces() -> None:
    """Free the memory of pieces, and forget what was announced, when a pass over the samples is done."""
    _pieces.forget()
    while announced:
        announced.pop().withdraw()
    return_free_memory()


def _begin_anew() -> None:
    """Forget pieces and thread: a process that was forked has none."""
    global _pieces
    _pieces = _Pieces()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
