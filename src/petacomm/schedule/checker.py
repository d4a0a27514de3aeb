"""Symbolic verification that a schedule implements its collective.

Elements are replaced by their provenance: the set of contributing ranks where values are reduced, the
original rank and element where they are only moved. The rounds are then executed on these. A schedule that
ends with the right provenance, and in which no rank sends data that it does not hold or writes elements that
another message writes, is correct for all values. A row is both a send and its receive, and depends only on
earlier rounds, so schedules cannot express sends without receives, or deadlocks.

Elements that are always moved together are one *atom* (see `petacomm.schedule.atoms`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.base.arguments import require_instance
from petacomm.base.distinct import distinct
from petacomm.base.typing import BoolArray, Int64Array
from petacomm.schedule.atoms import AtomRows, Atoms, atom_rows, find_atoms, round_error
from petacomm.schedule.contributions import PartialSums
from petacomm.schedule.schedule import Round, Schedule, ScheduleError
from petacomm.topology.torus import Torus

# Limits of the memory for the atoms that are checked at a time: numbers of sums, 32-bit words of sets of
# ranks.
_MAX_SUMS, _MAX_WORDS = 1 << 23, 1 << 25


def check_schedule(schedule: Schedule) -> None:
    """Raise a ScheduleError unless every rank ends with the right contributions, each exactly once.

    A barrier may count a rank more than once. The cost is that of moving one integer per atom; for incorrect
    schedules, also that of one bit per atom and rank, to report the error.

    Parameters
    ----------
    schedule : Schedule

    Raises
    ------
    ScheduleError
        If the schedule is incorrect; the message names the round and the ranks.

    Examples
    --------
    >>> import petacomm
    >>> petacomm.check_schedule(petacomm.make_schedule(petacomm.CollectiveCall("broadcast", 5, 10)))
    """
    require_instance(schedule, "schedule", Schedule, "make one by make_schedule")
    atoms = find_atoms(schedule)
    if schedule.collective in ("broadcast", "alltoall"):
        _check_moves(schedule, atoms)
    else:
        _check_sums(schedule, atoms)


def link_message_counts(schedule: Schedule, torus: Torus) -> Int64Array:
    """Return the number of messages on each directed link, counting only messages with a heading.

    Parameters
    ----------
    schedule : Schedule
    torus : Torus
        Network of the ranks; rank r is node r.

    Returns
    -------
    int64 (n_links,)

    Raises
    ------
    ScheduleError
        If a message cannot reach its destination in the direction of its heading.
    """
    counts = np.zeros(torus.n_links, np.int64)
    for number, part in enumerate(schedule.rounds()):
        directed = part.take(part.heading >= 0)
        # Only the last row of a line counts, that of the farthest rank: it passes all others.
        directed = directed.take(~directed.is_passed)
        for heading in np.unique(directed.heading):
            _count_links(directed.take(directed.heading == heading), int(heading), torus, counts, number)
    return counts


def _count_links(part: Round, heading: int, torus: Torus, counts: Int64Array, number: int) -> None:
    """Move messages link by link until all have arrived, and count the links."""
    dimension, direction = heading // 2, 1 - 2 * (heading % 2)
    node, target = part.source.astype(np.int64), part.destination
    for _ in range(torus.shape[dimension]):
        in_flight = node != target
        node, target = node[in_flight], target[in_flight]
        if not len(node):
            return
        links = torus.link(node, dimension, direction)
        if np.any(links < 0):
            break
        np.add.at(counts, links, 1)
        node = torus.neighbor(node, dimension, direction)
    raise round_error(
        number, f"rank {target[0]} does not lie straight ahead of a rank that sends to it by a port"
    )


def _check_writes(schedule: Schedule, rows: AtomRows, n_atoms: int, number: int) -> Int64Array:
    """Return the atoms written in a round; raise a ScheduleError if two messages overwrite the same one."""
    written = rows.destination * n_atoms + rows.destination_atom
    if not _has_duplicates(written):
        return written
    order = np.argsort(written, kind="stable")
    same = written[order[1:]] == written[order[:-1]]
    first, second = order[:-1][same], order[1:][same]
    conflicts = np.flatnonzero(~(rows.reduce[second] & rows.reduce[first]))
    if len(conflicts):
        ranks = sorted(int(rows.source[end[conflicts[0]]]) for end in (first, second))
        rank = int(rows.destination[second[conflicts[0]]])
        raise round_error(number, f"ranks {ranks[0]} and {ranks[1]} write the same elements of rank {rank}")
    return written


def _has_duplicates(values: Int64Array) -> bool:
    increasing = values[1:] > values[:-1]
    return not increasing.all() and len(distinct(values.copy())) < len(values)


class _Window:
    """Check that no rank sends data of the last `window` - 1 rounds, whose arrival it does not wait for."""

    def __init__(self, schedule: Schedule, n_atoms: int) -> None:
        self.window = schedule.window or 1
        size = schedule.n_ranks * n_atoms if self.window > 1 else 0
        self.last_written = np.full(size, -self.window, np.int64)

    def check_round(self, number: int, read: Int64Array, written: Int64Array) -> None:
        if self.window > 1:
            if np.any(self.last_written[read] > number - self.window):
                raise round_error(number, f"a rank sends what came less than {self.window} rounds before")
            self.last_written[written] = number


def _check_moves(schedule: Schedule, atoms: Atoms) -> None:
    """Check a collective that only moves data: follow the origin of each atom, rank * n_atoms + atom."""
    n_atoms = atoms.n_atoms
    held = np.full(schedule.n_ranks * n_atoms, -1, np.int64)
    expected, initial = _expected_origins(schedule, atoms)
    held[initial] = initial
    window = _Window(schedule, n_atoms)
    for number, part in enumerate(schedule.rounds()):
        rows = atom_rows(part, atoms, 0, n_atoms)
        if np.any(rows.reduce):
            raise round_error(number, f"a {schedule.collective} reduces nothing")
        written = _check_writes(schedule, rows, n_atoms, number)
        read = rows.source * n_atoms + rows.atom
        window.check_round(number, read, written)
        values = held[read]
        _check_held(values >= 0, rows, number)
        held[written] = values
    for target, origin in expected:
        wrong = np.flatnonzero(held[target] != origin)
        if len(wrong):
            raise _wrong_result(schedule, int(target[wrong[0]]) // n_atoms)


def _expected_origins(
    schedule: Schedule, atoms: Atoms
) -> tuple[Iterator[tuple[Int64Array, Int64Array]], Int64Array]:
    """Return pairs of final atoms and their origins, rank by rank, and the atoms that hold data initially."""
    n_atoms, ranks = atoms.n_atoms, np.arange(schedule.n_ranks, dtype=np.int64)
    blocks = schedule.blocks
    if blocks is None:
        origin = schedule.root * n_atoms + np.arange(n_atoms)
        return ((rank * n_atoms + np.arange(n_atoms), origin) for rank in ranks), origin
    initial = (ranks[:, None] * n_atoms + np.arange(blocks.send_size // atoms.size)).reshape(-1)

    def expected() -> Iterator[tuple[Int64Array, Int64Array]]:
        for rank in ranks:
            count = blocks.length(ranks, rank) // atoms.size
            within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            begin = np.repeat(blocks.receive_begin(ranks, rank) // atoms.size, count)
            origin = np.repeat(ranks * n_atoms + blocks.send_begin(ranks, rank) // atoms.size, count)
            yield rank * n_atoms + begin + within, origin + within

    return expected(), initial


class _AtomRound(NamedTuple):
    """A round restricted to some atoms: its number, the atoms read and written, and which are reduced."""

    number: int
    read: Int64Array
    written: Int64Array
    reduce: BoolArray


def _atom_rounds(schedule: Schedule, atoms: Atoms, low: int, high: int) -> Iterator[_AtomRound]:
    """Iterate over the rounds, restricted to the atoms from `low` to `high`, and check writes and window."""
    n_atoms = high - low
    window = _Window(schedule, n_atoms)
    for number, part in enumerate(schedule.rounds()):
        rows = atom_rows(part, atoms, low, high)
        rows = replace(rows, atom=rows.atom - low, destination_atom=rows.destination_atom - low)
        written = _check_writes(schedule, rows, n_atoms, number)
        read = rows.source * n_atoms + rows.atom
        window.check_round(number, read, written)
        yield _AtomRound(number, read, written, rows.reduce)


def _check_sums(schedule: Schedule, atoms: Atoms) -> None:
    """Check a collective that reduces: follow the ranks that contribute to each atom."""
    for low, high in _ranges(atoms, _MAX_SUMS // schedule.n_ranks):
        # Numbers of sums prove that a schedule is correct; sets of ranks report why it is not. Barriers may
        # count a rank twice, which only sets allow.
        if schedule.collective != "barrier" and _sums_complete(schedule, atoms, low, high):
            continue
        words = -(-schedule.n_ranks // 32)
        for begin, end in _ranges(atoms, _MAX_WORDS // (schedule.n_ranks * words), low, high):
            _check_sets(schedule, atoms, begin, end, words)


def _ranges(atoms: Atoms, step: int, low: int = 0, high: int | None = None) -> Iterator[tuple[int, int]]:
    """Divide the atoms into ranges; atoms that move to other positions must be checked at the same time."""
    high = atoms.n_atoms if high is None else high
    step = max(1, step) if not atoms.size else max(1, atoms.n_atoms)
    return ((begin, min(begin + step, high)) for begin in range(low, high, step))


def _sums_complete(schedule: Schedule, atoms: Atoms, low: int, high: int) -> bool:
    """Return whether all ranks that receive a result end with sums that count every rank once."""
    sums = PartialSums(schedule.n_ranks)
    held = np.repeat(np.arange(schedule.n_ranks), high - low)
    for part in _atom_rounds(schedule, atoms, low, high):
        values, reduced = held[part.read], part.reduce
        positions, totals = sums.add_by_position(part.written[reduced], values[reduced])
        held[positions] = sums.add(held[positions], totals)
        held[part.written[~reduced]] = values[~reduced]
    results = held.reshape(schedule.n_ranks, -1)
    if schedule.collective == "reduce":
        results = results[schedule.root]
    return sums.are_complete(results.reshape(-1))


def _check_sets(schedule: Schedule, atoms: Atoms, low: int, high: int, words: int) -> None:
    """Follow the sets of contributing ranks, as bits, and raise a ScheduleError that names the mistake."""
    held = np.zeros((schedule.n_ranks, high - low, words), np.uint32)
    ranks = np.arange(schedule.n_ranks)
    held[ranks, :, ranks // 32] = (1 << (ranks % 32)).astype(np.uint32)[:, None]
    complete = np.bitwise_or.reduce(held[:, 0], axis=0)
    flat = held.reshape(-1, words)
    for part in _atom_rounds(schedule, atoms, low, high):
        _unite_sets(schedule, part, flat)
    results = held[[schedule.root]] if schedule.collective == "reduce" else held
    wrong = np.flatnonzero(np.any(results != complete, axis=(1, 2)))
    if len(wrong):
        raise _wrong_result(schedule, schedule.root if len(results) == 1 else int(wrong[0]))


def _unite_sets(schedule: Schedule, part: _AtomRound, held: npt.NDArray[np.uint32]) -> None:
    """Unite the sets of a round with those that their destinations hold."""
    values, written = held[part.read], part.written
    reduced = np.flatnonzero(part.reduce)
    if len(reduced):
        order = reduced[np.argsort(written[reduced], kind="stable")]
        target, begins = np.unique(written[order], return_index=True)
        arrived = np.bitwise_or.reduceat(values[order], begins, axis=0)
        # The sum of bit sets equals their union if and only if they are disjoint.
        total = np.add.reduceat(values[order], begins, axis=0, dtype=np.uint64) + held[target]
        union = arrived | held[target]
        twice = np.flatnonzero(np.any(total != union, axis=1))
        if len(twice) and schedule.collective != "barrier":
            n_atoms = len(held) // schedule.n_ranks
            raise round_error(part.number, f"rank {target[twice[0]] // n_atoms} counts a contribution twice")
        held[target] = union
    held[written[~part.reduce]] = values[~part.reduce]


def _check_held(holds: npt.NDArray[np.bool_], rows: AtomRows, number: int) -> None:
    missing = np.flatnonzero(~holds)
    if len(missing):
        raise round_error(number, f"rank {rows.source[missing[0]]} sends elements that it does not hold yet")


def _wrong_result(schedule: Schedule, rank: int) -> ScheduleError:
    return ScheduleError(
        f"rank {rank} does not end with what a {schedule.collective} by '{schedule.algorithm}' promises"
    )
