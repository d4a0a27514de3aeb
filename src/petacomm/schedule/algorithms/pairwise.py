"""All-to-all between pairs: one partner a round, or all at once; MPICH's for long and for medium blocks
(Thakur, Rabenseifner and Gropp 2005, 3.4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.schedule.schedule import Blocks, Round, Schedule, check_ranks


def pairwise(blocks: Blocks) -> Schedule:
    """Exchange with one partner after the other, and wait for each.

    Of a power of two of ranks, the partner in round k is rank XOR k; else a rank sends k ranks up and
    receives from k ranks down.
    """
    n_ranks = blocks.n_ranks
    xor = n_ranks & (n_ranks - 1) == 0
    return _schedule(blocks, "pairwise", xor, 1)


def all_post(blocks: Blocks) -> Schedule:
    """Post all receives and sends, beginning with the next rank, and wait for them together."""
    return _schedule(blocks, "all-post", False, blocks.n_ranks)


def _schedule(blocks: Blocks, name: str, xor: bool, window: int) -> Schedule:
    n_ranks = blocks.n_ranks
    check_ranks(n_ranks)

    def rounds() -> Iterator[Round]:
        ranks = np.arange(n_ranks, dtype=np.int64)
        for k in range(n_ranks):
            yield direct(blocks, ranks, ranks ^ k if xor else (ranks + k) % n_ranks)

    return Schedule(
        "alltoall", name, n_ranks, work_size(blocks), n_ranks, rounds, blocks=blocks, window=window
    )


def direct(blocks: Blocks, source: Int64Array, destination: Int64Array) -> Round:
    """Return rows that take whole blocks from sources to destinations."""
    return Round.of(
        source,
        destination,
        blocks.send_begin(source, destination),
        blocks.length(source, destination),
        destination_begin=blocks.receive_begin(source, destination),
    )


def work_size(blocks: Blocks) -> int:
    """Return the elements of a work space without scratch."""
    return blocks.send_size + blocks.receive_size
