"""Exchanges of the parts of an array between two layouts: packed, by datatypes, or through shared memory.

All of them give the same bits; only their times differ.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.mpi.communicator import Communicator, MpiCommunicator
from petacomm.mpi.datatypes import AlltoallwExchange, Datatypes, MessageExchange, message_pieces
from petacomm.mpi.persistent import EmptyExchange, PersistentExchange, RequestExchange
from petacomm.mpi.shared_memory import SharedWindow
from petacomm.redistribution.array_layout import ArrayLayout, Box, relative_box
from petacomm.redistribution.exchange_cost import ExchangeWork, copy_work, datatype_work, message_work


@dataclass(frozen=True)
class LayoutOverlaps:
    """Parts of an array that this rank sends and receives between two layouts.

    Elements of a message are sent in their memory order on the sender.

    Attributes
    ----------
    comm : Communicator
    before, after : ArrayLayout
    """

    comm: Communicator
    before: ArrayLayout
    after: ArrayLayout

    def sends(self, source: AnyArray) -> Iterator[tuple[int, AnyArray]]:
        """Yield each rank that receives elements of `source`, with a view of these elements."""
        own = self.before.box(self.comm.rank)
        for other, box in self.after.overlaps(own):
            yield other, self.in_message_order(source[relative_box(box, own)])

    def receives(self, target: AnyArray) -> Iterator[tuple[int, AnyArray]]:
        """Yield each rank that sends elements of `target`, with a view of these elements."""
        own = self.after.box(self.comm.rank)
        for other, box in self.before.overlaps(own):
            yield other, self.in_message_order(target[relative_box(box, own)])

    def in_message_order(self, view: AnyArray) -> AnyArray:
        """Return a view with its axes in the order in which elements are sent."""
        return self.before.in_memory_order(view)

    def box_in_sender(self, other: int) -> Box:
        """Return the box that this rank receives from another one, relative to the sender's part."""
        sender, own = self.before.box(other), self.after.box(self.comm.rank)
        common = [slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(sender, own, strict=True)]
        return relative_box(tuple(common), sender)


class RedistributionExchange(PersistentExchange):
    """Exchange from the array `source` to the array `target`, which stay where they are. Collective.

    Parameters
    ----------
    overlaps : LayoutOverlaps
    source, target : array
        This rank's parts of the layouts before and after.
    """

    name: ClassVar[str]

    def __init__(self, overlaps: LayoutOverlaps, source: AnyArray, target: AnyArray) -> None:
        self.overlaps, self.source, self.target = overlaps, source, target
        self._messages: EmptyExchange | RequestExchange = EmptyExchange()
        rank = overlaps.comm.rank
        self._sends = [(other, view) for other, view in overlaps.sends(source) if other != rank]
        self._receives = [(other, view) for other, view in overlaps.receives(target) if other != rank]
        own = [[view for other, view in side if other == rank]
               for side in (overlaps.receives(target), overlaps.sends(source))]  # fmt: skip
        self._own_copies = list(zip(*own, strict=True))

    def _start_messages(self, *buffers: AnyArray) -> None:
        self._messages.pin(self.source, self.target, *buffers)
        self._messages.start()

    def _copy_own(self) -> None:
        for target, source in self._own_copies:
            np.copyto(target, source)

    def start(self) -> None:
        self._start_messages()
        self._copy_own()

    def wait(self) -> None:
        self._messages.wait()

    def free(self) -> None:
        self._messages.free()

    @abc.abstractmethod
    def work(self) -> ExchangeWork:
        """Return the work of this rank in one exchange."""


class _PointToPointExchange(RedistributionExchange):
    """Persistent messages; either side packs or uses datatypes."""

    send_type: ClassVar[bool]
    receive_type: ClassVar[bool]

    def __init__(self, overlaps: LayoutOverlaps, source: AnyArray, target: AnyArray) -> None:
        super().__init__(overlaps, source, target)
        self._send_buffers = [] if self.send_type else _buffers(self._sends)
        self._receive_buffers = [] if self.receive_type else _buffers(self._receives)
        self._messages = _strided_messages(
            overlaps.comm,
            _replaced(self._receives, self._receive_buffers),
            _replaced(self._sends, self._send_buffers),
        )

    def start(self) -> None:
        for (_, view), buffer in zip(self._sends, self._send_buffers, strict=False):
            np.copyto(buffer, view)
        self._start_messages(*self._send_buffers, *self._receive_buffers)
        self._copy_own()

    def wait(self) -> None:
        self._messages.wait()
        for (_, view), buffer in zip(self._receives, self._receive_buffers, strict=False):
            np.copyto(view, buffer)

    def work(self) -> ExchangeWork:
        sent, received = _views(self._sends), _views(self._receives)
        own = [view for pair in self._own_copies for view in pair]
        sides = [(self.send_type, sent), (self.receive_type, received)]
        return sum(
            (datatype_work(views) if by_type else copy_work(views) for by_type, views in sides),
            message_work(sent) + copy_work(own),
        )


class PackedExchange(_PointToPointExchange):
    """Exchange that copies into and out of contiguous message buffers."""

    name, send_type, receive_type = "packed", False, False


class SendTypeExchange(_PointToPointExchange):
    """Exchange that sends by datatypes from the source, and copies out of receive buffers."""

    name, send_type, receive_type = "send-type", True, False


class ReceiveTypeExchange(_PointToPointExchange):
    """Exchange that copies into send buffers, and receives by datatypes into the target."""

    name, send_type, receive_type = "receive-type", False, True


class BothTypesExchange(_PointToPointExchange):
    """Exchange by datatypes from the source into the target, without copies, transposes or buffers."""

    name, send_type, receive_type = "both-types", True, True


class CollectiveExchange(RedistributionExchange):
    """One all-to-all of subarray types; where memory orders differ, the receiver has strided types."""

    name = "alltoallw"

    def __init__(self, overlaps: LayoutOverlaps, source: AnyArray, target: AnyArray) -> None:
        super().__init__(overlaps, source, target)
        if not isinstance(overlaps.comm, MpiCommunicator):
            return
        types = Datatypes(overlaps.comm)
        send_array = overlaps.before.in_memory_order(source)
        receive_array = overlaps.after.in_memory_order(target)
        same_order = overlaps.before.order == overlaps.after.order
        sends = [(other, [types.subarray(send_array, piece) for piece in message_pieces(view)])
                 for other, view in self._sends]  # fmt: skip
        receive_type = types.subarray if same_order else types.strided_part
        receives = [(other, [receive_type(receive_array, piece) for piece in message_pieces(view)])
                    for other, view in self._receives]  # fmt: skip
        most = max((len(pieces) for _, pieces in sends + receives), default=0)
        rounds = [
            (
                {other: pieces[i] for other, pieces in sends if i < len(pieces)},
                {other: pieces[i] for other, pieces in receives if i < len(pieces)},
            )
            for i in range(int(overlaps.comm.max(most)))
        ]
        self._messages = AlltoallwExchange(overlaps.comm, source, target, rounds, types)

    def work(self) -> ExchangeWork:
        sent, own = _views(self._sends), [view for pair in self._own_copies for view in pair]
        return (
            message_work(sent) + datatype_work(sent) + datatype_work(_views(self._receives)) + copy_work(own)
        )


class SourceWindow:
    """Shared memory in which the ranks of a node read each other's source arrays.

    Parameters
    ----------
    window : SharedWindow
        With a part for each rank of the node that holds its source array.
    """

    def __init__(self, window: SharedWindow) -> None:
        self.window = window
        self._read_ticket: int | None = None

    def array(
        self, layout: ArrayLayout, rank: int, dtype: np.dtype[Any], node_rank: int | None = None
    ) -> AnyArray:
        """Return the array of the rank that is `node_rank` of its node, by default of this rank."""
        n_bytes = math.prod(layout.local_shape(rank)) * dtype.itemsize
        begin = int(self.window.offsets[self.window.rank if node_rank is None else node_rank])
        return layout.local_array(self.window.bytes[begin : begin + n_bytes].view(dtype), rank)

    def contains(self, array: AnyArray) -> bool:
        """Return whether an array lies in the window."""
        return np.may_share_memory(self.window.bytes, array)

    def finish_reading(self) -> None:
        """Mark that this rank has read all it needs, without waiting. Collective on the node."""
        self._read_ticket = self.window.arrive()

    def wait_for_readers(self) -> None:
        """Wait until all ranks of the node have called `finish_reading`. Collective on the node."""
        if self._read_ticket is not None:
            self.window.wait(self._read_ticket)
            self._read_ticket = None


class SharedMemoryExchange(RedistributionExchange):
    """Exchange that reads from the memory of the ranks of this node, and sends messages to other nodes only.

    A source array that is not in the window is copied there first.
    """

    name = "shared"

    def __init__(
        self, overlaps: LayoutOverlaps, source: AnyArray, target: AnyArray, source_window: SourceWindow
    ) -> None:
        super().__init__(overlaps, source, target)
        comm, self._source_window = overlaps.comm, source_window
        node_ranks = np.flatnonzero(comm.node_of == comm.node_of[comm.rank]).tolist()
        self._window_array = source_window.array(overlaps.before, comm.rank, source.dtype)
        self._in_window = source_window.contains(source)
        self._copies = []
        for other, view in self._receives:
            if other in node_ranks:
                array = source_window.array(overlaps.before, other, source.dtype, node_ranks.index(other))
                part = array[overlaps.box_in_sender(other)]
                self._copies.append((view, overlaps.in_message_order(part)))
        self._ticket, self._message_work = 0, ExchangeWork()
        if len(node_ranks) < comm.size:
            receives, sends = (
                [(other, view) for other, view in side if other not in node_ranks]
                for side in (self._receives, self._sends)
            )
            self._messages = _strided_messages(comm, receives, sends)
            sent, received = _views(sends), _views(receives)
            self._message_work = message_work(sent) + datatype_work(sent) + datatype_work(received)

    def start(self) -> None:
        self._start_messages()
        self._source_window.wait_for_readers()
        if not self._in_window:
            np.copyto(self._window_array, self.source)
        self._ticket = self._source_window.window.arrive()
        self._copy_own()

    def wait(self) -> None:
        self._source_window.window.wait(self._ticket)
        for target, source in self._copies:
            np.copyto(target, source)
        self._source_window.finish_reading()
        if self._in_window:
            # The caller may write to its array in the window from now on.
            self._source_window.wait_for_readers()
        self._messages.wait()

    def work(self) -> ExchangeWork:
        pairs = [view for pair in self._own_copies + self._copies for view in pair]
        copied_in = [] if self._in_window else [self.overlaps.before.in_memory_order(self.source)]
        return self._message_work + copy_work(pairs) + copy_work(copied_in) + ExchangeWork(waits=2)


METHODS: dict[str, Callable[..., RedistributionExchange]] = {
    exchange.name: exchange
    for exchange in (
        PackedExchange,
        SendTypeExchange,
        ReceiveTypeExchange,
        BothTypesExchange,
        CollectiveExchange,
        SharedMemoryExchange,
    )
}


def _views(side: list[tuple[int, AnyArray]]) -> list[AnyArray]:
    return [view for _, view in side]


def _buffers(views: list[tuple[int, AnyArray]]) -> list[AnyArray]:
    return [np.empty(view.shape, view.dtype) for _, view in views]


def _replaced(views: list[tuple[int, AnyArray]], buffers: list[AnyArray]) -> list[tuple[int, AnyArray]]:
    """Return the contiguous buffers that are used in the place of views; the views if there are none."""
    others = [other for other, _ in views]
    return list(zip(others, buffers, strict=True)) if buffers else views


def _strided_messages(
    comm: Communicator, receives: list[tuple[int, AnyArray]], sends: list[tuple[int, AnyArray]]
) -> EmptyExchange | RequestExchange:
    """Return persistent messages between views of any strides."""
    if not isinstance(comm, MpiCommunicator):
        return EmptyExchange()
    types = Datatypes(comm)
    received, sent = (
        [(other, types.strided(piece)) for other, view in side for piece in message_pieces(view)]
        for side in (receives, sends)
    )
    return MessageExchange(comm, received, sent, types)
