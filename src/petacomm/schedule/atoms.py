"""Atoms of a schedule: runs of elements that are always moved together.

The checker and the conversion to flat messages work on atoms rather than elements: a schedule has as many as
its blocks, not as its vector has elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import BoolArray, Int64Array
from petacomm.schedule.schedule import Round, Schedule, ScheduleError


@dataclass(frozen=True)
class Atoms:
    """Division of the work space into atoms.

    Attributes
    ----------
    edges : int64 (n + 1,)
        First element of each atom and the end of the last; only the two ends if all atoms have one size.
    size : int
        Elements of each atom if all have one size, else 0.
    """

    edges: Int64Array
    size: int

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.edges) - 1 if not self.size else int(self.edges[-1]) // self.size

    def index(self, begin: Int64Array) -> Int64Array:
        """Return the atoms that begin at elements: int64."""
        return begin // self.size if self.size else np.searchsorted(self.edges, begin)


@dataclass(frozen=True)
class AtomRows:
    """The rows of a round, one entry for each atom.

    Attributes
    ----------
    source, destination : int64 (n,)
        Ranks.
    atom, destination_atom : int64 (n,)
        Atom in the work space of the source and of the destination.
    reduce : bool (n,)
    row : int64 (n,)
        Row of the round.
    """

    source: Int64Array
    destination: Int64Array
    atom: Int64Array
    destination_atom: Int64Array
    reduce: BoolArray
    row: Int64Array


def find_atoms(schedule: Schedule) -> Atoms:
    """Return the atoms of a schedule: its work space cut wherever a message begins or ends.

    If messages move elements to other positions, all atoms have the greatest common divisor of all begins and
    lengths as their size.

    Raises
    ------
    ScheduleError
        If a round refers to ranks or elements that do not exist, has a wrong line, or the number of rounds is
        not the stated one.
    """
    edges = np.array([0, schedule.n_elements], np.int64)
    divisor, shifted, number = schedule.n_elements, False, -1
    if schedule.blocks is not None:
        divisor, shifted = _block_divisor(schedule), True
    for number, part in enumerate(schedule.rounds()):
        _check_round(schedule, part, number)
        shifted |= bool(np.any(part.begin != part.destination_begin))
        divisor = math.gcd(
            divisor,
            *(
                int(np.gcd.reduce(column, initial=0))
                for column in (part.begin, part.destination_begin, part.length)
            ),
        )
        if not shifted:
            edges = np.unique(np.concatenate([edges, part.begin, part.begin + part.length]))
    if number + 1 != schedule.n_rounds:
        raise ScheduleError(f"'{schedule.algorithm}' has {number + 1} rounds and says {schedule.n_rounds}")
    if shifted:
        return Atoms(np.array([0, schedule.n_elements], np.int64), max(1, divisor))
    return Atoms(edges, 0)


def _block_divisor(schedule: Schedule) -> int:
    blocks = schedule.blocks
    assert blocks is not None
    length = blocks.count if blocks.counts is None else int(np.gcd.reduce(blocks.counts, axis=None))
    return math.gcd(schedule.n_elements, blocks.send_size, length)


def _check_round(schedule: Schedule, part: Round, number: int) -> None:
    """Raise a ScheduleError unless ranks and elements exist and lines are consistent."""
    for ranks in (part.source, part.destination):
        if len(part) and not 0 <= ranks.min() <= ranks.max() < schedule.n_ranks:
            raise round_error(number, f"a rank is not among the {schedule.n_ranks}")
    for begin in (part.begin, part.destination_begin):
        if np.any((begin < 0) | (part.length < 0) | (begin + part.length > schedule.n_elements)):
            raise round_error(number, f"elements are not among the {schedule.n_elements} of the work space")
    same = np.flatnonzero(part.is_passed)
    for column in (part.source, part.heading, part.begin, part.length):
        if np.any(column[same] != column[same + 1]):
            raise round_error(number, "the rows of a line differ in more than their destination")
    in_line = part.line >= 0
    n_begun = np.count_nonzero(np.diff(part.line, prepend=-1)[in_line])
    if np.any(part.heading[in_line] < 0) or len(np.unique(part.line[in_line])) != n_begun:
        raise round_error(number, "the rows of a line do not stand together, or have no heading")


def atom_rows(part: Round, atoms: Atoms, low: int, high: int) -> AtomRows:
    """Return an entry for each row of a round and each of its atoms from `low` to `high` - 1."""
    first, last = atoms.index(part.begin), atoms.index(part.begin + part.length)
    shift = atoms.index(part.destination_begin) - first
    first, last = np.maximum(first, low), np.minimum(last, high)
    count = np.maximum(last - first, 0)
    row = np.repeat(np.arange(len(part)), count)
    atom = np.arange(len(row)) - np.repeat(np.cumsum(count) - count - first, count)
    return AtomRows(
        part.source[row].astype(np.int64),
        part.destination[row].astype(np.int64),
        atom,
        atom + shift[row],
        part.reduce[row],
        row,
    )


def round_error(number: int, what: str) -> ScheduleError:
    """Return the ScheduleError for a mistake in a round."""
    return ScheduleError(what, where=f"round {number}")
