"""All-to-all by direct messages: one partner per round, or all at once.

MPICH's algorithms for long and for medium blocks (Thakur, Rabenseifner and Gropp 2005, 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import AlltoallBlocks, Round, Schedule, check_n_ranks


def pairwise_alltoall(blocks: AlltoallBlocks) -> Schedule:
    """Return an all-to-all with one partner after the other, waiting for each.

    With a power of two of ranks, the partner in round k is rank XOR k; else each rank sends to rank + k and
    receives from rank - k.
    """
    n_ranks = blocks.n_ranks
    xor = n_ranks & (n_ranks - 1) == 0
    return _schedule(blocks, "pairwise", xor, 1)


def all_post_alltoall(blocks: AlltoallBlocks) -> Schedule:
    """Return an all-to-all that posts all receives and sends at once, beginning with the next rank."""
    return _schedule(blocks, "all-post", False, blocks.n_ranks)


def _schedule(blocks: AlltoallBlocks, name: str, xor: bool, window: int) -> Schedule:
    n_ranks = blocks.n_ranks
    check_n_ranks(n_ranks)

    def rounds() -> Iterator[Round]:
        ranks = np.arange(n_ranks, dtype=np.int64)
        for k in range(n_ranks):
            yield direct_messages(blocks, ranks, ranks ^ k if xor else (ranks + k) % n_ranks)

    return Schedule(
        "alltoall", name, n_ranks, alltoall_work_size(blocks), n_ranks, rounds, blocks=blocks, window=window
    )


def direct_messages(blocks: AlltoallBlocks, source: Int64Array, destination: Int64Array) -> Round:
    """Return a round of messages with the blocks from sources to destinations."""
    return Round.from_columns(
        source,
        destination,
        blocks.send_begin(source, destination),
        blocks.length(source, destination),
        destination_begin=blocks.receive_begin(source, destination),
    )


def alltoall_work_size(blocks: AlltoallBlocks) -> int:
    """Return the number of elements of an all-to-all's work space without scratch."""
    return blocks.send_size + blocks.receive_size
