"""The ways in which parts of an array go from rank to rank: packed, by datatypes, or through shared memory.

All of them bring the same bits to the same places; only their times differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from petacomm.base.typing import AnyArray
from petacomm.mpi.communicator import Communicator, MpiCommunicator
from petacomm.mpi.datatypes import Alltoallw, Datatypes, Messages, pieces
from petacomm.mpi.shared_memory import SharedWindow
from petacomm.redistribution.array_layout import Box, Layout, within
from petacomm.redistribution.carrier import Carrier
from petacomm.redistribution.exchange_cost import Work, copied, sent, typed


@dataclass(frozen=True)
class Parts:
    """What a rank sends and receives when an array goes from one layout to another.

    Elements of a message travel in the order in which they lie at the sender.

    Attributes
    ----------
    comm : Communicator
    before, after : Layout
    """

    comm: Communicator
    before: Layout
    after: Layout

    def sends(self, source: AnyArray) -> Iterator[tuple[int, AnyArray]]:
        """Iterate over the ranks that get any of `source`, with a view of what they get."""
        mine = self.before.box(self.comm.rank)
        for other, box in self.after.overlaps(mine):
            yield other, self.travelling(source[within(box, mine)])

    def receives(self, target: AnyArray) -> Iterator[tuple[int, AnyArray]]:
        """Iterate over the ranks that send any of `target`, with a view of where it goes."""
        mine = self.after.box(self.comm.rank)
        for other, box in self.before.overlaps(mine):
            yield other, self.travelling(target[within(box, mine)])

    def travelling(self, view: AnyArray) -> AnyArray:
        """Return a view with its axes in the order in which elements travel."""
        return self.before.lying(view)

    def held(self, other: int) -> Box:
        """Return what this rank gets from another one, in the part of that one."""
        its, mine = self.before.box(other), self.after.box(self.comm.rank)
        common = [slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(its, mine, strict=True)]
        return within(tuple(common), its)


class Way(Carrier):
    """One way to go, between two arrays that stay where they are."""

    def __init__(self, parts: Parts, source: AnyArray, target: AnyArray) -> None:
        self.parts, self.source, self.target = parts, source, target
        rank = parts.comm.rank
        self._out = [(other, view) for other, view in parts.sends(source) if other != rank]
        self._in = [(other, view) for other, view in parts.receives(target) if other != rank]
        mine = [[view for other, view in side if other == rank]
                for side in (parts.receives(target), parts.sends(source))]  # fmt: skip
        self._own = list(zip(*mine, strict=True))

    def _copy_own(self) -> None:
        for to, of in self._own:
            copy(to, of)


class _Messages(Way):
    """Persistent messages; each side packs, or has a datatype."""

    send_type: ClassVar[bool]
    receive_type: ClassVar[bool]

    def __init__(self, parts: Parts, source: AnyArray, target: AnyArray) -> None:
        super().__init__(parts, source, target)
        self._packed = [] if self.send_type else _buffers(self._out)
        self._arrived = [] if self.receive_type else _buffers(self._in)
        self._messages: Messages | None = None
        if isinstance(parts.comm, MpiCommunicator):
            self._types = Datatypes(parts.comm)
            receives = self._places(self._in, self._arrived)
            self._messages = Messages(parts.comm, receives, self._places(self._out, self._packed))

    def _places(self, views: list[tuple[int, AnyArray]], buffers: list[AnyArray]) -> list[tuple[int, Any]]:
        """Return the places of messages: those of the views, or of the buffers that stand for them."""
        through = [(view if not buffers else buffers[i]) for i, (_, view) in enumerate(views)]
        return [
            (other, self._types.place(piece))
            for (other, _), view in zip(views, through, strict=True)
            for piece in pieces(view)
        ]

    def start(self) -> None:
        for (_, view), buffer in zip(self._out, self._packed, strict=False):
            copy(buffer, view)
        if self._messages is not None:
            self._messages.start(self.source, self.target, *self._packed, *self._arrived)
        self._copy_own()

    def wait(self) -> None:
        if self._messages is not None:
            self._messages.wait()
        for (_, view), buffer in zip(self._in, self._arrived, strict=False):
            copy(view, buffer)

    def free(self) -> None:
        if self._messages is not None:
            self._messages.free()
            self._types.free()

    def work(self) -> Work:
        out, arriving, own = (
            _views(self._out),
            _views(self._in),
            [view for pair in self._own for view in pair],
        )
        sides = [(self.send_type, out), (self.receive_type, arriving)]
        return sum((typed(v) if by_type else copied(v) for by_type, v in sides), sent(out) + copied(own))


class Packed(_Messages):
    """Copied into messages, and out of them."""

    name, send_type, receive_type = "packed", False, False


class SendType(_Messages):
    """Sent from where it lies; copied out of messages."""

    name, send_type, receive_type = "send-type", True, False


class ReceiveType(_Messages):
    """Copied into messages; received where it belongs, in its order there."""

    name, send_type, receive_type = "receive-type", False, True


class BothTypes(_Messages):
    """Sent from where it lies, received where it belongs: no copy, no transpose, no buffer."""

    name, send_type, receive_type = "both-types", True, True


class Collective(Way):
    """One all-to-all of subarrays; where memory orders differ, subarrays meet strided types."""

    name = "alltoallw"

    def __init__(self, parts: Parts, source: AnyArray, target: AnyArray) -> None:
        super().__init__(parts, source, target)
        self._call: Alltoallw | None = None
        if not isinstance(parts.comm, MpiCommunicator):
            return
        self._types = Datatypes(parts.comm)
        send_to, receive_at = parts.before.lying(source), parts.after.lying(target)
        same = parts.before.order == parts.after.order
        sends = [(other, [self._types.subarray(send_to, piece) for piece in pieces(view)])
                 for other, view in self._out]  # fmt: skip
        place = self._types.subarray if same else self._types.within
        receives = [(other, [place(receive_at, piece) for piece in pieces(view)])
                    for other, view in self._in]  # fmt: skip
        most = max((len(types) for _, types in sends + receives), default=0)
        rounds = [
            (
                {other: types[i] for other, types in sends if i < len(types)},
                {other: types[i] for other, types in receives if i < len(types)},
            )
            for i in range(int(parts.comm.max(most)))
        ]
        self._call = Alltoallw(parts.comm, source, target, rounds)

    def start(self) -> None:
        if self._call is not None:
            self._call.start(self.source, self.target)
        self._copy_own()

    def wait(self) -> None:
        if self._call is not None:
            self._call.wait()

    def free(self) -> None:
        if self._call is not None:
            self._call.free()
            self._types.free()

    def work(self) -> Work:
        out, own = _views(self._out), [view for pair in self._own for view in pair]
        return sent(out) + typed(out) + typed(_views(self._in)) + copied(own)


class Loan:
    """A window in which the ranks of a node lend each other what they send.

    Parameters
    ----------
    window : SharedWindow
        With a part for each rank of the node that holds all it sends.
    """

    def __init__(self, window: SharedWindow) -> None:
        self.window = window
        self._unread: int | None = None

    def part(self, layout: Layout, rank: int, dtype: np.dtype[Any], place: int | None = None) -> AnyArray:
        """Return the part of a rank that is number `place` of the node; by default this one."""
        n_bytes = math.prod(layout.local_shape(rank)) * dtype.itemsize
        begin = int(self.window.offsets[self.window.rank if place is None else place])
        return layout.in_memory(self.window.bytes[begin : begin + n_bytes].view(dtype), rank)

    def holds(self, array: AnyArray) -> bool:
        """Whether an array lies in the window already."""
        return np.may_share_memory(self.window.bytes, array)

    def taken_back(self) -> None:
        """Wait until all ranks of the node have read what was lent. Collective on the node."""
        if self._unread is not None:
            self.window.wait(self._unread)
            self._unread = None

    def read(self) -> None:
        """Say that this rank has read all. Collective on the node."""
        self._unread = self.window.arrive()


class Shared(Way):
    """Read from the memory of the ranks of this node; only other nodes get messages.

    What is not in the window already is copied there first.
    """

    name = "shared"

    def __init__(self, parts: Parts, source: AnyArray, target: AnyArray, loan: Loan) -> None:
        super().__init__(parts, source, target)
        comm, self._loan = parts.comm, loan
        here = np.flatnonzero(comm.node_of == comm.node_of[comm.rank]).tolist()
        self._lent = loan.part(parts.before, comm.rank, source.dtype)
        self._in_place = loan.holds(source)
        self._copies = []
        for other, view in self._in:
            if other in here:
                its = loan.part(parts.before, other, source.dtype, here.index(other))
                self._copies.append((view, parts.travelling(its[parts.held(other)])))
        self._far: Messages | None = None
        self._ticket, self._far_work = 0, Work()
        if isinstance(comm, MpiCommunicator) and len(here) < comm.size:
            self._types = Datatypes(comm)
            sides = ([(o, self._types.place(p)) for o, v in side if o not in here for p in pieces(v)]
                     for side in (self._in, self._out))  # fmt: skip
            self._far = Messages(comm, *sides)
            out, arriving = ([v for o, v in side if o not in here] for side in (self._out, self._in))
            self._far_work = sent(out) + typed(out) + typed(arriving)

    def start(self) -> None:
        if self._far is not None:
            self._far.start(self.source, self.target)
        self._loan.taken_back()
        if not self._in_place:
            np.copyto(self._lent, self.source)
        self._ticket = self._loan.window.arrive()
        self._copy_own()

    def wait(self) -> None:
        self._loan.window.wait(self._ticket)
        for to, of in self._copies:
            copy(to, of)
        self._loan.read()
        if self._in_place:
            # Its owner may write to it from now on.
            self._loan.taken_back()
        if self._far is not None:
            self._far.wait()

    def free(self) -> None:
        if self._far is not None:
            self._far.free()
            self._types.free()

    def work(self) -> Work:
        pairs = [view for pair in self._own + self._copies for view in pair]
        lending = [] if self._in_place else [self.parts.before.lying(self.source)]
        return self._far_work + copied(pairs) + copied(lending) + Work(waits=2)


WAYS: dict[str, Callable[..., Way]] = {
    way.name: way for way in (Packed, SendType, ReceiveType, BothTypes, Collective, Shared)
}


def copy(to: AnyArray, of: AnyArray) -> None:
    """Copy between views of one shape, whatever their strides."""
    np.copyto(to, of)


def _views(side: list[tuple[int, AnyArray]]) -> list[AnyArray]:
    return [view for _, view in side]


def _buffers(views: list[tuple[int, AnyArray]]) -> list[AnyArray]:
    return [np.empty(view.shape, view.dtype) for _, view in views]
