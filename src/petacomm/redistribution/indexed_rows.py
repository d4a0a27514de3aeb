"""Rows of a vector sent without packing, by indexed datatypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mpi import message_size as messages
from petacomm.mpi.communicator import MpiCommunicator
from petacomm.mpi.datatypes import Datatypes, MessageExchange, TypedBuffer
from petacomm.mpi.persistent import EmptyExchange, PersistentExchange, RequestExchange

PACKINGS = ("packed", "indexed", "auto")


class IndexedRowExchange(PersistentExchange):
    """Exchange of rows that are sent directly from a vector and received in rank order in a buffer.

    The vector is set by `bind` before each `start`. MPI objects are kept for the last vector, so calls with
    the same one are the fastest.

    Parameters
    ----------
    comm : MpiCommunicator
    starts, lengths : integer arrays (n_runs,)
        Runs of rows to send, in the order of their destination ranks.
    bounds : int64 (size + 1,)
        Begin of the runs for each rank.
    receive : array (n_received, k)
        Contiguous; it stays where it is.
    counts : int64 (size,)
        Rows from each rank, in rank order.
    """

    def __init__(
        self,
        comm: MpiCommunicator,
        starts: AnyArray,
        lengths: AnyArray,
        bounds: Int64Array,
        receive: AnyArray,
        counts: Int64Array,
    ) -> None:
        self._comm, self._receive, self._counts = comm, receive, counts
        self._runs = starts, lengths, bounds
        self._n_bytes = 0
        self._messages: EmptyExchange | RequestExchange = EmptyExchange()
        self._address = -1

    def bind(self, values: AnyArray) -> None:
        """Set the vector (n, k) whose rows the next `start` sends."""
        address = values.__array_interface__["data"][0]
        if address != self._address:
            self.free()
            self._address, self._messages = address, self._make_messages(values)
        self._messages.pin(values, self._receive)

    def start(self) -> None:
        self._comm.count_traffic("indexed", self._n_bytes, self._n_messages)
        self._messages.start()

    def wait(self) -> None:
        self._messages.wait()

    def free(self) -> None:
        self._messages.free()

    def _make_messages(self, values: AnyArray) -> MessageExchange:
        types = Datatypes(self._comm)
        self._n_bytes = self._n_messages = 0
        starts, lengths, bounds = self._runs
        row_bytes = values.shape[1] * values.itemsize
        most = max(1, messages.MESSAGE_BYTES // max(1, row_bytes))
        sends: list[tuple[int, TypedBuffer]] = []
        for other in np.flatnonzero(np.diff(bounds)).tolist():
            runs = slice(bounds[other], bounds[other + 1])
            run_starts, n_rows = starts[runs].astype(np.int64), lengths[runs].astype(np.int64)
            sends += [
                (other, types.row_runs(values, *part)) for part in _split_runs(run_starts, n_rows, most)
            ]
            if other != self._comm.rank:
                self._n_bytes += int(n_rows.sum()) * row_bytes
                self._n_messages += 1
        receives: list[tuple[int, Any]] = []
        ends = np.cumsum(self._counts)
        for other in np.flatnonzero(self._counts).tolist():
            begin, end = int(ends[other] - self._counts[other]), int(ends[other])
            parts = [self._receive[i : min(i + most, end)] for i in range(begin, end, most)]
            receives += [(other, part.reshape(-1).view(np.uint8)) for part in parts]
        return MessageExchange(self._comm, receives, sends, types)


def _split_runs(starts: Int64Array, lengths: Int64Array, most: int) -> list[tuple[Int64Array, Int64Array]]:
    """Split runs into lists of `most` rows each; the last list may have fewer."""
    ends = np.cumsum(lengths)
    cuts = np.arange(most, ends[-1], most)
    if len(cuts):
        begins = ends - lengths
        at = np.union1d(begins, cuts)
        run = np.searchsorted(begins, at, "right") - 1
        starts = starts[run] + at - begins[run]
        lengths = np.diff(np.append(at, ends[-1]))
        split = np.searchsorted(at, cuts)
        return list(zip(np.split(starts, split), np.split(lengths, split), strict=True))
    return [(starts, lengths)]
