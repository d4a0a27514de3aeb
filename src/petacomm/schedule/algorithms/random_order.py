"""All-to-all in random order, a few packets to each rank at a time.

It avoids hot spots on any network, with little work per packet (Almasi et al. 2005, 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.algorithms.pairwise import alltoall_work_size, direct_messages
from petacomm.schedule.schedule import AlltoallBlocks, Round, Schedule, ScheduleError, check_n_ranks


def random_order_alltoall(
    blocks: AlltoallBlocks, packet: int = 30, packets_per_visit: int = 2, seed: int = 0
) -> Schedule:
    """Return an all-to-all that repeatedly sends `packets_per_visit` packets to each rank of a list.

    The list is a random permutation, the same on all ranks; each rank begins at another position, so that no
    two ranks send to the same rank at the same time. Ranks to which everything has been sent leave the list.

    Parameters
    ----------
    blocks : AlltoallBlocks
    packet : int
        Elements of a full packet; by default 30 of 8 bytes, the 240 bytes of BlueGene/L.
    packets_per_visit : int
        2 were best on BlueGene/L.
    seed : int
        Seed of the permutation.
    """
    check_n_ranks(blocks.n_ranks)
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
        alltoall_work_size(blocks),
        n_rounds,
        lambda: _rounds(blocks, order, visit),
        blocks=blocks,
        window=n_rounds,  # no message waits for another
    )


def _rounds(blocks: AlltoallBlocks, order: Int64Array, visit: int) -> Iterator[Round]:
    ranks = np.arange(blocks.n_ranks, dtype=np.int64)
    yield direct_messages(blocks, ranks, ranks)
    # With equal blocks all destinations leave the lists in the same pass: the lists need not be stored.
    lists = None if blocks.counts is None else _DestinationLists(blocks, order, visit)
    for number, n_visits in enumerate(_passes(blocks, visit)):
        for k in range(n_visits):
            target = order[(ranks + k) % blocks.n_ranks] if lists is None else lists.column(k)
            source = np.flatnonzero((target >= 0) & (target != ranks))
            yield _cut(direct_messages(blocks, source, target[source]), number * visit, visit)
        if lists is not None:
            lists.remove_finished()


def _passes(blocks: AlltoallBlocks, visit: int) -> list[int]:
    """Return the length of the longest list in each pass."""
    if blocks.counts is None:
        return [blocks.n_ranks] * -(-blocks.count // visit)
    counts = blocks.counts * ~np.eye(blocks.n_ranks, dtype=bool)
    n_passes = -(-int(counts.max(initial=0)) // visit)
    return [int((counts > number * visit).sum(axis=1).max()) for number in range(n_passes)]


def _cut(part: Round, offset: int, length: int) -> Round:
    """Return the messages cut to `length` elements from `offset`."""
    return Round.from_columns(
        part.source,
        part.destination,
        part.begin + offset,
        np.minimum(part.length - offset, length),
        destination_begin=part.destination_begin + offset,
    )


class _DestinationLists:
    """The remaining destinations of each rank: `lists`, int32 (n_ranks, n_ranks), padded with -1.

    `remaining` has the elements that are still to be sent to each.
    """

    def __init__(self, blocks: AlltoallBlocks, order: Int64Array, visit: int) -> None:
        assert blocks.counts is not None
        n_ranks = blocks.n_ranks
        ranks = np.arange(n_ranks)
        self.lists = order.astype(np.int32)[(ranks[:, None] + ranks) % n_ranks]
        self.remaining = blocks.counts[ranks[:, None], self.lists] * (self.lists != ranks[:, None])
        self.visit = visit
        self._keep(self.remaining > 0)

    def column(self, k: int) -> Int64Array:
        """Return the k-th destination of each rank; -1 at the end of its list."""
        column: Int64Array = self.lists[:, k].astype(np.int64)
        return column

    def remove_finished(self) -> None:
        """Subtract one visit from the remaining elements, and remove destinations with none left."""
        self.remaining -= self.visit
        self._keep(self.remaining > 0)

    def _keep(self, kept: Int64Array) -> None:
        # A stable sort keeps the ranks in the order of the permutation.
        order = np.argsort(~kept, axis=1, kind="stable")
        self.lists = np.where(
            np.take_along_axis(kept, order, 1), np.take_along_axis(self.lists, order, 1), -1
        )
        self.remaining = np.take_along_axis(self.remaining, order, 1)
