"""Flat arrays of the messages of a schedule and their dependencies, for simulators of the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from petacomm.base.typing import BoolArray, Int32Array, Int64Array
from petacomm.schedule.atoms import Atoms, atom_rows, find_atoms
from petacomm.schedule.schedule import Round, Schedule, ScheduleError
from petacomm.topology.torus import Torus


@dataclass(frozen=True)
class FlatMessages:
    """Messages between ranks, and their dependencies.

    Attributes
    ----------
    source, destination : int32 (n,)
        Ranks. The destination of a line is its farthest rank.
    bytes : int64 (n,)
    round : int32 (n,)
    heading : int8 (n,)
        Port by which the message leaves and direction that it keeps, as in `Round`; -1: any route.
    deposit : bool (n,)
        Whether the message leaves a copy on each rank that it passes.
    copies : int32 (n,)
        Number of ranks that receive the message: 1, or those of its line.
    combines : bool (n,)
        Whether the destination reduces the message.
    after_first : int64 (n + 1,), after : int32
        Message i waits until its source has received messages ``after[after_first[i]:after_first[i + 1]]``.
    pipelined : bool
        Whether a segment of a message waits only for the same segment of these.
    """

    source: Int32Array
    destination: Int32Array
    bytes: Int64Array
    round: Int32Array
    heading: npt.NDArray[np.int8]
    deposit: BoolArray
    copies: Int32Array
    combines: BoolArray
    after_first: Int64Array
    after: Int32Array
    pipelined: bool

    def __len__(self) -> int:
        return len(self.source)


def flat_messages(schedule: Schedule, itemsize: int) -> FlatMessages:
    """Return the messages of a schedule and their dependencies.

    A message waits for all messages that its source must have received to hold the data that it sends; in a
    schedule with a `window`, also for those received so many rounds before. Rows of a round between the same
    ranks are one message, unless the schedule is pipelined or they have a heading. Messages of a barrier have
    one element.

    Parameters
    ----------
    schedule : Schedule
    itemsize : int
        Bytes of an element.
    """
    if itemsize < 1:
        raise ScheduleError(f"an element of {itemsize} bytes", mend="give 1 or more")
    dependencies = _Dependencies(schedule)
    empty = Round.from_columns([], [], [], [])
    tables = [_message_columns(empty, *_number_messages(empty, False), 0, itemsize)]
    after = [np.empty((2, 0), np.int64)]
    n = 0
    for number, part in enumerate(schedule.rounds()):
        part = part.take(part.length > 0)
        message, first = _number_messages(part, not schedule.pipelined)
        after.append(dependencies.add_round(number, part, message, n))
        tables.append(_message_columns(part, message, first, number, itemsize))
        n += len(first)
    dependent, dependency = np.concatenate(after, axis=1)
    order = np.lexsort((dependency, dependent))
    named = zip(_COLUMNS, zip(*tables, strict=True), strict=True)
    columns: dict[str, Any] = {name: np.concatenate(column) for name, column in named}
    after_first = np.searchsorted(dependent[order], np.arange(n + 1))
    return FlatMessages(
        **columns,
        after_first=after_first,
        after=dependency[order].astype(np.int32),
        pipelined=schedule.pipelined,
    )


def pair_messages(schedule: Schedule, itemsize: int, language: str) -> FlatMessages:
    """Return `flat_messages` of a schedule to be said in a language of messages between two ranks.

    Raises
    ------
    ScheduleError
        If it is no such schedule, as those of trees and of lines of a torus.
    """
    messages = flat_messages(schedule, itemsize)
    if schedule.network != "torus" or messages.deposit.any():
        raise ScheduleError(
            f"in '{schedule.algorithm}' the network itself sends to many ranks, which {language} cannot say",
            mend="take an algorithm of messages between two ranks",
        )
    return messages


def message_displacements(messages: FlatMessages | Round, grid: Torus) -> Int64Array:
    """Return the signed number of links of each message in each dimension: int64 (n, n_dimensions).

    Messages with a heading keep this direction, even along the longer arc of a ring; the others take the
    shorter arc.
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


def _message_columns(
    part: Round, message: Int64Array, first: Int64Array, number: int, itemsize: int
) -> tuple[npt.NDArray[Any], ...]:
    """Return the columns of a round's messages, given the message of each row and the first row of each."""
    rows = np.flatnonzero(part.is_message)
    no_line = part.line < 0
    last = np.zeros(len(first), np.int64)
    np.maximum.at(last, message[rows], rows)
    # The lengths of a message's rows add up, except on a line, whose rows are copies of the same elements.
    length = part.length[first] * ~no_line[first]
    np.add.at(length, message[rows], part.length[rows] * no_line[rows])
    copies = np.where(no_line[first], 1, np.bincount(message[rows], minlength=len(first)))
    return (
        part.source[first],
        part.destination[last],
        length * itemsize,
        np.full(len(first), number, np.int32),
        part.heading[first],
        ~no_line[first],
        copies.astype(np.int32),
        part.reduce[first],
    )


_COLUMNS = ("source", "destination", "bytes", "round", "heading", "deposit", "copies", "combines")


def _number_messages(part: Round, merge: bool) -> tuple[Int64Array, Int64Array]:
    """Return the message of each row of a round (-1 for copies in memory) and the first row of each."""
    rows = np.flatnonzero(part.is_message)
    unique_key = -2 - np.arange(len(part), dtype=np.int64)
    pair = part.source * (np.int64(1) << 32) + part.destination
    key = np.where(part.heading < 0, pair, unique_key) if merge else unique_key
    key = np.where(part.line >= 0, -2 - len(part) - part.line.astype(np.int64), key)
    _, first, which = np.unique(key[rows], return_index=True, return_inverse=True)
    # Messages are numbered in the order of their first rows.
    rank_of_first = np.argsort(np.argsort(first))
    message = np.full(len(part), -1, np.int64)
    message[rows] = rank_of_first[which]
    return message, rows[np.sort(first)]


class _Dependencies:
    """Tracker of the messages on which the data held by each rank depend.

    The messages that contribute to an atom held by a rank are a linked list: `head` is its last entry for
    each rank and atom, `message` and `previous` are the message and the entry before it, -1 at the end.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.window = schedule.window
        blocks = schedule.blocks
        # Without scratch, no received data is sent on: messages do not depend on data.
        self.forwards = blocks is None or schedule.n_elements > blocks.send_size + blocks.receive_size
        self.atoms = find_atoms(schedule) if self.forwards else Atoms(np.zeros(1, np.int64), 0)
        self.n_atoms = self.atoms.n_atoms
        self.head = np.full(schedule.n_ranks * self.n_atoms if self.forwards else 0, -1, np.int64)
        self.message = np.empty(0, np.int64)
        self.previous = np.empty(0, np.int64)
        self.arrived: list[tuple[Int32Array, Int64Array]] = []

    def add_round(self, number: int, part: Round, message: Int64Array, first: int) -> Int64Array:
        """Return pairs of a message of this round, numbered from `first`, and one that it waits for."""
        pairs = [np.empty((2, 0), np.int64)]
        if self.forwards:
            pairs.append(self._data_dependencies(part, message, first))
        if self.window is not None:
            pairs.append(self._window_dependencies(number, part, message, first))
        return np.unique(np.concatenate(pairs, axis=1), axis=1)

    def _window_dependencies(self, number: int, part: Round, message: Int64Array, first: int) -> Int64Array:
        assert self.window is not None
        sent = message >= 0
        self.arrived.append((part.destination[sent], message[sent] + first))
        if number < self.window:
            return np.empty((2, 0), np.int64)
        destination, received = self.arrived[number - self.window]
        self.arrived[number - self.window] = (destination[:0], received[:0])
        order = np.argsort(destination, kind="stable")
        destination, received = destination[order], received[order]
        low, high = (np.searchsorted(destination, part.source[sent], side) for side in ("left", "right"))
        count = high - low
        index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - low, count)
        return np.array([np.repeat(message[sent] + first, count), received[index]])

    def _data_dependencies(self, part: Round, message: Int64Array, first: int) -> Int64Array:
        rows = atom_rows(part, self.atoms, 0, self.n_atoms)
        sender = message[rows.row]
        read = self.head[rows.source * self.n_atoms + rows.atom]
        dependencies = self._follow_lists(sender + first, np.where(sender >= 0, read, -1))
        written = rows.destination * self.n_atoms + rows.destination_atom
        self._append(written, sender, first, read, rows.reduce)
        return dependencies

    def _follow_lists(self, sender: Int64Array, entry: Int64Array) -> Int64Array:
        """Return pairs of each sender and all messages of the list that ends with its entry."""
        pairs = [np.empty((2, 0), np.int64)]
        while len(entry):
            sender, entry = sender[entry >= 0], entry[entry >= 0]
            unique = np.unique(np.array([sender, entry]), axis=1)
            sender, entry = unique[0], unique[1]
            pairs.append(np.array([sender, self.message[entry]]))
            entry = self.previous[entry]
        return np.concatenate(pairs, axis=1)

    def _append(
        self, written: Int64Array, sender: Int64Array, first: int, read: Int64Array, reduce: BoolArray
    ) -> None:
        """Append messages to the lists of the atoms that they write; local copies copy the source's list."""
        local = sender < 0
        if np.any(local & reduce):
            raise ScheduleError("sums in the memory of one rank cannot be replayed", mend="reduce messages")
        self.head[written[local]] = read[local]
        order = np.flatnonzero(~local)
        order = order[np.argsort(written[order], kind="stable")]
        target, n_entries = written[order], len(self.message)
        entries = n_entries + np.arange(len(order))
        same_target = np.append(False, target[1:] == target[:-1])[: len(order)]
        previous = np.where(same_target, entries - 1, np.where(reduce[order], self.head[target], -1))
        self.message = np.append(self.message, sender[order] + first)
        self.previous = np.append(self.previous, previous)
        self.head[target] = entries  # NumPy keeps the last of several assignments
