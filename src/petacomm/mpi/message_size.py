"""How large a message may be, and how larger ones are cut."""

from __future__ import annotations

from collections.abc import Iterator

from petacomm.base.typing import Int64Array

# Counts above 2^31 break some MPIs; no message is larger than this many bytes.
MESSAGE_BYTES = 1 << 30


def rounds(counts: Int64Array, n_bytes: int) -> Iterator[tuple[Int64Array, Int64Array]]:
    """Cut each count into as many near-equal parts as keep all messages of a round below the limit.

    `n_bytes` is the largest sum of bytes on any rank, so that all ranks go through the same rounds.
    """
    nrounds = max(1, -(-n_bytes // MESSAGE_BYTES))
    for i in range(nrounds):
        begin, end = counts * i // nrounds, counts * (i + 1) // nrounds
        yield end - begin, begin
