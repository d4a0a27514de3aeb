"""What each of many ranks would send through nested groups, layer by layer, from the occupancy of keys."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import Hop, Volume
from petacomm.costs.node_counts import flat_sums
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.run_counts import begins
from petacomm.sharing.nested_groups import homes, layers, most_messages
from petacomm.sharing.sharing_graph import RUN_BITS, offsets_of

# Pairs of a key and its holder that are followed on their way; of more, some.
_FEW_HOLDERS = 2e6
# Of so many times fewer pairs, runs are counted.
_PIECES = 8


class HopCounts(NamedTuple):
    """One layer: rows are float64 (n_parts, size), over parts of the keys; messages (size,).

    Attributes
    ----------
    sent, sent_off, sent_runs, arrived, arrived_off, arrived_runs
        Rows that each rank sends on the way there, those of them that leave its node, and the runs in which
        they lie; and of what comes.
    kept, kept_runs, summed
        Keys that a rank keeps, unless it is alone in its group, and their runs; distinct keys that come.
    out, back
        Ranks that it sends to on the way there, and on the way back.
    """

    sent: FloatArray
    sent_off: FloatArray
    sent_runs: FloatArray
    arrived: FloatArray
    arrived_off: FloatArray
    arrived_runs: FloatArray
    kept: FloatArray
    kept_runs: FloatArray
    summed: FloatArray
    out: FloatArray
    back: FloatArray

    def hop(self) -> Hop:
        """Return what the layer asks of each rank, of all keys."""
        sent, sent_off, out_runs, arrived, arrived_off, back_runs, kept, kept_runs, summed = (
            rows.sum(axis=0) for rows in self[:-2]
        )
        alone = sent + arrived == 0
        return Hop(
            Volume(self.out, sent, sent_off, out_runs),
            Volume(self.back, arrived, arrived_off, back_runs),
            np.where(alone, 0.0, kept),
            summed,
            np.where(alone, 0.0, kept_runs),
        )


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
        then = distinct(np.concatenate((key[~moves] * size + rank[~moves], came)))

        def sums(where: Int64Array, of: Int64Array) -> FloatArray:
            return flat_sums(part_of[of] * size + where, weights[of], shape)

        place, there = (
            _places(rank, size),
            _places(then % size, size)[np.searchsorted(then, key * size + target)],
        )
        a, b, of = rank[moves], target[moves], key[moves]
        off = node_of[a] != node_of[b]
        pairs = distinct(a * size + b)
        goes, stays = _begins(occupancy.keys[key], rank * size + target, place, there)
        found.append(
            HopCounts(
                sums(a, of),
                sums(a[off], of[off]),
                sums(rank[goes & moves], key[goes & moves]),
                sums(b, of),
                sums(b[off], of[off]),
                sums(target[stays & moves], key[stays & moves]),
                sums(rank[~moves], key[~moves]),
                sums(rank[(goes | stays) & ~moves], key[(goes | stays) & ~moves]),
                sums(came % size, came // size),
                np.bincount(pairs // size, minlength=size).astype(np.float64),
                np.bincount(pairs % size, minlength=size).astype(np.float64),
            )
        )
        key, rank = np.divmod(then, size)
    return found


def _places(rank: Int64Array, size: int) -> Int64Array:
    """Return the row of each entry among those of its rank."""
    order = np.argsort(rank, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order)) - offsets_of(np.bincount(rank, minlength=size))[rank[order]]
    return places


def _begins(
    keys: Int64Array, lists: Int64Array, place: Int64Array, there: Int64Array
) -> tuple[BoolArray, BoolArray]:
    """Return whether a run begins at each entry of its list, by where it is and by where it goes."""
    order = np.argsort(lists, kind="stable")
    found = np.empty((2, len(order)), np.bool_)
    found[0, order] = begins(lists[order], keys[order], place[order])
    found[1, order] = begins(lists[order], keys[order], there[order])
    return found[0], found[1]


def count_some_hops(
    occupancy: Occupancy, node_of: Int32Array, radix: int, part_of: Int64Array, weights: FloatArray
) -> list[HopCounts]:
    """Return the counts of all layers, of some keys if they are many; messages are the most there are.

    What is left out of each part of the sample, the rest of it stands for. Parameters as in `counting.count`.
    """
    every = math.ceil(len(occupancy.holders) / _FEW_HOLDERS)
    if every == 1:
        counts = count_hops(occupancy, node_of, radix, part_of, weights)
    else:
        thinned = np.arange(0, len(occupancy.keys), every)
        counts = _count_chosen(thinned, occupancy, node_of, radix, part_of, weights)
        # How long runs are, only neighbours tell; pieces of them are as good as each other for that.
        piece = np.cumsum(np.diff(occupancy.keys >> RUN_BITS, prepend=-1) != 0)
        pieces = np.flatnonzero(piece % (_PIECES * every) == 0)
        told = _count_chosen(pieces, occupancy, node_of, radix, part_of, weights)
        counts = [_with_runs(layer, like) for layer, like in zip(counts, told, strict=True)]
    most = most_messages(occupancy.size, radix)
    return [layer._replace(out=out, back=back) for layer, (out, back) in zip(counts, most, strict=True)]


def _count_chosen(
    chosen: Int64Array,
    occupancy: Occupancy,
    node_of: Int32Array,
    radix: int,
    part_of: Int64Array,
    weights: FloatArray,
) -> list[HopCounts]:
    """Return the counts of chosen keys, which stand for all of their parts."""
    n = int(part_of.max(initial=0)) + 1
    whole, kept = (np.bincount(part_of[i], weights[i], n) for i in (slice(None), chosen))
    scale = (whole / np.maximum(kept, 1e-300))[part_of[chosen]]
    some = occupancy.chosen(chosen.astype(np.int32))
    return count_hops(some, node_of, radix, part_of[chosen], weights[chosen] * scale)


def _with_runs(layer: HopCounts, like: HopCounts) -> HopCounts:
    """Return a layer whose runs are, in the mean over ranks and parts, as long as those of another."""

    def runs(rows: FloatArray, runs_there: FloatArray, rows_there: FloatArray) -> FloatArray:
        return np.asarray(rows * (runs_there.sum() / max(1.0, float(rows_there.sum()))))

    return layer._replace(
        sent_runs=runs(layer.sent, like.sent_runs, like.sent),
        arrived_runs=runs(layer.arrived, like.arrived_runs, like.arrived),
        kept_runs=runs(layer.kept, like.kept_runs, like.kept),
    )
