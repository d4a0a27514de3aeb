"""Datatypes of MPI: bytes that lie apart, said once, so that MPI reads and writes them where they are.

A NumPy view says all that a strided type can: which elements, and in which order. So types are made from
views; the order of a view's axes is the order in which its elements travel, and a transposed view is a type
that transposes.
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

_TAG = 31
# Buffers of plans that were dropped while messages were on their way: MPI may still write to them.
_dropped: list[Any] = []


class Place(NamedTuple):
    """Elements of a message where they lie: a buffer, as mpi4py takes it."""

    memory: Any
    n: int
    datatype: Any


class Datatypes:
    """The datatypes of a plan: equal ones are made once, all are freed with it. Not collective.

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

    def place(self, view: AnyArray) -> Place:
        """Return the elements of a view (any shape), to travel in the order of its axes.

        The type is one slice along the first axis; its extent is the stride of that axis, which may be less
        than the slice spans: then slices interleave. Views that differ in their number of slices alone share
        their type.
        """
        count, stride = (view.shape[0], view.strides[0]) if view.ndim else (1, view.itemsize)
        inner = (tuple(view.shape[1:]), tuple(view.strides[1:]))
        key = ("slice", view.itemsize, *inner, stride)
        datatype = self._known(key, lambda: self._strided(view.itemsize, *inner).Create_resized(0, stride))
        return Place(_memory(self._mpi, view), count, datatype)

    def subarray(self, whole: AnyArray, part: AnyArray) -> Any:
        """Return the type of a box of a C-contiguous array, where it lies in this: a subarray in C order."""
        begins = np.unravel_index(_offset(whole, part) // whole.itemsize, whole.shape)
        key = ("subarray", whole.itemsize, whole.shape, part.shape, begins)
        return self._known(
            key, lambda: self._element(whole.itemsize).Create_subarray(whole.shape, part.shape, list(begins))
        )

    def within(self, whole: AnyArray, part: AnyArray) -> Any:
        """Return the type of a view of an array, where it lies in this: any strides, any order of axes."""
        place, offset = self.place(part), _offset(whole, part)
        key = ("within", part.itemsize, part.shape, part.strides, offset)
        return self._known(key, lambda: place.datatype.Create_hindexed([place.n], [offset]))

    def rows(
        self,
        values: AnyArray,
        first: int,
        length: int,
        starts: Sequence[int] = (0,),
        loops: Sequence[tuple[int, int]] = (),
    ) -> Place:
        """Return blocks of rows of a C-contiguous array (any, k): contiguous, a vector, or an indexed block.

        Parameters
        ----------
        values : array (any, k)
        first : int
            The first row of the first block.
        length : int
            Rows of a block.
        starts : sequence of int
            Where blocks start, in rows from the first one.
        loops : sequence of (int, int)
            Times and stride in rows of what repeats the blocks, outermost first.
        """
        row_bytes = values.shape[1] * values.itemsize
        datatype = self._element(length * row_bytes)
        if len(starts) > 1:
            offsets = [start * row_bytes for start in starts]
            make = functools.partial(datatype.Create_hindexed_block, 1, offsets)
            datatype = self._known(("indexed", length * row_bytes, tuple(offsets)), make)
        for i in range(len(loops) - 1, -1, -1):
            times, stride = loops[i]
            make = functools.partial(datatype.Create_hvector, times, 1, stride * row_bytes)
            inner = ("loops", row_bytes, length, tuple(starts), tuple(loops[i:]))
            datatype = self._known(inner, make)
        n_bytes = values.nbytes - first * row_bytes
        memory = self._mpi.memory.fromaddress(_address(values) + first * row_bytes, n_bytes)
        return Place(memory, 1, datatype)

    def runs(self, values: AnyArray, starts: AnyArray, lengths: AnyArray) -> Place:
        """Return runs of rows of a C-contiguous array (any, k), each of its own length: an indexed type."""
        row_bytes = values.shape[1] * values.itemsize
        shifts = ((starts - starts[0]) * row_bytes).tolist()
        memory = self._mpi.memory.fromaddress(_address(values), values.nbytes)[int(starts[0]) * row_bytes :]
        if len(set(lengths.tolist())) == 1:
            make = functools.partial(
                self._element(int(lengths[0]) * row_bytes).Create_hindexed_block, 1, shifts
            )
        else:
            make = functools.partial(self._element(row_bytes).Create_hindexed, lengths.tolist(), shifts)
        # Two ranks never get the same rows in one plan: nothing is gained by looking for equal ones.
        return Place(memory, 1, self._known(("runs", len(self._types)), make))

    def _known(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._types:
            self._types[key] = make().Commit()
        return self._types[key]

    def _element(self, n_bytes: int) -> Any:
        """Return a type of so many contiguous bytes; the largest words that fit are the quickest."""
        mpi = self._mpi
        words = {1: mpi.UINT8_T, 2: mpi.UINT16_T, 4: mpi.UINT32_T, 8: mpi.UINT64_T, 16: mpi.C_DOUBLE_COMPLEX}
        word = math.gcd(n_bytes, 16)
        return (
            words[word]
            if n_bytes == word
            else self._known(("element", n_bytes), lambda: words[word].Create_contiguous(n_bytes // word))
        )

    def _strided(self, itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """Return nested vectors, innermost axis first; axes that lie end to end are one."""
        block, loops = merged(itemsize, shape, strides)
        datatype = self._element(block)
        for i, (n, stride) in enumerate(loops):
            make = functools.partial(datatype.Create_hvector, n, 1, stride)
            datatype = self._known(("vector", block, tuple(loops[: i + 1])), make)
        return datatype


class _Requests:
    """Requests that are made once and started again and again. Freeing is not collective."""

    def __init__(self, comm: MpiCommunicator, requests: list[Any]) -> None:
        self._mpi = comm.mpi
        self._requests = requests
        # What MPI reads and writes while messages are on their way must live as long.
        self._flying: list[AnyArray] = []
        self.free = weakref.finalize(self, _free_requests, self._mpi, requests, self._flying)

    def start(self, *arrays: AnyArray) -> None:
        """Start all of them; `arrays` hold what is sent and received."""
        self._flying.extend(arrays)
        self._mpi.Prequest.Startall(self._requests)

    def wait(self) -> None:
        """Wait until all have arrived and have been sent."""
        self._mpi.Request.Waitall(self._requests)
        self._flying.clear()


class Messages(_Requests):
    """Point-to-point messages between fixed places.

    Parameters
    ----------
    comm : MpiCommunicator
    receives, sends : sequence of (int, Place or array)
        The other rank and what is received from it or sent to it. Two ranks name the messages between them in
        the same order. None is larger than `messages.MESSAGE_BYTES`.
    """

    def __init__(
        self, comm: MpiCommunicator, receives: Sequence[tuple[int, Any]], sends: Sequence[tuple[int, Any]]
    ) -> None:
        # Receives first, so that no message arrives unexpected.
        requests = [comm.mpi_comm.Recv_init(place, other, _TAG) for other, place in receives]
        requests += [comm.mpi_comm.Send_init(place, other, _TAG) for other, place in sends]
        super().__init__(comm, requests)


class Alltoallw(_Requests):
    """All-to-alls with a datatype for each rank, persistent where MPI has that. Collective.

    Parameters
    ----------
    comm : MpiCommunicator
    source, target : array
        What is read and written.
    rounds : sequence of (dict of int to datatype, dict of int to datatype)
        What goes to each rank and comes from it, where it lies in `source` and `target`.
    """

    def __init__(
        self,
        comm: MpiCommunicator,
        source: AnyArray,
        target: AnyArray,
        rounds: Sequence[tuple[dict[int, Any], dict[int, Any]]],
    ) -> None:
        def side(whole: AnyArray, types: dict[int, Any]) -> list[Any]:
            each = [types.get(other, comm.mpi.BYTE) for other in range(comm.size)]
            counts = [int(other in types) for other in range(comm.size)]
            return [_memory(comm.mpi, whole), counts, [0] * comm.size, each]

        self._comm = comm.mpi_comm
        self._calls = [(side(source, sends), side(target, receives)) for sends, receives in rounds]
        requests: list[Any] = []
        with contextlib.suppress(NotImplementedError):
            requests += [self._comm.Alltoallw_init(*call) for call in self._calls]
        super().__init__(comm, requests)
        self._persistent = bool(requests)

    def start(self, *arrays: AnyArray) -> None:
        """Start all calls."""
        if self._persistent:
            super().start(*arrays)
        else:
            self._flying.extend(arrays)
            self._requests[:] = [self._comm.Ialltoallw(*call) for call in self._calls]


class Neighbours(_Requests):
    """A neighbourhood collective with a datatype for each edge, persistent where MPI has that. Collective.

    Parameters
    ----------
    comm : MpiCommunicator
    receives, sends : sequence of (int, Place)
        As for `Messages`.
    """

    def __init__(
        self, comm: MpiCommunicator, receives: Sequence[tuple[int, Place]], sends: Sequence[tuple[int, Place]]
    ) -> None:
        self._graph = comm.mpi_comm.Create_dist_graph_adjacent(
            [other for other, _ in receives], [other for other, _ in sends], reorder=False
        )

        def side(places: Sequence[tuple[int, Place]]) -> list[Any]:
            begins = [place.memory.address for _, place in places]
            begin = min(begins, default=0)
            end = max((place.memory.address + place.memory.nbytes for _, place in places), default=0)
            whole = comm.mpi.memory.fromaddress(begin, end - begin)
            counts, types = [place.n for _, place in places], [place.datatype for _, place in places]
            return [whole, counts, [at - begin for at in begins], types]

        self._call = side(sends), side(receives)
        requests: list[Any] = []
        with contextlib.suppress(NotImplementedError):
            requests.append(self._graph.Neighbor_alltoallw_init(*self._call))
        self._persistent = bool(requests)
        super().__init__(comm, requests)
        weakref.finalize(self, _free_graph, comm.mpi, self._graph)

    def start(self, *arrays: AnyArray) -> None:
        """Start it."""
        if self._persistent:
            super().start(*arrays)
        else:
            self._flying.extend(arrays)
            self._requests[:] = [self._graph.Ineighbor_alltoallw(*self._call)]


def pieces(view: AnyArray, axis: int = 0) -> Iterator[AnyArray]:
    """Cut a view along its first axes into parts that no MPI finds too long; the same on both sides."""
    if view.nbytes <= messages.MESSAGE_BYTES or axis == view.ndim:
        if view.size:
            yield view
        return
    slices = max(1, messages.MESSAGE_BYTES // (view.nbytes // view.shape[axis]))
    for begin in range(0, view.shape[axis], slices):
        cut = (slice(None),) * axis + (slice(begin, begin + slices),)
        yield from pieces(view[cut], axis + 1)


def _memory(mpi: Any, view: AnyArray) -> Any:
    """Return what a view spans, by address: a plan must not keep the arrays of its user alive."""
    reach = sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
    return mpi.memory.fromaddress(_address(view), view.itemsize + reach if view.size else 0)


def _address(view: AnyArray) -> int:
    return int(view.__array_interface__["data"][0])


def _offset(whole: AnyArray, part: AnyArray) -> int:
    return _address(part) - _address(whole)


def merged(
    itemsize: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[int, list[tuple[int, int]]]:
    """Return the bytes of a block, and length and stride of the loops around it, innermost first."""
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


def _free_requests(mpi: Any, requests: list[Any], flying: list[AnyArray]) -> None:
    if mpi.Is_finalized() or not requests:
        return
    if flying and not mpi.Request.Testall(requests):
        _dropped.append((requests, list(flying)))
        return
    for request in requests:
        if request != mpi.REQUEST_NULL:
            request.Free()


def _free_graph(mpi: Any, graph: Any) -> None:
    if not mpi.Is_finalized():
        graph.Free()
