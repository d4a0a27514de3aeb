"""Proof, without any numbers, that a schedule does what its collective promises.

Elements are replaced by what they are made of: the ranks that have contributed, where values are reduced, and
the rank and place where they came from, where they are only moved. Then the rounds are gone through. A
schedule that ends as it should, and in which nobody sends what it does not hold or writes where another
writes, is right for all values. A row is a send and its receive at once, and depends on earlier rounds alone:
sends without receives and deadlocks cannot be written down.

Elements that always travel together are one *atom*; there are as many as a schedule has blocks, not as a
vector has elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.distinct import distinct
from petacomm.base.typing import BoolArray, Int64Array
from petacomm.schedule.atoms import Atoms, Pairs, fault, find_atoms, pairs_of
from petacomm.schedule.contributions import Sums
from petacomm.schedule.schedule import Round, Schedule, ScheduleError
from petacomm.topology.torus import Torus

# As many atoms are looked at together as fit: numbers of sums, and 32-bit words of sets of ranks.
_NUMBERS, _WORDS = 1 << 23, 1 << 25


def check(schedule: Schedule) -> None:
    """Raise a ScheduleError unless every rank ends with the right contributions, each exactly once.

    A barrier may count a rank more than once. The work is that of moving a number instead of an element;
    where something is wrong, a bit for each rank, to say what.

    Raises
    ------
    ScheduleError
        Naming the round and the ranks.
    """
    atoms = find_atoms(schedule)
    if schedule.collective in ("broadcast", "alltoall"):
        _check_moves(schedule, atoms)
    else:
        _check_sums(schedule, atoms)


def link_uses(schedule: Schedule, torus: Torus) -> Int64Array:
    """Return how many messages cross each directed link, of those that say by which port they leave.

    Parameters
    ----------
    schedule : Schedule
    torus : Torus
        Its links; rank r is node r.

    Returns
    -------
    int64 (n_links,)

    Raises
    ------
    ScheduleError
        If a message cannot reach its destination straight on.
    """
    uses = np.zeros(torus.n_links, np.int64)
    for number, part in enumerate(schedule.rounds()):
        whole = part.take(part.heading >= 0)
        # Of a line only the last row counts, that of the farthest rank: it passes all others.
        last = np.append((whole.line[1:] != whole.line[:-1]) | (whole.line[1:] < 0), True)
        whole = whole.take(np.flatnonzero(last[: len(whole)]))
        for heading in np.unique(whole.heading):
            _count_links(whole.take(whole.heading == heading), int(heading), torus, uses, number)
    return uses


def _count_links(part: Round, heading: int, torus: Torus, uses: Int64Array, number: int) -> None:
    """Follow messages link by link until all have arrived."""
    dimension, direction = heading // 2, 1 - 2 * (heading % 2)
    here, there = part.source.astype(np.int64), part.destination
    for _ in range(torus.shape[dimension]):
        under_way = here != there
        here, there = here[under_way], there[under_way]
        if not len(here):
            return
        links = torus.link(here, dimension, direction)
        if np.any(links < 0):
            break
        np.add.at(uses, links, 1)
        here = torus.neighbor(here, dimension, direction)
    raise fault(number, f"rank {there[0]} does not lie straight ahead of a rank that sends to it by a port")


def _check_writes(schedule: Schedule, pairs: Pairs, n_atoms: int, number: int) -> Int64Array:
    """Raise a ScheduleError if two messages of a round write the same; return the atoms that are written."""
    written = pairs.destination * n_atoms + pairs.destination_atom
    if not _meet(written):
        return written
    order = np.argsort(written, kind="stable")
    again = order[1:][(written[order[1:]] == written[order[:-1]])]
    before = order[:-1][(written[order[1:]] == written[order[:-1]])]
    clash = np.flatnonzero(~(pairs.reduce[again] & pairs.reduce[before]))
    if len(clash):
        ranks = sorted(int(pairs.source[end[clash[0]]]) for end in (before, again))
        there = int(pairs.destination[again[clash[0]]])
        raise fault(number, f"ranks {ranks[0]} and {ranks[1]} write the same elements of rank {there}")
    return written


def _meet(written: Int64Array) -> bool:
    """Whether two of these are the same."""
    ahead = written[1:] > written[:-1]
    return not ahead.all() and len(distinct(written.copy())) < len(written)


class _Window:
    """What ranks may read, where they do not wait for each round: nothing that came in the last rounds."""

    def __init__(self, schedule: Schedule, n_atoms: int) -> None:
        self.window = schedule.window or 1
        size = schedule.n_ranks * n_atoms if self.window > 1 else 0
        self.when = np.full(size, -self.window, np.int64)

    def pass_round(self, number: int, read: Int64Array, written: Int64Array) -> None:
        if self.window > 1:
            if np.any(self.when[read] > number - self.window):
                raise fault(number, f"a rank sends what came less than {self.window} rounds before")
            self.when[written] = number


def _check_moves(schedule: Schedule, atoms: Atoms) -> None:
    """Follow where elements come from: rank times atoms plus atom."""
    n_atoms = atoms.number
    held = np.full(schedule.n_ranks * n_atoms, -1, np.int64)
    wanted, initial = _moved(schedule, atoms)
    held[initial] = initial
    window = _Window(schedule, n_atoms)
    for number, part in enumerate(schedule.rounds()):
        pairs = pairs_of(part, atoms, 0, n_atoms)
        if np.any(pairs.reduce):
            raise fault(number, f"a {schedule.collective} reduces nothing")
        written = _check_writes(schedule, pairs, n_atoms, number)
        read = pairs.source * n_atoms + pairs.atom
        window.pass_round(number, read, written)
        values = held[read]
        _check_held(values >= 0, pairs, number)
        held[written] = values
    for where, what in wanted:
        wrong = np.flatnonzero(held[where] != what)
        if len(wrong):
            raise _unfulfilled(schedule, int(where[wrong[0]]) // n_atoms)


def _moved(schedule: Schedule, atoms: Atoms) -> tuple[Iterator[tuple[Int64Array, Int64Array]], Int64Array]:
    """Return where each element must end, and where they are at first, as numbers of rank and atom."""
    n_atoms, ranks = atoms.number, np.arange(schedule.n_ranks, dtype=np.int64)
    blocks = schedule.blocks
    if blocks is None:
        there = schedule.root * n_atoms + np.arange(n_atoms)
        return ((rank * n_atoms + np.arange(n_atoms), there) for rank in ranks), there
    initial = (ranks[:, None] * n_atoms + np.arange(blocks.send_size // atoms.equal)).reshape(-1)

    def wanted() -> Iterator[tuple[Int64Array, Int64Array]]:
        for rank in ranks:
            count = blocks.length(ranks, rank) // atoms.equal
            within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            begin = np.repeat(blocks.receive_begin(ranks, rank) // atoms.equal, count)
            sent = np.repeat(ranks * n_atoms + blocks.send_begin(ranks, rank) // atoms.equal, count)
            yield rank * n_atoms + begin + within, sent + within

    return wanted(), initial


class _Passage(NamedTuple):
    """A round on some of the atoms: its number, what is read and written, and which of it is reduced."""

    number: int
    read: Int64Array
    written: Int64Array
    reduce: BoolArray


def _passages(schedule: Schedule, atoms: Atoms, low: int, high: int) -> Iterator[_Passage]:
    """Go through the rounds on the atoms from `low` to `high`; what they do to each other is checked."""
    n_atoms = high - low
    window = _Window(schedule, n_atoms)
    for number, part in enumerate(schedule.rounds()):
        pairs = pairs_of(part, atoms, low, high)
        pairs = replace(pairs, atom=pairs.atom - low, destination_atom=pairs.destination_atom - low)
        written = _check_writes(schedule, pairs, n_atoms, number)
        read = pairs.source * n_atoms + pairs.atom
        window.pass_round(number, read, written)
        yield _Passage(number, read, written, pairs.reduce)


def _check_sums(schedule: Schedule, atoms: Atoms) -> None:
    """Follow which ranks have contributed to each element, some atoms at a time."""
    for low, high in _parts(atoms, _NUMBERS // schedule.n_ranks):
        # Numbers of sums say that all is well, bits of ranks where it is not; barriers may count twice.
        if schedule.collective != "barrier" and _adds_up(schedule, atoms, low, high):
            continue
        words = -(-schedule.n_ranks // 32)
        for begin, end in _parts(atoms, _WORDS // (schedule.n_ranks * words), low, high):
            _check_bits(schedule, atoms, begin, end, words)


def _parts(atoms: Atoms, step: int, low: int = 0, high: int | None = None) -> Iterator[tuple[int, int]]:
    """Cut atoms into parts; what is moved elsewhere cannot be looked at by parts."""
    high = atoms.number if high is None else high
    step = max(1, step) if not atoms.equal else max(1, atoms.number)
    return ((begin, min(begin + step, high)) for begin in range(low, high, step))


def _adds_up(schedule: Schedule, atoms: Atoms, low: int, high: int) -> bool:
    """Whether all ranks that should have them end with sums that count every rank once."""
    sums = Sums(schedule.n_ranks)
    held = np.repeat(np.arange(schedule.n_ranks), high - low)
    for passage in _passages(schedule, atoms, low, high):
        values, reduced = held[passage.read], passage.reduce
        where, added = sums.add_all(passage.written[reduced], values[reduced])
        held[where] = sums.add(held[where], added)
        held[passage.written[~reduced]] = values[~reduced]
    ends = held.reshape(schedule.n_ranks, -1)
    return sums.complete((ends[schedule.root] if schedule.collective == "reduce" else ends).reshape(-1))


def _check_bits(schedule: Schedule, atoms: Atoms, low: int, high: int, words: int) -> None:
    """Follow sets of ranks, a bit each, and name what is wrong."""
    held = np.zeros((schedule.n_ranks, high - low, words), np.uint32)
    ranks = np.arange(schedule.n_ranks)
    held[ranks, :, ranks // 32] = (1 << (ranks % 32)).astype(np.uint32)[:, None]
    complete = np.bitwise_or.reduce(held[:, 0], axis=0)
    flat = held.reshape(-1, words)
    for passage in _passages(schedule, atoms, low, high):
        _join_bits(schedule, passage, flat)
    ends = held[[schedule.root]] if schedule.collective == "reduce" else held
    wrong = np.flatnonzero(np.any(ends != complete, axis=(1, 2)))
    if len(wrong):
        raise _unfulfilled(schedule, schedule.root if len(ends) == 1 else int(wrong[0]))


def _join_bits(schedule: Schedule, passage: _Passage, held: npt.NDArray[np.uint32]) -> None:
    values, written = held[passage.read], passage.written
    reduced = np.flatnonzero(passage.reduce)
    if len(reduced):
        order = reduced[np.argsort(written[reduced], kind="stable")]
        where, begins = np.unique(written[order], return_index=True)
        arrived = np.bitwise_or.reduceat(values[order], begins, axis=0)
        # Sums of disjoint sets of bits, and only these, are equal to their union.
        added = np.add.reduceat(values[order], begins, axis=0, dtype=np.uint64) + held[where]
        union = arrived | held[where]
        twice = np.flatnonzero(np.any(added != union, axis=1))
        if len(twice) and schedule.collective != "barrier":
            n_atoms = len(held) // schedule.n_ranks
            raise fault(passage.number, f"rank {where[twice[0]] // n_atoms} counts a contribution twice")
        held[where] = union
    held[written[~passage.reduce]] = values[~passage.reduce]


def _check_held(holds: npt.NDArray[np.bool_], pairs: Pairs, number: int) -> None:
    missing = np.flatnonzero(~holds)
    if len(missing):
        raise fault(number, f"rank {pairs.source[missing[0]]} sends elements that it does not hold yet")


def _unfulfilled(schedule: Schedule, rank: int) -> ScheduleError:
    return ScheduleError(
        f"rank {rank} does not end with what a {schedule.collective} by '{schedule.algorithm}' promises"
    )
