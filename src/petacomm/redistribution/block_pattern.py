"""The regular shape of a list of blocks: loops around as few of them as there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array


@dataclass(frozen=True)
class Pattern:
    """Blocks of neighbouring rows: `starts`, each repeated by nested loops.

    Attributes
    ----------
    length : int
        Rows of each block.
    starts : tuple of int
        The first rows of the innermost blocks, from that of the first one; (0,) if loops say all.
    loops : tuple of (int, int)
        Times and stride of the loops around them, outermost first.
    """

    length: int
    starts: tuple[int, ...]
    loops: tuple[tuple[int, int], ...]

    @property
    def kind(self) -> str:
        """What it is to MPI: "contiguous", "vector", or "indexed" where some blocks follow no rule."""
        return "indexed" if len(self.starts) > 1 else "vector" if self.loops else "contiguous"

    @classmethod
    def of(cls, rows: Int64Array) -> Pattern:
        """Find the pattern of rows in the order in which they are given; there is at least one."""
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        begins = np.concatenate([[0], breaks])
        lengths = np.diff(np.append(begins, len(rows)))
        # Blocks of one length: the longest that all are made of.
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
    """Return the shortest pattern that is repeated at one stride; the whole length if there is none."""
    n = len(starts)
    for period in range(1, n // 2 + 1):
        if n % period == 0:
            parts = starts.reshape(-1, period)
            strides = np.diff(parts[:, 0])
            if (strides == strides[0]).all() and (parts - parts[:, :1] == parts[0] - parts[0, 0]).all():
                return period
    return n
