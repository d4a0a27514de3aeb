"""Cells of a tuning: what is measured, and chosen, by itself."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple


class Cell(NamedTuple):
    """A collective, the bytes of its vector or block, and the ranks of its communicator.

    Barriers have 0 bytes.
    """

    collective: str
    size: int
    ranks: int


def sizes_measured(measured: Collection[Cell], collective: str, ranks: int) -> list[int]:
    """Return the sizes of a collective on communicators of so many ranks that were measured, ascending."""
    return sorted({cell.size for cell in measured if (cell.collective, cell.ranks) == (collective, ranks)})


def size_bands(sizes: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return the first and last bytes to which what was measured at each size is applied.

    Bands meet at geometric means of neighbours; the first begins at 1 byte, the last ends as far beyond its
    size as it begins before. Barriers, of size 0, have a band of their own.
    """
    ordered = sorted(size for size in set(sizes) if size > 0)
    ends = [math.isqrt(a * b) for a, b in pairwise(ordered)]
    if ordered:
        ends.append(ordered[-1] * ordered[-1] // ends[-1] if ends else 2 * ordered[-1])
    bands = {size: (begin + 1, end) for size, begin, end in zip(ordered, [0, *ends], ends, strict=False)}
    return bands | ({0: (0, 0)} if 0 in sizes else {})
