"""What each of many ranks would send through nested groups, layer by layer, from the occupancy of keys."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from petamap.base.distinct import distinct
from petamap.base.typing import FloatArray, Int32Array, Int64Array
from petamap.comm.reduction.counting_nodes import flat_sums
from petamap.comm.reduction.groups import homes, layers, most_messages
from petamap.comm.reduction.loads import Hop, Volume
from petamap.comm.reduction.occupancy import Occupancy

# Pairs of a key and its holder that are followed on their way; of more, some.
_FEW_HOLDERS = 2e6


class HopCounts(NamedTuple):
    """One layer: rows are float64 (n_parts, size), over parts of the keys; messages (size,).

    Attributes
    ----------
    sent, sent_off, arrived, arrived_off
        Rows that each rank sends on the way there, those of them that leave its node, and what comes.
    kept, summed
        Keys that a rank keeps, unless it is alone in its group; distinct keys that come.
    out, back
        Ranks that it sends to on the way there, and on the way back.
    """

    sent: FloatArray
    sent_off: FloatArray
    arrived: FloatArray
    arrived_off: FloatArray
    kept: FloatArray
    summed: FloatArray
    out: FloatArray
    back: FloatArray

    def hop(self) -> Hop:
        """Return what the layer asks of each rank, of all keys."""
        sent, sent_off, arrived, arrived_off, kept, summed = (rows.sum(axis=0) for rows in self[:6])
        kept = np.where(sent + arrived > 0, kept, 0.0)
        return Hop(Volume(self.out, sent, sent_off), Volume(self.back, arrived, arrived_off), kept, summed)


def count_hops(
    occupancy: Occupancy,
    node_of: Int32Array,
    radix: int,
    part_of: Int64Array | None = None,
    weights: FloatArray | None = None,
) -> list[HopCounts]:
    """Return the counts of all layers. Parameters as in `counting.count`."""
    size = occupancy.size
    if part_of is None:
        part_of = np.zeros(len(occupancy.keys), np.int64)
    if weights is None:
        weights = np.ones(len(occupancy.keys))
    shape = (int(part_of.max(initial=0)) + 1, size)
    home = homes(occupancy.keys, size)
    shared = (occupancy.multiplicity > 1)[occupancy.key_of]
    # A key and a rank that has a sum of it.
    key, rank = occupancy.key_of[shared].astype(np.int64), occupancy.holders[shared].astype(np.int64)
    found = []
    for parts in layers(size, radix):
        target = parts.target(rank, home[key])
        moves = target != rank
        came = distinct(key[moves] * size + target[moves])

        def sums(where: Int64Array, of: Int64Array) -> FloatArray:
            return flat_sums(part_of[of] * size + where, weights[of], shape)

        a, b, of = rank[moves], target[moves], key[moves]
        off = node_of[a] != node_of[b]
        pairs = distinct(a * size + b)
        found.append(
            HopCounts(
                sums(a, of),
                sums(a[off], of[off]),
                sums(b, of),
                sums(b[off], of[off]),
                sums(rank[~moves], key[~moves]),
                sums(came % size, came // size),
                np.bincount(pairs // size, minlength=size).astype(np.float64),
                np.bincount(pairs % size, minlength=size).astype(np.float64),
            )
        )
        key, rank = np.divmod(distinct(np.concatenate((key[~moves] * size + rank[~moves], came))), size)
    return found


def count_some_hops(
    occupancy: Occupancy, node_of: Int32Array, radix: int, part_of: Int64Array, weights: FloatArray
) -> list[HopCounts]:
    """Return the counts of all layers, of some keys if they are many; messages are the most there are.

    What is left out of each part of the sample, the rest of it stands for. Parameters as in `counting.count`.
    """
    every = math.ceil(len(occupancy.holders) / _FEW_HOLDERS)
    if every > 1:
        n = int(part_of.max(initial=0)) + 1
        whole, (part_of, weights) = np.bincount(part_of, weights, n), (part_of[::every], weights[::every])
        kept = np.bincount(part_of, weights, n)
        occupancy, weights = occupancy.thinned(every), weights * (whole / np.maximum(kept, 1e-300))[part_of]
    counts = count_hops(occupancy, node_of, radix, part_of, weights)
    most = most_messages(occupancy.size, radix)
    return [layer._replace(out=out, back=back) for layer, (out, back) in zip(counts, most, strict=True)]
