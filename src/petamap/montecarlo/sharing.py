"""How realizations are shared out: groups of ranks, and batches that a group makes at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from petamap.base.typing import Int64Array
from petamap.data.config import RunConfig
from petamap.mapmaking.stage import Stage

# Right-hand sides in one pass over the pointing: more gain little.
_PASS = 8


@dataclass(frozen=True)
class Sharing:
    """Who makes which realizations.

    Attributes
    ----------
    groups, group : int
        How many there are, and that of this rank.
    batch : int
        Realizations that a group makes at once.
    why : str
        One line for the user.
    """

    groups: int
    group: int
    batch: int
    why: str

    def batches(self, numbers: Int64Array) -> Iterator[Int64Array]:
        """Yield the batches of this rank's group."""
        for first in range(self.group * self.batch, len(numbers), self.groups * self.batch):
            yield numbers[first : first + self.batch]


def share_out(config: RunConfig, stage: Stage, n_solved: int) -> Sharing:
    """Return how the realizations of a run are shared out. Collective."""
    options, comm = config.montecarlo, stage.comm
    groups = min(max(options.groups, 1), comm.size)
    batch = options.batch or max(1, _PASS // n_solved)
    return Sharing(groups, comm.rank * groups // comm.size, batch, "as asked for")
