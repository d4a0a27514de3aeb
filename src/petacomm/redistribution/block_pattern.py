"""Regular patterns of blocks of rows: nested loops around as few blocks as possible."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array


@dataclass(frozen=True)
class BlockPattern:
    """Blocks of consecutive rows that are repeated by nested loops.

    Attributes
    ----------
    length : int
        Rows of each block.
    starts : tuple of int
        First rows of the innermost blocks, relative to the first; (0,) if loops describe all.
    loops : tuple of (int, int)
        Repetitions and stride of the loops around them, outermost first.
    """

    length: int
    starts: tuple[int, ...]
    loops: tuple[tuple[int, int], ...]

    @property
    def kind(self) -> str:
        """MPI constructor that it needs: "contiguous", "vector", or "indexed" for irregular blocks."""
        return "indexed" if len(self.starts) > 1 else "vector" if self.loops else "contiguous"

    @classmethod
    def from_rows(cls, rows: Int64Array) -> BlockPattern:
        """Return the pattern of one row or more, in the given order."""
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        begins = np.concatenate([[0], breaks])
        lengths = np.diff(np.append(begins, len(rows)))
        # All blocks have one length: the greatest common divisor of the lengths of runs.
        length = int(np.gcd.reduce(lengths))
        starts, loops = rows[::length] - rows[0], []
        while len(starts) > 1:
            period = _period(starts)
            if period == len(starts):
                break
            loops.append((len(starts) // period, int(starts[period])))
            starts = starts[:period]
        return cls(length, tuple(starts.tolist()), tuple(loops))


def _period(starts: Int64Array) -> int:
    """Return the shortest period that is repeated at a constant stride; the full length without one."""
    n = len(starts)
    for period in range(1, n // 2 + 1):
        if n % period == 0:
            parts = starts.reshape(-1, period)
            strides = np.diff(parts[:, 0])
            if (strides == strides[0]).all() and (parts - parts[:, :1] == parts[0] - parts[0, 0]).all():
                return period
    return n
