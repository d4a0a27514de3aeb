"""Division of schedules into chunks of one size, in which programs of GPUs name their data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from petacomm.schedule.flat_messages import pair_messages
from petacomm.schedule.schedule import Round, Schedule, ScheduleError

COLLECTIVES = ("allreduce", "alltoall")  # that such programs have: none with a root


@dataclass(frozen=True)
class ChunkDivision:
    """Division of the work space into chunks of one size, and the buffers that have them.

    Attributes
    ----------
    size : int
        Elements of a chunk.
    sends, receives, scratch : int
        Chunks of input, output and scratch.
    """

    size: int
    sends: int
    receives: int
    scratch: int

    @classmethod
    def of(cls, schedule: Schedule, library: str, most: int) -> ChunkDivision:
        """Return that of a schedule, for a library that takes so many chunks at most.

        Raises
        ------
        ScheduleError
            If it is another collective, has other messages than between two ranks, or parts that are no
            chunks of one size.
        """
        if schedule.collective not in COLLECTIVES:
            raise ScheduleError(
                f"algorithms of {library} have no root, and move data: there is none of a "
                f"{schedule.collective}",
                mend=f"take one of {', '.join(COLLECTIVES)}",
            )
        pair_messages(schedule, 1, library)
        edges = {schedule.n_elements}
        for part in schedule.rounds():
            for column in (part.begin, part.destination_begin, part.length):
                edges.update(np.unique(column).tolist())
        blocks = schedule.blocks
        parts = [schedule.n_elements, 0] if blocks is None else [blocks.send_size, blocks.receive_size]
        size = math.gcd(*edges, *parts) or 1
        chunks = cls(size, parts[0] // size, parts[1] // size, (schedule.n_elements - sum(parts)) // size)
        if schedule.n_elements // size > most:
            raise ScheduleError(
                f"'{schedule.algorithm}' moves parts of {schedule.n_elements} elements that no chunks of one "
                f"size make up, {most} at most",
                mend="take as many elements for each rank",
            )
        return chunks

    def place(self, element: int) -> tuple[str, int]:
        """Return the buffer (i, o, s) and the offset of a chunk, by its first element."""
        chunk = element // self.size
        for buffer, n in (("i", self.sends), ("o", self.receives)):
            if chunk < n:
                return buffer, chunk
            chunk -= n
        return "s", chunk

    def rows(self, part: Round, most: int) -> Iterator[RoundRow]:
        """Yield the rows of a round that move something; of those of more than `most` chunks, pieces."""
        part = part.take(part.length > 0)
        columns = (
            part.source, part.destination, part.begin, part.destination_begin, part.length, part.reduce
        )  # fmt: skip
        for source, destination, begin, to, length, reduce in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            for done in range(0, length, most * self.size):
                count = min(most, (length - done) // self.size)
                yield RoundRow(source, destination, begin + done, to + done, count, reduce)


class RoundRow(NamedTuple):
    """Chunks that go from one rank to another, or from one place to another in its memory."""

    source: int
    destination: int
    begin: int  # elements
    to: int
    n: int
    reduce: bool

    @property
    def is_local(self) -> bool:
        """Whether it is a copy in the memory of a rank."""
        return self.source == self.destination

    def reads(self, size: int) -> range:
        """Return the chunks of the source."""
        return range(self.begin // size, self.begin // size + self.n)

    def writes(self, size: int) -> range:
        """Return the chunks of the destination."""
        return range(self.to // size, self.to // size + self.n)
