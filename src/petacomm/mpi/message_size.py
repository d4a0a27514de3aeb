"""Largest size of a message, and how larger ones are split."""

from __future__ import annotations

from collections.abc import Iterator

from petacomm.base.typing import Int64Array

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
