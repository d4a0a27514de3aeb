"""Order in which the blocks of a run are dealt to ranks: by rule, each rank expands its own part."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petacomm.base.typing import BoolArray, Int64Array
from petamap.mapmaking.distribution import RegularUnits, distribute_groups


@dataclass(frozen=True)
class BlockRows:
    """Blocks of the streams of each interval of a run.

    Attributes
    ----------
    n_det, n_blocks : int64 (n_row,)
        Streams of an interval, and blocks of each.
    full, last : int64 (n_row,)
        Cost of a block in samples, with its halos, and of the last one of a stream.
    joint : bool (n_row,)
        Whether blocks of all streams over one range of time stay together.
    """

    n_det: Int64Array
    n_blocks: Int64Array
    full: Int64Array
    last: Int64Array
    joint: BoolArray

    @cached_property
    def first(self) -> Int64Array:
        """Number of the first block of each interval, and of all blocks: (n_row + 1,)."""
        return np.concatenate([[0], np.cumsum(self.n_det * self.n_blocks)]).astype(np.int64)


class Dealing:
    """Blocks of a run in the order in which they are dealt, in units that stay together.

    Parameters
    ----------
    rows : BlockRows
    groups : int or None
        As in `TimeLayout.order`.
    """

    def __init__(self, rows: BlockRows, groups: int | None) -> None:
        self._rows, self._groups = rows, 1 if rows.joint.any() else groups
        # of the last two groups: those that have as many detectors are alike
        self._alike: dict[tuple[int, ...], RegularUnits] = {}

    def distribute(self, size: int) -> Int64Array:
        """Return the boundaries of ranks among the units: (size + 1,)."""
        n_units, costs = self._totals
        return distribute_groups(n_units.tolist(), costs.tolist(), self._units, size)

    def order(self, begin: int, end: int) -> Int64Array:
        """Return the numbers of the blocks of units [begin, end), in the order of the units."""
        if self._groups is None:
            return np.arange(begin, end, dtype=np.int64)
        firsts = np.concatenate([[0], np.cumsum(self._totals[0])])
        own = range(int(np.searchsorted(firsts, begin, side="right")) - 1, len(firsts) - 1)
        parts = [np.zeros(0, np.int64)]
        for group in own:
            if firsts[group] >= end:
                break
            low, high = max(begin - int(firsts[group]), 0), int(min(end, firsts[group + 1]) - firsts[group])
            parts.append(self._expand(group, np.arange(low, high)))
        return np.concatenate(parts)

    def _expand(self, group: int, units: Int64Array) -> Int64Array:
        """Return the blocks of some units of a group."""
        table, lower, rows = self._rows, self._edges(group), self._units(group).begins
        kinds = self._kinds[1]
        row = np.searchsorted(rows, units, side="right") - 1
        within, joint = units - rows[row], table.joint[row]
        n_det = np.maximum(self._edges(group + 1) - lower, 1)[kinds[row]]
        counts = np.where(joint, n_det, 1)
        unit = np.repeat(np.arange(len(units)), counts)
        number = np.arange(len(unit)) - (np.cumsum(counts) - counts)[unit]
        detector = np.where(joint[unit], number, lower[kinds[row[unit]]] + within[unit] % n_det[unit])
        block = np.where(joint, within, within // n_det)[unit]
        return np.asarray(table.first[row[unit]] + detector * table.n_blocks[row[unit]] + block, np.int64)

    def _edges(self, group: int | Int64Array) -> Int64Array:
        """Return the first detector of a group in each kind of intervals: those with d G // n_det = group."""
        n_det = self._kinds[0]
        groups = 1 if self._groups is None else self._groups
        return np.minimum(-(-group * n_det // np.minimum(groups, n_det)), n_det)

    @cached_property
    def _kinds(self) -> tuple[Int64Array, Int64Array]:
        """Numbers of detectors that intervals have, and which of them each interval has."""
        n_det, kinds = np.unique(self._rows.n_det, return_inverse=True)
        return n_det, kinds.reshape(-1)

    def _units(self, group: int) -> RegularUnits:
        sizes = tuple((self._edges(group + 1) - self._edges(group)).tolist())
        if sizes not in self._alike:
            self._alike = dict([*self._alike.items()][-1:]) | {sizes: self._make_units(*sizes)}
        return self._alike[sizes]

    def _make_units(self, *sizes: int) -> RegularUnits:
        """Return the units of a group that has so many detectors of each kind of intervals."""
        table, ones = self._rows, np.ones_like(self._rows.n_det)
        if self._groups is None:
            return RegularUnits(table.n_det, table.n_blocks - 1, table.full, ones, table.last)
        n_det = np.array(sizes, np.int64)[self._kinds[1]]
        n_units, members = np.where(table.joint, 1, n_det), np.where(table.joint, n_det, 1)
        return RegularUnits(
            ones, (table.n_blocks - 1) * n_units, table.full * members, n_units, table.last * members
        )

    @cached_property
    def _totals(self) -> tuple[Int64Array, Int64Array]:
        """Number and cost of the units of each group."""
        table = self._rows
        if self._groups is None or self._groups == 1:
            units = self._units(0)
            return np.array([units.n]), np.array([units.cost])
        n_det, kinds = self._kinds
        sums = np.zeros((len(n_det), 2), np.int64)
        costs = (table.n_blocks - 1) * table.full + table.last
        np.add.at(sums, kinds, np.stack([table.n_blocks, costs], axis=1))
        edges = self._edges(np.arange(min(self._groups, int(n_det[-1])) + 1)[:, None])
        n_units, costs = (np.diff(edges, axis=0) @ sums).T
        return n_units, costs
