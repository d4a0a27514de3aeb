"""Samples of files that a node needs more than once in a pass: one rank reads them, for all."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from petacomm.base.errors import STOPS, ResourceError
from petacomm.base.typing import AnyArray, Int64Array
from petacomm.mpi import Communicator, exchange_on_nodes
from petamap.data.read_ahead import SHORT, Place, ReadAhead, announced

MOST_SHARED = 1 << 28  # bytes a node; samples beyond are read by each rank that needs them


class Read(NamedTuple):
    """Samples [start, stop) of a row of a part of a file, which a rank will read."""

    part: ReadAhead
    row: int
    start: int
    stop: int


class _Ranges(NamedTuple):
    """Ranges (row, start, stop), (n, 3), of a part of a file that a rank will read, and how it is read."""

    ranges: Int64Array
    grain: int
    n_samp: int
    sample_bytes: int
    whole: Place | None


def share_reads(reads: Iterable[Read], comm: Communicator) -> None:
    """Announce what this rank reads in a pass, up to `forget_pieces`, and share what others need. Collective.

    Ranks of a node need the same samples in the halos of their blocks, in chunks of the file, and where all
    detectors have one row. One of them reads these before the pass.

    Parameters
    ----------
    reads : iterable of Read
        In the order of the pass. Of those shorter than `SHORT` nothing is shared.
    comm : Communicator
    """
    parts: dict[str, ReadAhead] = {}
    asked: dict[str, list[Place]] = {}
    for part, row, start, stop in reads:
        if part.whole or stop - start >= SHORT:
            parts[part.name] = part
            asked.setdefault(part.name, []).append(Place(row, row + 1, start, stop))
    shared = _shared(parts, asked, comm)
    for name, part in parts.items():
        part.announce(_merged(asked[name]), shared.get(name, []))
        announced.append(part)


def _merged(ranges: list[Place]) -> list[Place]:
    """Return ranges in their order, those of a row that overlap as one."""
    found: list[tuple[int, Place]] = []
    for number in sorted(range(len(ranges)), key=lambda number: ranges[number]):
        place = ranges[number]
        if found and found[-1][1].first == place.first and place.start <= found[-1][1].stop:
            earlier, last = found.pop()
            number, place = min(earlier, number), last._replace(stop=max(last.stop, place.stop))
        found.append((number, place))
    return [place for _, place in sorted(found)]


def _shared(
    parts: dict[str, ReadAhead], places: dict[str, list[Place]], comm: Communicator
) -> dict[str, list[tuple[Place, AnyArray]]]:
    """Return samples of parts of this rank that one of the node has read for several. Collective."""
    node, own = comm.node(), {}
    for name, part in parts.items():
        ranges = np.array([(place.first, place.start, place.stop) for place in places[name]], np.int64)
        own[name] = _Ranges(ranges, part.grain, part.n_samp, part.sample_bytes, part.whole)
    zones = _zones(node.allgather(own))
    read = {}
    for number, (name, place, rank) in enumerate(zones):
        if rank == node.rank:
            try:
                read[number] = np.ascontiguousarray(parts[name].read(place))
            except STOPS:
                raise
            except Exception:  # who asks for it reads it again, and tells
                continue
    wanted = [number for number, zone in enumerate(zones) if zone[0] in parts]
    found: dict[str, list[tuple[Place, AnyArray]]] = {}
    with suppress(ResourceError):
        for number, values in exchange_on_nodes(comm, read, wanted).items():
            found.setdefault(zones[number][0], []).append((zones[number][1], values))
    return found


def _zones(of_ranks: list[dict[str, _Ranges]]) -> list[tuple[str, Place, int]]:
    """Return name and place of what several ranks of a node read, and the first rank that does."""
    zones, room = [], MOST_SHARED
    for name in sorted({name for one in of_ranks for name in one}):
        readers = [(rank, one[name]) for rank, one in enumerate(of_ranks) if name in one]
        for place, rank in _zones_of_part(readers):
            n_samples = (place.last - place.first) * (place.stop - place.start)
            n_bytes = readers[0][1].sample_bytes * n_samples
            if n_bytes <= room:
                zones.append((name, place, rank))
                room -= n_bytes
    return zones


def _zones_of_part(readers: list[tuple[int, _Ranges]]) -> list[tuple[Place, int]]:
    first = readers[0][1]
    if first.whole is not None:
        return [(first.whole, readers[0][0])] if len(readers) > 1 else []
    table = np.concatenate([one.ranges for _, one in readers])
    ranks = np.repeat([rank for rank, _ in readers], [len(one.ranges) for _, one in readers])
    order = np.lexsort((table[:, 1], table[:, 0]))
    row, start, stop = table[order].T
    start, stop = start // first.grain * first.grain, -(-stop // first.grain) * first.grain
    stop = np.minimum(stop, first.n_samp)
    found: list[tuple[Place, int]] = []
    # Ranges are dealt in their order: what one shares with another, it shares with the next, too.
    for k in np.flatnonzero((row[1:] == row[:-1]) & (start[1:] < stop[:-1])).tolist():
        rank, first_row = int(ranks[order[k]]), int(row[k])
        place = Place(first_row, first_row + 1, int(start[k + 1]), int(stop[k]))
        if found and found[-1][0].first == place.first and place.start < found[-1][0].stop:
            last, rank = found.pop()
            place = last._replace(stop=max(last.stop, place.stop))
        found.append((place, rank))
    return found
