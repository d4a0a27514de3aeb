"""Derived MPI datatypes made from NumPy views, and persistent exchanges that use them.

A NumPy view describes all that a strided datatype can: which elements, and in which order. Elements are sent
in the order of the view's axes, so the datatype of a transposed view transposes.
"""

from __future__ import annotations

import contextlib
import functools
import math
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.mpi import message_size as messages
from petacomm.mpi.communicator import MpiCommunicator
from petacomm.mpi.persistent import RequestExchange

_TAG = 31


class TypedBuffer(NamedTuple):
    """Buffer specification of a message, as mpi4py takes it: memory, count and datatype."""

    memory: Any
    n: int
    datatype: Any


class Datatypes:
    """Committed datatypes of a plan: equal ones are made once, all are freed with it. Not collective.

    Parameters
    ----------
    comm : MpiCommunicator
    """

    def __init__(self, comm: MpiCommunicator) -> None:
        self._mpi = comm.mpi
        self._types: dict[Hashable, Any] = {}
        self.free = weakref.finalize(self, _free_all, self._mpi, self._types)

    def __len__(self) -> int:
        return len(self._types)

    def strided(self, view: AnyArray) -> TypedBuffer:
        """Return the buffer of a view (any shape), whose elements are sent in the order of its axes.

        The datatype is one slice along the first axis; its extent is the stride of that axis, which may be
        less than the span of the slice: then slices interleave. Views that differ only in their number of
        slices share their datatype.
        """
        count, stride = (view.shape[0], view.strides[0]) if view.ndim else (1, view.itemsize)
        inner = (tuple(view.shape[1:]), tuple(view.strides[1:]))
        key = ("slice", view.itemsize, *inner, stride)
        datatype = self._cached(key, lambda: self._vectors(view.itemsize, *inner).Create_resized(0, stride))
        return TypedBuffer(_memory(self._mpi, view), count, datatype)

    def subarray(self, array: AnyArray, part: AnyArray) -> Any:
        """Return the subarray datatype of the box `part` of a C-contiguous array, relative to its begin."""
        begins = np.unravel_index(_offset(array, part) // array.itemsize, array.shape)
        key = ("subarray", array.itemsize, array.shape, part.shape, begins)
        return self._cached(
            key, lambda: self._element(array.itemsize).Create_subarray(array.shape, part.shape, list(begins))
        )

    def strided_part(self, array: AnyArray, part: AnyArray) -> Any:
        """Return the datatype of a view of any strides, relative to the begin of `array`."""
        buffer, offset = self.strided(part), _offset(array, part)
        key = ("within", part.itemsize, part.shape, part.strides, offset)
        return self._cached(key, lambda: buffer.datatype.Create_hindexed([buffer.n], [offset]))

    def row_blocks(
        self,
        values: AnyArray,
        first: int,
        length: int,
        starts: Sequence[int] = (0,),
        loops: Sequence[tuple[int, int]] = (),
    ) -> TypedBuffer:
        """Return blocks of rows of a C-contiguous array: a contiguous, vector or indexed-block datatype.

        Parameters
        ----------
        values : array (any, k)
        first : int
            First row of the first block.
        length : int
            Rows of a block.
        starts : sequence of int
            First row of each block, relative to `first`.
        loops : sequence of (int, int)
            Repetitions and stride in rows of the loops around the blocks, outermost first.
        """
        row_bytes = values.shape[1] * values.itemsize
        datatype = self._element(length * row_bytes)
        if len(starts) > 1:
            offsets = [start * row_bytes for start in starts]
            make = functools.partial(datatype.Create_hindexed_block, 1, offsets)
            datatype = self._cached(("indexed", length * row_bytes, tuple(offsets)), make)
        for i in range(len(loops) - 1, -1, -1):
            times, stride = loops[i]
            make = functools.partial(datatype.Create_hvector, times, 1, stride * row_bytes)
            inner = ("loops", row_bytes, length, tuple(starts), tuple(loops[i:]))
            datatype = self._cached(inner, make)
        n_bytes = values.nbytes - first * row_bytes
        memory = self._mpi.memory.fromaddress(_address(values) + first * row_bytes, n_bytes)
        return TypedBuffer(memory, 1, datatype)

    def row_runs(self, values: AnyArray, starts: AnyArray, lengths: AnyArray) -> TypedBuffer:
        """Return runs of rows of a C-contiguous array (any, k), each of its own length: an indexed datatype.

        Parameters
        ----------
        values : array (any, k)
        starts, lengths : integer arrays (n_runs,)
            First row and number of rows of each run.
        """
        row_bytes = values.shape[1] * values.itemsize
        shifts = ((starts - starts[0]) * row_bytes).tolist()
        memory = self._mpi.memory.fromaddress(_address(values), values.nbytes)[int(starts[0]) * row_bytes :]
        if len(set(lengths.tolist())) == 1:
            make = functools.partial(
                self._element(int(lengths[0]) * row_bytes).Create_hindexed_block, 1, shifts
            )
        else:
            make = functools.partial(self._element(row_bytes).Create_hindexed, lengths.tolist(), shifts)
        # No two messages of a plan have the same rows: searching for an equal datatype would gain nothing.
        return TypedBuffer(memory, 1, self._cached(("runs", len(self._types)), make))

    def _cached(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._types:
            self._types[key] = make().Commit()
        return self._types[key]

    def _element(self, n_bytes: int) -> Any:
        """Return a datatype of `n_bytes` contiguous bytes; it consists of the largest words, for speed."""
        mpi = self._mpi
        words = {1: mpi.UINT8_T, 2: mpi.UINT16_T, 4: mpi.UINT32_T, 8: mpi.UINT64_T, 16: mpi.C_DOUBLE_COMPLEX}
        word = math.gcd(n_bytes, 16)
        return (
            words[word]
            if n_bytes == word
            else self._cached(("element", n_bytes), lambda: words[word].Create_contiguous(n_bytes // word))
        )

    def _vectors(self, itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """Return nested vector datatypes, innermost axis first; adjacent axes are merged."""
        block, loops = merged_loops(itemsize, shape, strides)
        datatype = self._element(block)
        for i, (n, stride) in enumerate(loops):
            make = functools.partial(datatype.Create_hvector, n, 1, stride)
            datatype = self._cached(("vector", block, tuple(loops[: i + 1])), make)
        return datatype


class MessageExchange(RequestExchange):
    """Persistent point-to-point messages between fixed buffers.

    Parameters
    ----------
    comm : MpiCommunicator
    receives, sends : sequence of (int, TypedBuffer or array)
        The other rank, and the buffer of a message from it or to it. Two ranks list the messages between them
        in the same order. No message is larger than `message_size.MESSAGE_BYTES`.
    types : Datatypes, optional
        Freed with the exchange.
    """

    def __init__(
        self,
        comm: MpiCommunicator,
        receives: Sequence[tuple[int, Any]],
        sends: Sequence[tuple[int, Any]],
        types: Datatypes | None = None,
    ) -> None:
        # Receives first, so that no message arrives unexpected.
        requests = [comm.mpi_comm.Recv_init(buffer, other, _TAG) for other, buffer in receives]
        requests += [comm.mpi_comm.Send_init(buffer, other, _TAG) for other, buffer in sends]
        super().__init__(comm, requests, types)


class AlltoallwExchange(RequestExchange):
    """All-to-alls with a datatype for each rank, persistent where the MPI library has that. Collective.

    Parameters
    ----------
    comm : MpiCommunicator
    source, target : array
        Buffers that are read and written.
    rounds : sequence of (dict of int to datatype, dict of int to datatype)
        For each call, the datatypes by rank of the parts of `source` that are sent and of the parts of
        `target` that are received.
    types : Datatypes
        Freed with the exchange.
    """

    def __init__(
        self,
        comm: MpiCommunicator,
        source: AnyArray,
        target: AnyArray,
        rounds: Sequence[tuple[dict[int, Any], dict[int, Any]]],
        types: Datatypes,
    ) -> None:
        def arguments(array: AnyArray, parts: dict[int, Any]) -> list[Any]:
            datatypes = [parts.get(other, comm.mpi.BYTE) for other in range(comm.size)]
            counts = [int(other in parts) for other in range(comm.size)]
            return [_memory(comm.mpi, array), counts, [0] * comm.size, datatypes]

        self._comm = comm.mpi_comm
        self._calls = [(arguments(source, sends), arguments(target, receives)) for sends, receives in rounds]
        requests: list[Any] = []
        with contextlib.suppress(NotImplementedError):
            requests += [self._comm.Alltoallw_init(*call) for call in self._calls]
        super().__init__(comm, requests, types)
        self._persistent = bool(requests)

    def start(self) -> None:
        if self._persistent:
            super().start()
        else:
            self._requests[:] = [self._comm.Ialltoallw(*call) for call in self._calls]


class NeighborAlltoallwExchange(RequestExchange):
    """Neighbourhood all-to-all with a datatype for each edge, persistent where MPI has that. Collective.

    Parameters
    ----------
    comm : MpiCommunicator
    receives, sends : sequence of (int, TypedBuffer)
        As for `MessageExchange`.
    types : Datatypes
        Freed with the exchange.
    """

    def __init__(
        self,
        comm: MpiCommunicator,
        receives: Sequence[tuple[int, TypedBuffer]],
        sends: Sequence[tuple[int, TypedBuffer]],
        types: Datatypes,
    ) -> None:
        self._graph = comm.mpi_comm.Create_dist_graph_adjacent(
            [other for other, _ in receives], [other for other, _ in sends], reorder=False
        )

        def arguments(edges: Sequence[tuple[int, TypedBuffer]]) -> list[Any]:
            buffers = [buffer for _, buffer in edges]
            begins = [buffer.memory.address for buffer in buffers]
            begin = min(begins, default=0)
            end = max((buffer.memory.address + buffer.memory.nbytes for buffer in buffers), default=0)
            memory = comm.mpi.memory.fromaddress(begin, end - begin)
            counts, datatypes = [buffer.n for buffer in buffers], [buffer.datatype for buffer in buffers]
            return [memory, counts, [at - begin for at in begins], datatypes]

        self._call = arguments(sends), arguments(receives)
        requests: list[Any] = []
        with contextlib.suppress(NotImplementedError):
            requests.append(self._graph.Neighbor_alltoallw_init(*self._call))
        self._persistent = bool(requests)
        super().__init__(comm, requests, types)
        self._frees.append(self._graph.Free)

    def start(self) -> None:
        if self._persistent:
            super().start()
        else:
            self._requests[:] = [self._graph.Ineighbor_alltoallw(*self._call)]


def message_pieces(view: AnyArray, axis: int = 0) -> Iterator[AnyArray]:
    """Yield parts of a view of at most `MESSAGE_BYTES`, cut along its first axes as the other rank does."""
    if view.nbytes <= messages.MESSAGE_BYTES or axis == view.ndim:
        if view.size:
            yield view
        return
    slices = max(1, messages.MESSAGE_BYTES // (view.nbytes // view.shape[axis]))
    for begin in range(0, view.shape[axis], slices):
        cut = (slice(None),) * axis + (slice(begin, begin + slices),)
        yield from message_pieces(view[cut], axis + 1)


def _memory(mpi: Any, view: AnyArray) -> Any:
    """Return the memory that a view spans, by address: a plan must not keep arrays of its user alive."""
    reach = sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
    return mpi.memory.fromaddress(_address(view), view.itemsize + reach if view.size else 0)


def _address(view: AnyArray) -> int:
    return int(view.__array_interface__["data"][0])


def _offset(array: AnyArray, part: AnyArray) -> int:
    return _address(part) - _address(array)


def merged_loops(
    itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, list[tuple[int, int]]]:
    """Return the bytes of a contiguous block, and (length, stride) of its loops, innermost first."""
    loops: list[tuple[int, int]] = []
    block = itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if not loops and stride == block:
            block *= n
        elif loops and stride == loops[-1][0] * loops[-1][1]:
            loops[-1] = (loops[-1][0] * n, loops[-1][1])
        else:
            loops.append((n, stride))
    return block, loops


def _free_all(mpi: Any, types: dict[Hashable, Any]) -> None:
    if not mpi.Is_finalized():
        for datatype in types.values():
            if datatype != mpi.DATATYPE_NULL:
                datatype.Free()
    types.clear()
