"""All-to-alls of Table 2 of Almasi et al. 2005, simulated packet by packet."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from petacomm.base.progress import Progress
from petacomm.base.threads import available_threads, map_threads
from petacomm.papers.almasi2005.benchmarks import BlueGeneBenchmarks
from petacomm.topology import parse_shape

SHORT_MESSAGES = (16, 64, 256)
# Maximum number of packet hops of a simulated all-to-all, except for short messages.
_MAX_HOPS = 60e6
PLATEAU = 0  # stands for a message size: the limit of long messages


@dataclass(frozen=True)
class AllToAllRow:
    """Simulated all-to-alls of a shape.

    Attributes
    ----------
    n_nodes : int
    seconds : mapping of int to float
        Seconds by bytes of a message, of the sizes that were simulated whole.
    long : int
        Bytes of the simulated slice of long messages.
    long_seconds : float
        Seconds of that slice, without those of beginning messages.
    begin_seconds : callable
        Function of the bytes of a message: seconds in which a processor begins all of its messages.
    """

    n_nodes: int
    seconds: Mapping[int, float]
    long: int
    long_seconds: float
    begin_seconds: Callable[[int], float]

    def aggregate(self, n_bytes: int) -> float:
        """Return the MB/s of all nodes for messages of `n_bytes`, or for `PLATEAU`.

        Messages between different nodes count. What is longer than the sizes simulated whole continues the
        longest of these at the rate of the slice of long messages. What longer messages take more to begin
        is added: nodes do that in their first round, when processors are the limit.
        """
        if n_bytes == PLATEAU:
            return self._rate(self.long, self.long_seconds)
        longest = self.longest_before(n_bytes)
        seconds = self.seconds[longest] + (n_bytes - longest) * self.long_seconds / self.long
        seconds += self.begin_seconds(n_bytes) - self.begin_seconds(longest)
        return self._rate(n_bytes, seconds)

    def longest_before(self, n_bytes: int) -> int:
        """Return the largest size up to `n_bytes` that was simulated whole."""
        return max(size for size in self.seconds if size <= n_bytes)

    def _rate(self, n_bytes: int, seconds: float) -> float:
        return self.n_nodes * (self.n_nodes - 1) * n_bytes / seconds / 1e6


def simulate_rows(
    bench: BlueGeneBenchmarks, rows: Mapping[str, Any], sizes: Sequence[int], listener: Progress
) -> dict[str, AllToAllRow]:
    """Return the simulated all-to-alls by shape; `rows` are those of Table 2 in ``published.toml``."""
    jobs = list_jobs(rows, sizes)
    total = sum(approximate_hops(shape, n_bytes or rows[shape]["long"]) for shape, n_bytes in jobs)
    listener.begin("all-to-alls, packet by packet", total, "hops")

    def work(job: tuple[str, int]) -> float:
        shape, n_bytes = job[0], job[1] or rows[job[0]]["long"]
        run = bench.simulate_all_to_all(shape, n_bytes, slice_of_long=job[1] == PLATEAU)
        listener.advance(approximate_hops(shape, n_bytes), f"{shape}, {n_bytes} B")
        return run.seconds

    found = dict(zip(jobs, map_threads(work, jobs, min(4, available_threads())), strict=True))
    listener.end()
    return {
        shape: AllToAllRow(
            count_nodes(shape),
            {n: seconds for (of, n), seconds in sorted(found.items()) if of == shape and n != PLATEAU},
            row["long"],
            found[shape, PLATEAU],
            partial(bench.begin_all_to_all_seconds, shape),
        )
        for shape, row in rows.items()
    }


def list_jobs(rows: Mapping[str, Any], sizes: Sequence[int]) -> list[tuple[str, int]]:
    """Return the shapes and message sizes (or `PLATEAU`) to be simulated, the most expensive first."""
    jobs = {
        (shape, n_bytes)
        for shape, row in rows.items()
        for n_bytes in sizes[: len(row["values"])]
        if n_bytes in SHORT_MESSAGES or approximate_hops(shape, n_bytes) < _MAX_HOPS
    }
    jobs |= {(shape, PLATEAU) for shape in rows}
    return sorted(jobs, key=lambda job: (-approximate_hops(job[0], job[1] or rows[job[0]]["long"]), job))


def approximate_hops(shape: str, n_bytes: int) -> float:
    """Return the approximate number of packet hops of an all-to-all."""
    sizes = parse_shape(shape)
    ring = count_nodes(shape) >= 512
    mean = sum(size / 4 if ring else (size - 1 / size) / 3 for size in sizes)
    return count_nodes(shape) ** 2 * mean * math.ceil(n_bytes / 240)


def count_nodes(shape: str) -> int:
    """Return the number of nodes of a shape like "8x8x8"."""
    return math.prod(parse_shape(shape))
