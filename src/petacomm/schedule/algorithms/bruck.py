"""Bruck's all-to-all: store and forward in log2(n) rounds of half of all blocks each.

MPICH's algorithm for short blocks (Bruck et al. 1997; Thakur, Rabenseifner and Gropp 2005, 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.schedule.algorithms.binomial import ceil_log2
from petacomm.schedule.algorithms.pairwise import alltoall_work_size
from petacomm.schedule.schedule import AlltoallBlocks, Round, Schedule, ScheduleError, check_n_ranks

# Maximum number of rows of a round of local copies at the end.
_MAX_ROWS = 1 << 20


def bruck_alltoall(blocks: AlltoallBlocks) -> Schedule:
    """Return an all-to-all that moves each block by its distance, one binary digit per round.

    Blocks in transit are kept in scratch, in the order of their distances. All blocks must have one length.
    """
    n_ranks, count = blocks.n_ranks, blocks.count
    check_n_ranks(n_ranks)
    if blocks.counts is not None:
        raise ScheduleError("'bruck' takes blocks of one length", mend="use 'pairwise' or 'random-order'")
    ranks = np.arange(n_ranks, dtype=np.int64)
    scratch = alltoall_work_size(blocks)
    step = max(1, _MAX_ROWS // n_ranks)

    def rounds() -> Iterator[Round]:
        # Distance 0 is a rank's own block: rotate its blocks so that this one comes first.
        begin = np.concatenate([ranks, np.zeros_like(ranks)]) * count
        length = np.concatenate([n_ranks - ranks, ranks]) * count
        target = scratch + np.concatenate([np.zeros_like(ranks), n_ranks - ranks]) * count
        both = np.concatenate([ranks, ranks])
        yield Round.from_columns(both, both, begin, length, destination_begin=target)
        for k in range(ceil_log2(n_ranks)):
            first = np.arange(1 << k, n_ranks, 2 << k)
            last = np.minimum(first + (1 << k), n_ranks)
            source = np.repeat(ranks, len(first))
            begin = np.tile(scratch + first * count, n_ranks)
            length = np.tile((last - first) * count, n_ranks)
            yield Round.from_columns(source, (source + (1 << k)) % n_ranks, begin, length)
        for low in range(0, n_ranks, step):
            distances = np.arange(low, min(low + step, n_ranks))
            rank, distance = (grid.reshape(-1) for grid in np.meshgrid(ranks, distances, indexing="ij"))
            target = blocks.receive_begin((rank - distance) % n_ranks, rank)
            yield Round.from_columns(rank, rank, scratch + distance * count, count, destination_begin=target)

    n_rounds = 1 + ceil_log2(n_ranks) - (-n_ranks // step)
    n_elements = scratch + n_ranks * count
    return Schedule("alltoall", "bruck", n_ranks, n_elements, n_rounds, rounds, blocks=blocks)
