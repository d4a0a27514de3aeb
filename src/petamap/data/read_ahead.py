"""Samples of files, read in large pieces by a thread that is ahead of those who ask for them."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from petacomm.base.errors import STOPS
from petacomm.base.host import return_free_memory
from petacomm.base.threads import await_result
from petacomm.base.typing import AnyArray

PIECE = 1 << 18  # samples: two megabytes of float64
_SHORT = 1 << 15  # samples of an interval that is read as it is asked for
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

    A piece is `PIECE` samples of a row, or all rows where they are no more. A thread reads those that follow
    what is asked for. What it fails to read is read again by those who ask: errors come from there, and name
    what was asked for.

    Parameters
    ----------
    read : callable
        Function of a `Place` that returns its samples, (last - first, stop - start). Called by any thread.
    n_rows, n_samp : int
    intervals : sequence of (int, int)
        Samples that will be asked for: interval by interval, row by row in each.
    """

    def __init__(
        self,
        read: Callable[[Place], AnyArray],
        n_rows: int,
        n_samp: int,
        intervals: Sequence[tuple[int, int]],
    ) -> None:
        self.read = read
        self._n_rows = n_rows
        self._whole = Place(0, n_rows, 0, n_samp) if n_rows * n_samp <= PIECE else None
        self._intervals = [one for one in intervals if one[1] - one[0] >= _SHORT]
        self._starts = [start for start, _ in self._intervals]
        self._row, self._in_order = 0, True

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
            place = self._place(row, start)
            end = stop if place is None else min(stop, place.stop)
            values = None if place is None else self._part(place, row, start, end)
            if values is None:
                values = self.read(Place(row, row + 1, start, end))[0]
            yield slice(start - begin, end - begin), values
            start = end

    def _place(self, row: int, sample: int) -> Place | None:
        """Return the piece with a sample; None where a sample is in no long interval."""
        if self._whole is not None:
            return self._whole
        number = bisect_right(self._starts, sample) - 1
        if number < 0 or sample >= self._intervals[number][1]:
            return None
        start, stop = self._intervals[number]
        grid = sample // PIECE * PIECE
        return Place(row, row + 1, max(start, grid), min(stop, grid + PIECE))

    def _next(self, place: Place) -> Place | None:
        """Return the piece that will be asked for after another."""
        if self._whole is not None:
            return None
        row, number = place.first, bisect_right(self._starts, place.start) - 1
        if place.stop < self._intervals[number][1]:
            return self._place(row, place.stop)
        if not self._in_order:
            return None
        if row + 1 < self._n_rows:
            return self._place(row + 1, self._starts[number])
        return self._place(0, self._starts[number + 1]) if number + 1 < len(self._starts) else None

    def _part(self, place: Place, row: int, start: int, stop: int) -> AnyArray | None:
        """Return samples of a piece, and have the next ones read; None if it could not be read."""
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


def forget_pieces() -> None:
    """Free the memory of pieces, when a pass over the samples is done."""
    _pieces.forget()
    return_free_memory()


def _begin_anew() -> None:
    """Forget pieces and thread: a process that was forked has none."""
    global _pieces
    _pieces = _Pieces()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
