"""Sizes of collectives in OTF2 traces, whose events have the bytes that a rank sends and receives in all.

Score-P counts a block for each rank of the communicator, the rank itself included unless it works in place.
"""

from __future__ import annotations

from typing import NamedTuple

# The call of a collective by the name of the operation; unequal blocks of all ranks are not in the trace.
EQUAL = {"alltoallv": "alltoall", "alltoallw": "alltoall", "reduce_scatter": "reduce_scatter_block"}


class CollectiveEvent(NamedTuple):
    """The end of a collective on one rank, `own` of `n` in its communicator."""

    call: str
    n: int
    own: int
    root: int
    sent: int
    received: int


def block_bytes(event: CollectiveEvent) -> int:
    """Return the bytes of the vector, or of a block, of a collective with equal blocks."""
    call, n, own, _, sent, received = event
    if call == "barrier" or n == 1:
        return 0
    if call in ("bcast", "scatter"):
        return received or sent // (n - 1)  # of a root in place
    if call in ("gather", "reduce"):
        return sent or received // (n - 1)
    if call in ("scan", "exscan"):
        inclusive = call == "scan" and received and sent * (own + 1) == received * (n - own)
        return received // (own + 1) if inclusive else (sent + received) // (n - 1)
    return sent // n if call in EQUAL else _share(sent, n)


def block_message(event: CollectiveEvent) -> tuple[int, int, int, int] | None:
    """Return source, target, messages and bytes of what a rank tells of a collective with unequal blocks.

    A gather or scatter is a message between each rank and the root. Blocks of all ranks go round a ring: all
    but its own come to a rank from the one before.
    """
    call, n, own, root, sent, received = event
    if call == "gatherv":
        message = (own, root, 1, sent)
    elif call == "scatterv":
        message = (root, own, 1, received)
    else:
        share = _share(sent, n)
        message = ((own - 1) % n, own, n - 1, received - (share if share * n == sent else 0))
    return message if message[0] != message[1] and message[3] > 0 else None


def _share(total: int, n: int) -> int:
    """Return the block that a rank sends to all n, or in place to all others.

    Where both can be, it is the one that more powers of two divide; of two ranks it is taken to be the first.
    """
    blocks = [total // parts for parts in (n, n - 1) if total % parts == 0]
    if n == 2 or not blocks:
        return total // n
    return max(blocks, key=lambda block: block & -block)
