"""Each key by the way that suits its number of holders.

Keys that nearly all ranks hold go by a dense all-reduce, which wastes little on them and needs no lists; keys
of a pair go by pairs, in one step and with no more bytes than through an owner; the rest through owners.
Source: Sudarsan, Borrill, Cantalupo et al. 2011, section 3.3, names a part of it as future work.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from petamap.base.timers import Timers
from petamap.base.typing import AnyArray, BoolArray, Int32Array, Int64Array
from petamap.comm.mpi.communicator import Operation
from petamap.comm.network import Share
from petamap.comm.reduction.algorithms.base import Algorithm, register
from petamap.comm.reduction.algorithms.dense import Dense
from petamap.comm.reduction.algorithms.owner import Owner
from petamap.comm.reduction.algorithms.pairwise import Pairwise
from petamap.comm.reduction.exchange import Steps, finish, rows_at
from petamap.comm.reduction.graph import SharingGraph
from petamap.comm.reduction.setup import SETUPS

_Kind: TypeAlias = type[Dense] | type[Pairwise] | type[Owner]


@register("hybrid")
class Hybrid(Algorithm):
    """Keys on at least a share `theta` of the ranks dense, those on at most `mu` by pairs, others by owners.

    All three are on their way at the same time.
    """

    def _prepare(self) -> None:
        holders = self.graph.multiplicity
        dense = holders >= max(2.0, self.options.theta * self.comm.size)
        pairs = (holders > 1) & (holders <= self.options.mu) & ~dense
        owner = (holders > 1) & ~dense & ~pairs
        classes: list[tuple[type[Dense | Pairwise | Owner], BoolArray]] = [
            (Dense, dense),
            (Pairwise, pairs),
            (Owner, owner),
        ]
        n_keys = self.comm.allreduce(np.array([np.count_nonzero(mask) for _, mask in classes]))
        self._parts = [self._part(*part) for part, n in zip(classes, n_keys, strict=True) if n]

    def _part(self, kind: _Kind, mask: BoolArray) -> Algorithm:
        """Return an algorithm for some of the keys."""
        keys, owner = self.keys[mask], self.graph.owner[mask]
        if kind.needs_overlaps:
            # Only these keys: a list of pairs for all would be as long as what this algorithm avoids.
            graph = SETUPS["rendezvous"](self.comm, keys, True, self.options.buffer_keys, Timers())
        else:
            n_global = self.comm.sum(int(np.count_nonzero(owner == self.comm.rank)))
            graph = SharingGraph(owner, self.graph.multiplicity[mask], n_global)
        return kind(self.comm, keys, graph, self.options, rows_at(self.positions, np.flatnonzero(mask)))

    @property
    def partners(self) -> Int64Array:
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(part.partners for part in self._parts)]))

    def bytes_per_call(self, k: int, itemsize: int) -> int:
        return sum(part.bytes_per_call(k, itemsize) for part in self._parts)

    def shares(self, node_of: Int32Array) -> tuple[Share, ...]:
        # The classes go at the same time: their first phases together, then their second ones.
        phases = zip_longest(*(part.shares(node_of) for part in self._parts), fillvalue=Share())
        return tuple(Share(*map(sum, zip(*phase, strict=True))) for phase in phases)

    def allreduce(self, values: AnyArray, op: Operation) -> Steps:
        parts = [part.allreduce(values, op) for part in self._parts]
        for steps in parts:
            next(steps, None)
        yield
        for steps in parts:
            finish(steps)
