"""Sizes of messages: the largest, how larger ones are split, and bytes of rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petacomm.base.typing import AnyArray, Int64Array

# Most bytes of a message: some MPI libraries fail with counts above 2^31.
MESSAGE_BYTES = 1 << 30


def split_counts(counts: Int64Array, n_bytes: int) -> Iterator[tuple[Int64Array, Int64Array]]:
    """Yield the counts and begins of each round, in which all messages stay below `MESSAGE_BYTES`.

    Parameters
    ----------
    counts : int64 (n,)
        Elements of each message; each round sends a near-equal part of them.
    n_bytes : int
        Largest sum of bytes on any rank, so that all ranks have the same number of rounds.

    Yields
    ------
    counts, begins : int64 (n,)
        Elements of each message in the round, and the first of them.
    """
    n_rounds = max(1, -(-n_bytes // MESSAGE_BYTES))
    for i in range(n_rounds):
        begin, end = counts * i // n_rounds, counts * (i + 1) // n_rounds
        yield end - begin, begin


def row_bytes(rows: AnyArray) -> int:
    """Return the bytes of one row, also of an array without rows."""
    return rows.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))


def as_bytes(rows: AnyArray) -> AnyArray:
    """Return the bytes of rows, uint8 (n,): a view, or a copy where they do not follow each other."""
    return np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
