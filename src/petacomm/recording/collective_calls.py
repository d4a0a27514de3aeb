"""Calls of collectives as each rank counts them, of which those of a group's first rank are recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from petacomm.recording.recording import COLLECTIVES, RankGroup


class CollectiveRow(NamedTuple):
    """What calls of a collective have in common: the columns of `COLLECTIVES` but for their number."""

    phase: int
    call: int
    group: int
    root: int
    item: int
    size: int


class CollectiveCalls:
    """The calls that ranks have counted: of each group those of its first rank, and whether others differ."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, ...]] = []
        self._different: defaultdict[int, set[int]] = defaultdict(
            set
        )  # by group, hashes of the calls of each rank

    def add(self, group: int, own: int, counts: Mapping[CollectiveRow, int]) -> None:
        """Add all calls that a rank, with the number `own` in the group, has counted in a group."""
        rows = [(*row, n_calls) for row, n_calls in counts.items()]
        self._different[group].add(hash(frozenset(rows)))
        if own == 0:
            self._rows += rows

    def table(self) -> npt.NDArray[Any]:
        """Return the calls of the first ranks: structured array (n,) of `COLLECTIVES`, sorted."""
        return np.sort(np.array(self._rows, COLLECTIVES))

    def warnings(self, groups: Sequence[RankGroup]) -> list[str]:
        """Return a warning for each group whose ranks have counted different calls."""
        return [
            f"ranks of '{group.name or f'a group of {len(group.ranks)}'}' count different calls of "
            "collectives: those of its first rank are taken (do all call MPI_Pcontrol at the same places?)"
            for number, group in enumerate(groups)
            if len(self._different[number]) > 1 and not group.inter
        ]
