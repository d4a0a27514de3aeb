"""All-to-all in random order, a few packets to each rank in turn: no hot spots on any network, and little
work a packet (Almasi et al. 2005, 3.1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.algorithms.pairwise import direct, work_size
from petacomm.schedule.schedule import Blocks, Round, Schedule, ScheduleError, check_ranks


def alltoall(blocks: Blocks, packet: int = 30, packets_per_visit: int = 2, seed: int = 0) -> Schedule:
    """Send `packets_per_visit` packets to each rank on a list, and begin anew until all is sent.

    The list is one random permutation, the same everywhere; each rank begins at another place of it, so that
    no two send to the same rank at a time. Ranks to which all is sent leave the list, which closes up.

    Parameters
    ----------
    blocks : Blocks
    packet : int
        Elements of a full packet; by default 30 of 8 bytes, BlueGene/L's 240. Shorter blocks make shorter
        ones.
    packets_per_visit : int
        2 were best on BlueGene/L.
    seed : int
        Of the permutation.
    """
    check_ranks(blocks.n_ranks)
    if packet < 1 or packets_per_visit < 1:
        raise ScheduleError(
            "a visit without packets or elements sends nothing", mend="give 1 or more of each"
        )
    visit = packet * packets_per_visit
    order = np.random.Generator(np.random.Philox(seed)).permutation(blocks.n_ranks)
    n_rounds = 1 + sum(_passes(blocks, visit))
    return Schedule(
        "alltoall",
        "random-order",
        blocks.n_ranks,
        work_size(blocks),
        n_rounds,
        lambda: _rounds(blocks, order, visit),
        blocks=blocks,
        window=n_rounds,  # nobody waits for anything
    )


def _rounds(blocks: Blocks, order: Int64Array, visit: int) -> Iterator[Round]:
    ranks = np.arange(blocks.n_ranks, dtype=np.int64)
    yield direct(blocks, ranks, ranks)
    # A list is left out by all at the same time if all blocks are equal: then it is known without being kept.
    lists = None if blocks.counts is None else _Lists(blocks, order, visit)
    for number, n_visits in enumerate(_passes(blocks, visit)):
        for k in range(n_visits):
            there = order[(ranks + k) % blocks.n_ranks] if lists is None else lists.column(k)
            here = np.flatnonzero((there >= 0) & (there != ranks))
            yield _part(direct(blocks, here, there[here]), number * visit, visit)
        if lists is not None:
            lists.close_up()


def _passes(blocks: Blocks, visit: int) -> list[int]:
    """Return how many ranks the longest list has in each pass."""
    if blocks.counts is None:
        return [blocks.n_ranks] * -(-blocks.count // visit)
    counts = blocks.counts * ~np.eye(blocks.n_ranks, dtype=bool)
    n_passes = -(-int(counts.max(initial=0)) // visit)
    return [int((counts > number * visit).sum(axis=1).max()) for number in range(n_passes)]


def _part(part: Round, offset: int, length: int) -> Round:
    """Return the messages of blocks cut to one visit."""
    return Round.of(
        part.source,
        part.destination,
        part.begin + offset,
        np.minimum(part.length - offset, length),
        destination_begin=part.destination_begin + offset,
    )


class _Lists:
    """The destinations of each rank that are still to be served: int32 (n_ranks, n_ranks), -1 behind them."""

    def __init__(self, blocks: Blocks, order: Int64Array, visit: int) -> None:
        assert blocks.counts is not None
        n_ranks = blocks.n_ranks
        ranks = np.arange(n_ranks)
        self.lists = order.astype(np.int32)[(ranks[:, None] + ranks) % n_ranks]
        self.left = blocks.counts[ranks[:, None], self.lists] * (self.lists != ranks[:, None])
        self.visit = visit
        self._keep(self.left > 0)

    def column(self, k: int) -> Int64Array:
        column: Int64Array = self.lists[:, k].astype(np.int64)
        return column

    def close_up(self) -> None:
        """Take a visit off what is left, and out of the lists those to which nothing is."""
        self.left -= self.visit
        self._keep(self.left > 0)

    def _keep(self, kept: Int64Array) -> None:
        # Stable, so that ranks stay in the order of the permutation.
        order = np.argsort(~kept, axis=1, kind="stable")
        self.lists = np.where(
            np.take_along_axis(kept, order, 1), np.take_along_axis(self.lists, order, 1), -1
        )
        self.left = np.take_along_axis(self.left, order, 1)
