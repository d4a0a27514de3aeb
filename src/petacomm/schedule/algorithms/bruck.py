"""All-to-all by store and forward: log2(n) rounds of half of all blocks each; MPICH's for short blocks (Bruck
et al. 1997; Thakur, Rabenseifner and Gropp 2005, 3.4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.algorithms.binomial import doublings
from petacomm.schedule.algorithms.pairwise import work_size
from petacomm.schedule.schedule import Blocks, Round, Schedule, ScheduleError, check_ranks

# Copies of the last rounds are made by so many rows at once.
_ROWS = 1 << 20


def alltoall(blocks: Blocks) -> Schedule:
    """Send each block as many ranks up as its distance says, one binary digit a round.

    Blocks wait in scratch, in the order of the distance that they have to go. All must be equally long.
    """
    n_ranks, count = blocks.n_ranks, blocks.count
    check_ranks(n_ranks)
    if blocks.counts is not None:
        raise ScheduleError("'bruck' takes blocks of one length", mend="use 'pairwise' or 'random-order'")
    ranks = np.arange(n_ranks, dtype=np.int64)
    scratch = work_size(blocks)
    step = max(1, _ROWS // n_ranks)

    def rounds() -> Iterator[Round]:
        # Distance 0 of each rank is its own block: from there to the end, then from the beginning.
        begin = np.concatenate([ranks, np.zeros_like(ranks)]) * count
        length = np.concatenate([n_ranks - ranks, ranks]) * count
        there = scratch + np.concatenate([np.zeros_like(ranks), n_ranks - ranks]) * count
        both = np.concatenate([ranks, ranks])
        yield Round.of(both, both, begin, length, destination_begin=there)
        for k in range(doublings(n_ranks)):
            first = np.arange(1 << k, n_ranks, 2 << k)
            last = np.minimum(first + (1 << k), n_ranks)
            here = np.repeat(ranks, len(first))
            begin = np.tile(scratch + first * count, n_ranks)
            length = np.tile((last - first) * count, n_ranks)
            yield Round.of(here, (here + (1 << k)) % n_ranks, begin, length)
        for low in range(0, n_ranks, step):
            distance = np.arange(low, min(low + step, n_ranks))
            here, far = (grid.reshape(-1) for grid in np.meshgrid(ranks, distance, indexing="ij"))
            there = blocks.receive_begin((here - far) % n_ranks, here)
            yield Round.of(here, here, scratch + far * count, count, destination_begin=there)

    n_rounds = 1 + doublings(n_ranks) - (-n_ranks // step)
    n_elements = scratch + n_ranks * count
    return Schedule("alltoall", "bruck", n_ranks, n_elements, n_rounds, rounds, blocks=blocks)
