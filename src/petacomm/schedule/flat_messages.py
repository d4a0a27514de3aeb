"""A schedule as flat arrays: what a simulator of the network replays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import BoolArray, Int32Array, Int64Array
from petacomm.schedule.atoms import Atoms, find_atoms, pairs_of
from petacomm.schedule.schedule import Round, Schedule, ScheduleError
from petacomm.topology.torus import Torus


@dataclass(frozen=True)
class Messages:
    """Messages between ranks, and which of them each waits for.

    Attributes
    ----------
    source, destination : int32 (n,)
        Of a line, its farthest rank.
    bytes : int64 (n,)
    round : int32 (n,)
    heading : int8 (n,)
        The port by which it leaves to go straight on, as in `Round`; -1: any route.
    to_line : bool (n,)
        Whether it leaves a copy on each rank that it passes.
    copies : int32 (n,)
        Ranks that receive it: 1, or those of its line.
    combines : bool (n,)
        Whether its destination reduces it.
    after_first : int64 (n + 1,), after : int32
        Message i waits until its source has received messages ``after[after_first[i]:after_first[i + 1]]``.
    pipelined : bool
        Whether a segment of a message need only wait for the same segment of these.
    """

    source: Int32Array
    destination: Int32Array
    bytes: Int64Array
    round: Int32Array
    heading: npt.NDArray[np.int8]
    to_line: BoolArray
    copies: Int32Array
    combines: BoolArray
    after_first: Int64Array
    after: Int32Array
    pipelined: bool

    def __len__(self) -> int:
        return len(self.source)


def flat_messages(schedule: Schedule, itemsize: int) -> Messages:
    """Return the messages of a schedule and what each waits for.

    A message waits for all that its source must have received to hold what it sends; in a schedule with a
    `window`, also for what came that many rounds before. Rows of a round between the same ranks are one
    message, unless they are pipelined or go by ports. Barriers send a byte.

    Parameters
    ----------
    schedule : Schedule
    itemsize : int
        Bytes of an element.
    """
    if itemsize < 1:
        raise ScheduleError(f"an element of {itemsize} bytes", mend="give 1 or more")
    flow = _Flow(schedule)
    tables = [_table(Round.of([], [], [], []), *_numbers(Round.of([], [], [], []), False), 0, itemsize)]
    after = [np.empty((2, 0), np.int64)]
    n = 0
    for number, part in enumerate(schedule.rounds()):
        part = part.take(part.length > 0)
        message, first = _numbers(part, not schedule.pipelined)
        after.append(flow.pass_round(number, part, message, n))
        tables.append(_table(part, message, first, number, itemsize))
        n += len(first)
    waiting, waited = np.concatenate(after, axis=1)
    order = np.lexsort((waited, waiting))
    columns = zip(_COLUMNS, zip(*tables, strict=True), strict=True)
    whole: dict[str, Any] = {name: np.concatenate(column) for name, column in columns}
    after_first, waited = np.searchsorted(waiting[order], np.arange(n + 1)), waited[order].astype(np.int32)
    return Messages(**whole, after_first=after_first, after=waited, pipelined=schedule.pipelined)


def displacements(messages: Messages | Round, grid: Torus) -> Int64Array:
    """Return the links that each message crosses in each dimension, signed: int64 (n, n_dimensions).

    Those that leave by a port go straight on, the longer way round a ring where that is said; the others go
    the shorter way.
    """
    steps = grid.displacement(messages.source, messages.destination)
    straight = np.flatnonzero(messages.heading >= 0)
    dimension, down = messages.heading[straight] // 2, messages.heading[straight] % 2
    ring = np.array(grid.wrap)[dimension]
    along = steps[straight, dimension]
    size = np.array(grid.shape)[dimension]
    along = np.where(ring & (down == 0), along % size, np.where(ring, -(-along % size), along))
    steps[straight, dimension] = along
    return steps


def _table(
    part: Round, message: Int64Array, first: Int64Array, number: int, itemsize: int
) -> tuple[npt.NDArray[Any], ...]:
    """Return the columns of the messages of a round, of the messages of its rows and their first rows."""
    row_of = np.flatnonzero(part.moves)
    lone = part.line < 0
    last = np.zeros(len(first), np.int64)
    np.maximum.at(last, message[row_of], row_of)
    # Rows of one message add up, but those of a line are one and the same.
    length = part.length[first] * ~lone[first]
    np.add.at(length, message[row_of], part.length[row_of] * lone[row_of])
    copies = np.where(lone[first], 1, np.bincount(message[row_of], minlength=len(first)))
    return (
        part.source[first],
        part.destination[last],
        length * itemsize,
        np.full(len(first), number, np.int32),
        part.heading[first],
        ~lone[first],
        copies.astype(np.int32),
        part.reduce[first],
    )


_COLUMNS = ("source", "destination", "bytes", "round", "heading", "to_line", "copies", "combines")


def _numbers(part: Round, merge: bool) -> tuple[Int64Array, Int64Array]:
    """Number the messages of a round: return that of each row, -1 of copies in memory, and their first
    rows."""
    moves = np.flatnonzero(part.moves)
    alone = -2 - np.arange(len(part), dtype=np.int64)
    pair = part.source * (np.int64(1) << 32) + part.destination
    key = np.where(part.heading < 0, pair, alone) if merge else alone
    key = np.where(part.line >= 0, -2 - len(part) - part.line.astype(np.int64), key)
    _, first, which = np.unique(key[moves], return_index=True, return_inverse=True)
    # In the order of the rows.
    place = np.argsort(np.argsort(first))
    message = np.full(len(part), -1, np.int64)
    message[moves] = place[which]
    return message, moves[np.sort(first)]


class _Flow:
    """Where the elements that ranks hold came from: a chain of messages for each rank and atom."""

    def __init__(self, schedule: Schedule) -> None:
        self.window = schedule.window
        blocks = schedule.blocks
        # Where nothing received is sent on, nothing waits for data.
        self.follows = blocks is None or schedule.n_elements > blocks.send_size + blocks.receive_size
        self.atoms = find_atoms(schedule) if self.follows else Atoms(np.zeros(1, np.int64), 0)
        self.n_atoms = self.atoms.number
        self.chain = np.full(schedule.n_ranks * self.n_atoms if self.follows else 0, -1, np.int64)
        self.message = np.empty(0, np.int64)  # of each link of a chain
        self.before = np.empty(0, np.int64)
        self.arrived: list[tuple[Int32Array, Int64Array]] = []

    def pass_round(self, number: int, part: Round, message: Int64Array, first: int) -> Int64Array:
        """Return pairs of messages of this round and those that they wait for; `first`: the round's first."""
        pairs = [np.empty((2, 0), np.int64)]
        if self.follows:
            pairs.append(self._data(part, message, first))
        if self.window is not None:
            pairs.append(self._window(number, part, message, first))
        return np.unique(np.concatenate(pairs, axis=1), axis=1)

    def _window(self, number: int, part: Round, message: Int64Array, first: int) -> Int64Array:
        assert self.window is not None
        moves = message >= 0
        self.arrived.append((part.destination[moves], message[moves] + first))
        if number < self.window:
            return np.empty((2, 0), np.int64)
        there, came = self.arrived[number - self.window]
        self.arrived[number - self.window] = (there[:0], came[:0])
        order = np.argsort(there, kind="stable")
        there, came = there[order], came[order]
        low, high = (np.searchsorted(there, part.source[moves], side) for side in ("left", "right"))
        count = high - low
        index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - low, count)
        return np.array([np.repeat(message[moves] + first, count), came[index]])

    def _data(self, part: Round, message: Int64Array, first: int) -> Int64Array:
        pairs = pairs_of(part, self.atoms, 0, self.n_atoms)
        sender = message[pairs.row]
        read = self.chain[pairs.source * self.n_atoms + pairs.atom]
        waits = self._unrolled(sender + first, np.where(sender >= 0, read, -1))
        self._arrive(
            pairs.destination * self.n_atoms + pairs.destination_atom, sender, first, read, pairs.reduce
        )
        return waits

    def _unrolled(self, sender: Int64Array, chain: Int64Array) -> Int64Array:
        """Return each sender with all messages of its chains."""
        found = [np.empty((2, 0), np.int64)]
        while len(chain):
            sender, chain = sender[chain >= 0], chain[chain >= 0]
            pair = np.unique(np.array([sender, chain]), axis=1)
            sender, chain = pair[0], pair[1]
            found.append(np.array([sender, self.message[chain]]))
            chain = self.before[chain]
        return np.concatenate(found, axis=1)

    def _arrive(
        self, where: Int64Array, sender: Int64Array, first: int, read: Int64Array, reduce: BoolArray
    ) -> None:
        """Add what arrives to the chains of those who receive it; copies in memory bring their own."""
        local = sender < 0
        if np.any(local & reduce):
            raise ScheduleError("sums in the memory of one rank cannot be replayed", mend="reduce messages")
        self.chain[where[local]] = read[local]
        order = np.flatnonzero(~local)
        order = order[np.argsort(where[order], kind="stable")]
        there, n_links = where[order], len(self.message)
        links = n_links + np.arange(len(order))
        follows = np.append(False, there[1:] == there[:-1])[: len(order)]
        before = np.where(follows, links - 1, np.where(reduce[order], self.chain[there], -1))
        self.message = np.append(self.message, sender[order] + first)
        self.before = np.append(self.before, before)
        self.chain[there] = links  # of several, the last one stays
