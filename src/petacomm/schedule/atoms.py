"""Elements that always travel together, and the rows of a round as an entry for each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import BoolArray, Int64Array
from petacomm.schedule.schedule import Round, Schedule, ScheduleError


@dataclass(frozen=True)
class Atoms:
    """What always travels together: where each begins, and how long each is if all are equal."""

    edges: Int64Array
    equal: int

    @property
    def number(self) -> int:
        return len(self.edges) - 1 if not self.equal else int(self.edges[-1]) // self.equal

    def index(self, begin: Int64Array) -> Int64Array:
        return begin // self.equal if self.equal else np.searchsorted(self.edges, begin)


@dataclass(frozen=True)
class Pairs:
    """The rows of a round, an entry an atom."""

    source: Int64Array
    destination: Int64Array
    atom: Int64Array
    destination_atom: Int64Array
    reduce: BoolArray
    row: Int64Array


def find_atoms(schedule: Schedule) -> Atoms:
    """Cut the work space where any message begins or ends."""
    edges = np.array([0, schedule.n_elements], np.int64)
    common, shifted, number = schedule.n_elements, False, -1
    if schedule.blocks is not None:
        common, shifted = _common_of_blocks(schedule), True
    for number, part in enumerate(schedule.rounds()):
        _check_round(schedule, part, number)
        shifted |= bool(np.any(part.begin != part.destination_begin))
        common = math.gcd(common, *(int(np.gcd.reduce(part.__dict__[name], initial=0)) for name in _PLACES))
        if not shifted:
            edges = np.unique(np.concatenate([edges, part.begin, part.begin + part.length]))
    if number + 1 != schedule.n_rounds:
        raise ScheduleError(f"'{schedule.algorithm}' has {number + 1} rounds and says {schedule.n_rounds}")
    if shifted:
        return Atoms(np.array([0, schedule.n_elements], np.int64), max(1, common))
    return Atoms(edges, 0)


_PLACES = ("begin", "destination_begin", "length")


def _common_of_blocks(schedule: Schedule) -> int:
    blocks = schedule.blocks
    assert blocks is not None
    each = [blocks.count] if blocks.counts is None else [int(np.gcd.reduce(blocks.counts, axis=None))]
    return math.gcd(schedule.n_elements, blocks.send_size, *each)


def _check_round(schedule: Schedule, part: Round, number: int) -> None:
    """Raise a ScheduleError unless ranks and elements exist and lines are lines."""
    for ranks in (part.source, part.destination):
        if len(part) and not 0 <= ranks.min() <= ranks.max() < schedule.n_ranks:
            raise fault(number, f"a rank is not among the {schedule.n_ranks}")
    for begin in (part.begin, part.destination_begin):
        if np.any((begin < 0) | (part.length < 0) | (begin + part.length > schedule.n_elements)):
            raise fault(number, f"elements are not among the {schedule.n_elements} of the work space")
    same = np.flatnonzero((part.line[1:] == part.line[:-1]) & (part.line[1:] >= 0))
    for column in (part.source, part.heading, part.begin, part.length):
        if np.any(column[same] != column[same + 1]):
            raise fault(number, "the rows of a line differ in more than their destination")
    in_line = part.line >= 0
    n_begun = np.count_nonzero(np.diff(part.line, prepend=-1)[in_line])
    if np.any(part.heading[in_line] < 0) or len(np.unique(part.line[in_line])) != n_begun:
        raise fault(number, "the rows of a line do not stand together, or have no heading")


def pairs_of(part: Round, atoms: Atoms, low: int, high: int) -> Pairs:
    """Return an entry for each row and each of its atoms from `low` to `high`."""
    first, last = atoms.index(part.begin), atoms.index(part.begin + part.length)
    shift = atoms.index(part.destination_begin) - first
    first, last = np.maximum(first, low), np.minimum(last, high)
    count = np.maximum(last - first, 0)
    row = np.repeat(np.arange(len(part)), count)
    atom = np.arange(len(row)) - np.repeat(np.cumsum(count) - count - first, count)
    return Pairs(
        part.source[row].astype(np.int64),
        part.destination[row].astype(np.int64),
        atom,
        atom + shift[row],
        part.reduce[row],
        row,
    )


def fault(number: int, what: str) -> ScheduleError:
    """Return the error of a schedule that does something wrong in a round."""
    return ScheduleError(what, where=f"round {number}")
