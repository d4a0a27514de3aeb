"""Messages of collectives, by the schedules of `petacomm.schedule` or, where it has none, by those here.

Blocks of gathers and scatters go along binomial trees, those of an all-gather by recursive doubling, by
Bruck's algorithm or round a ring, parts of a reduce-scatter by halving or pairwise, prefix sums by doubling:
as in MPICH (Thakur, Rabenseifner and Gropp 2005), with its switching points.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from petacomm.base.errors import ConfigError, require_known
from petacomm.base.typing import Int64Array
from petacomm.schedule import CollectiveCall, list_algorithms, make_schedule, published_algorithm

Parts = tuple[Int64Array, Int64Array, Int64Array]  # source, target and blocks of each message

# Bytes of all blocks (MPICH).
_SHORT_ALLGATHER, _LONG_ALLGATHER, _LONG_REDUCE_SCATTER = 81920, 524288, 524288
_MIN_BRUCK = 8  # ranks of an all-to-all (MPICH)
_SCHEDULED = {
    "bcast": "broadcast",
    "reduce": "reduce",
    "allreduce": "allreduce",
    "alltoall": "alltoall",
    "barrier": "barrier",
}


class Messages(NamedTuple):
    """Messages by source and target: bytes of each, and how many there are; int64 (n,) each."""

    source: Int64Array
    target: Int64Array
    n_bytes: Int64Array
    number: Int64Array


class CollectiveKey(NamedTuple):
    """A collective of `n` ranks: root, bytes of its vector or of a block, and bytes of an element."""

    call: str
    n: int
    root: int
    size: int
    item: int

    @property
    def scheduled(self) -> CollectiveCall:
        """The call, of a collective that `petacomm.schedule` has."""
        item = self.item if self.item and self.size % self.item == 0 else 1
        name = _SCHEDULED[self.call]
        return CollectiveCall(name, self.n, self.size // item, item, root=self.root)  # type: ignore[arg-type]


def default_algorithm(key: CollectiveKey) -> str:
    """Return the name of the algorithm that MPICH chooses by the size, among those that are known here."""
    if key.call in _SCHEDULED:
        name = published_algorithm(key.scheduled)
        return "all-post" if name == "bruck" and key.n < _MIN_BRUCK else name
    power = key.n & (key.n - 1) == 0
    total = key.n * key.size
    if key.call == "allgather":
        if power and total < _LONG_ALLGATHER:
            return "recursive-doubling"
        return "bruck" if total < _SHORT_ALLGATHER else "ring"
    if key.call == "reduce_scatter_block":
        return "recursive-halving" if power and total < _LONG_REDUCE_SCATTER else "pairwise"
    return next(iter(_ALGORITHMS[key.call]))


def known_algorithms(call: str) -> list[str]:
    """Return the names of the algorithms of a collective; none of one whose messages are counted."""
    if call in _SCHEDULED:
        return [algorithm.name for algorithm in list_algorithms(_SCHEDULED[call])]  # type: ignore[arg-type]
    return list(_ALGORITHMS.get(call, ()))


def require_algorithms(algorithms: Mapping[str, str]) -> None:
    """Raise a ConfigError unless all names are those of collectives and of their algorithms."""
    for call, name in algorithms.items():
        require_known("no algorithms of the call", call, [*_SCHEDULED, *_ALGORITHMS])
        if not isinstance(name, str):
            raise ConfigError(f"{name!r} is no name of an algorithm of {call}", mend="write it in quotes")
        require_known(f"unknown algorithm of {call}", name, known_algorithms(call))


def expand_collective(key: CollectiveKey, algorithm: str) -> Messages:
    """Return the messages of a collective, source and target being ranks of its group.

    Raises
    ------
    ConfigError
        If there is no such algorithm, or it does not serve the call.
    """
    if key.n == 1 or (key.size == 0 and key.call != "barrier"):  # libraries return at once
        return Messages(*(np.empty(0, np.int64),) * 4)
    if key.call in _SCHEDULED:
        return _scheduled(key, algorithm)
    require_known(f"unknown algorithm of {key.call}", algorithm, _ALGORITHMS[key.call])
    messages_of = _ALGORITHMS[key.call][algorithm]
    if messages_of is _doubling and key.n & (key.n - 1):
        raise ConfigError(
            f"{key.call} '{algorithm}' cannot be used by {key.n} ranks, no power of two",
            mend=f"'{default_algorithm(key)}' can",
        )
    source, target, blocks, number = messages_of(key.n)
    if key.call in ("gather", "scatter"):
        source, target = (source + key.root) % key.n, (target + key.root) % key.n
    return Messages(source, target, blocks * key.size, number)


def _scheduled(key: CollectiveKey, algorithm: str) -> Messages:
    call = key.scheduled
    parts = [part.take(part.is_message) for part in make_schedule(call, algorithm).rounds()]
    columns = [
        np.concatenate([np.empty(0, np.int64), *(getattr(part, name) for part in parts)]).astype(np.int64)
        for name in ("source", "destination", "length")
    ]
    # The signals of a barrier are empty messages.
    n_bytes = columns[2] * (call.itemsize if key.call != "barrier" else 0)
    return Messages(columns[0], columns[1], n_bytes, np.ones_like(n_bytes))


def _scatter(n: int) -> Messages:
    """Return blocks going down a binomial tree: its node r has the blocks of r to r + 2^k - 1."""
    parts, step = [], 1
    while step < n:
        step *= 2
    while step > 1:
        half = step // 2
        source = np.arange(0, n - half, step, dtype=np.int64)
        target = source + half
        parts.append((source, target, np.minimum(half, n - target)))
        step = half
    return _joined(parts)


def _gather(n: int) -> Messages:
    target, source, blocks, number = _scatter(n)
    return Messages(source, target, blocks, number)


def _ring(n: int) -> Messages:
    ranks, one = np.arange(n, dtype=np.int64), np.ones(n, np.int64)
    return Messages(ranks, (ranks + 1) % n, one, (n - 1) * one)


def _doubling(n: int) -> Messages:
    """Return 1, 2, 4, ... blocks going to the ranks so far away; halving sends them in reverse."""
    return _joined([(ranks, ranks ^ step, np.full(n, step)) for ranks, step in _steps(n)])


def _bruck(n: int) -> Messages:
    steps = _steps(n)
    return _joined([(ranks, (ranks - step) % n, np.full(n, min(step, n - step))) for ranks, step in steps])


def _pairwise(n: int) -> Messages:
    ranks = np.arange(n, dtype=np.int64)
    return _joined([(ranks, (ranks + step) % n, np.ones(n, np.int64)) for step in range(1, n)])


def _prefix(n: int) -> Messages:
    parts = []
    for ranks, step in _steps(n):
        inside = ranks[(ranks ^ step) < n]
        parts.append((inside, inside ^ step, np.ones(len(inside), np.int64)))
    return _joined(parts)


def _steps(n: int) -> list[tuple[Int64Array, int]]:
    return [(np.arange(n, dtype=np.int64), 1 << bit) for bit in range((n - 1).bit_length())]


def _joined(parts: list[Parts]) -> Messages:
    source, target, blocks = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Messages(source, target, blocks, np.ones_like(blocks))


_ALGORITHMS: dict[str, dict[str, Callable[[int], Messages]]] = {
    "gather": {"binomial": _gather},
    "scatter": {"binomial": _scatter},
    "allgather": {"ring": _ring, "bruck": _bruck, "recursive-doubling": _doubling},
    "reduce_scatter_block": {"pairwise": _pairwise, "recursive-halving": _doubling},
    "scan": {"recursive-doubling": _prefix},
    "exscan": {"recursive-doubling": _prefix},
}
