"""Counts of rows and messages in each layer of nested groups, from the occupancy of keys."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from petacomm.base.distinct import distinct
from petacomm.base.typing import BoolArray, FloatArray, Int32Array, Int64Array
from petacomm.costs.algorithm_loads import LayerVolume, SendVolume
from petacomm.costs.node_counts import sum_at_index
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.run_counts import run_begins
from petacomm.sharing.nested_groups import final_ranks, group_layers, message_bounds
from petacomm.sharing.sharing_graph import RUN_BITS
from petacomm.topology import local_ranks

# Most pairs of a key and a holder that are counted exactly; of more, a sample.
_MOST_HOLDERS = 2e6
# Runs are counted in a sample smaller by this factor.
_RUN_SAMPLING = 8


class LayerCounts(NamedTuple):
    """Counts of one layer: of rows float64 (n_parts, size), over parts of the keys; of messages (size,).

    Attributes
    ----------
    sent, sent_off, sent_runs, arrived, arrived_off, arrived_runs
        Rows that each rank sends in the reduction, those of them to other nodes, and their runs; the same of
        rows that it receives.
    kept, kept_runs, summed
        Keys that stay on a rank and their runs; distinct keys received.
    out, back
        Messages of a rank in the reduction, and in the broadcast back.
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

    def volume(self) -> LayerVolume:
        """Return the volumes of the layer for all ranks, summed over the parts."""
        sent, sent_off, out_runs, arrived, arrived_off, back_runs, kept, kept_runs, summed = (
            rows.sum(axis=0) for rows in self[:-2]
        )
        idle = sent + arrived == 0
        return LayerVolume(
            SendVolume(self.out, sent, sent_off, out_runs),
            SendVolume(self.back, arrived, arrived_off, back_runs),
            np.where(idle, 0.0, kept),
            summed,
            np.where(idle, 0.0, kept_runs),
        )


def count_layers(
    occupancy: Occupancy,
    node_of: Int32Array,
    radix: int,
    part_of: Int64Array | None = None,
    weights: FloatArray | None = None,
) -> list[LayerCounts]:
    """Return the counts of all layers. Parameters as in `rank_counts.count_ranks`."""
    size = occupancy.size
    if part_of is None:
        part_of = np.zeros(len(occupancy.keys), np.int64)
    if weights is None:
        weights = np.ones(len(occupancy.keys))
    shape = (int(part_of.max(initial=0)) + 1, size)
    final_rank = final_ranks(occupancy.keys, size)
    shared = (occupancy.multiplicity > 1)[occupancy.key_of]
    # Pairs of a key and a rank that has a partial sum of it.
    key, rank = occupancy.key_of[shared].astype(np.int64), occupancy.holders[shared].astype(np.int64)

    def sums(ranks: Int64Array, keys: Int64Array, selected: BoolArray | slice = slice(None)) -> FloatArray:
        of_keys = keys[selected]
        return sum_at_index(part_of[of_keys] * size + ranks[selected], weights[of_keys], shape)

    layers = []
    for parts in group_layers(size, radix):
        target = parts.target(rank, final_rank[key])
        moves = target != rank
        off = node_of[rank] != node_of[target]
        received = distinct(key[moves] * size + target[moves])
        following = distinct(np.concatenate((key[~moves] * size + rank[~moves], received)))
        # The row of each entry among those of its rank, before and after.
        row = local_ranks(rank)
        target_row = local_ranks(following % size)[np.searchsorted(following, key * size + target)]
        lists = rank * size + target
        begins, target_begins = _begins(occupancy.keys[key], lists, row, target_row)
        pairs = distinct(lists[moves])
        layers.append(
            LayerCounts(
                sums(rank, key, moves),
                sums(rank, key, off),
                sums(rank, key, moves & begins),
                sums(target, key, moves),
                sums(target, key, off),
                sums(target, key, moves & target_begins),
                sums(rank, key, ~moves),
                sums(rank, key, ~moves & (begins | target_begins)),
                sums(received % size, received // size),
                np.bincount(pairs // size, minlength=size).astype(np.float64),
                np.bincount(pairs % size, minlength=size).astype(np.float64),
            )
        )
        key, rank = np.divmod(following, size)
    return layers


def _begins(
    keys: Int64Array, lists: Int64Array, row: Int64Array, target_row: Int64Array
) -> tuple[BoolArray, BoolArray]:
    """Return whether a run begins at each entry of its list, by its row and by its target row."""
    order = np.argsort(lists, kind="stable")
    begins = np.empty((2, len(order)), np.bool_)
    begins[0, order] = run_begins(lists[order], keys[order], row[order])
    begins[1, order] = run_begins(lists[order], keys[order], target_row[order])
    return begins[0], begins[1]


def count_sampled_layers(
    occupancy: Occupancy, node_of: Int32Array, radix: int, part_of: Int64Array, weights: FloatArray
) -> list[LayerCounts]:
    """Return the counts of all layers, from a sample of the keys if they are many; messages are upper bounds.

    The sample is scaled to the keys of each part. Parameters as in `rank_counts.count_ranks`.
    """
    step = math.ceil(len(occupancy.holders) / _MOST_HOLDERS)
    if step == 1:
        counts = count_layers(occupancy, node_of, radix, part_of, weights)
    else:
        sample = np.arange(0, len(occupancy.keys), step)
        counts = _count_sample(sample, occupancy, node_of, radix, part_of, weights)
        # Lengths of runs are determined from consecutive keys: from a sample of blocks.
        block = np.cumsum(np.diff(occupancy.keys >> RUN_BITS, prepend=-1) != 0)
        sample = np.flatnonzero(block % (_RUN_SAMPLING * step) == 0)
        with_runs = _count_sample(sample, occupancy, node_of, radix, part_of, weights)
        counts = [_with_runs(layer, sampled) for layer, sampled in zip(counts, with_runs, strict=True)]
    most = message_bounds(occupancy.size, radix)
    return [layer._replace(out=out, back=back) for layer, (out, back) in zip(counts, most, strict=True)]


def _count_sample(
    sample: Int64Array,
    occupancy: Occupancy,
    node_of: Int32Array,
    radix: int,
    part_of: Int64Array,
    weights: FloatArray,
) -> list[LayerCounts]:
    """Return the counts of a sample of keys, scaled to all keys of their parts."""
    n = int(part_of.max(initial=0)) + 1
    total, sampled = (np.bincount(part_of[i], weights[i], n) for i in (slice(None), sample))
    scale = (total / np.maximum(sampled, 1e-300))[part_of[sample]]
    selected = occupancy.select(sample.astype(np.int32))
    return count_layers(selected, node_of, radix, part_of[sample], weights[sample] * scale)


def _with_runs(layer: LayerCounts, sample: LayerCounts) -> LayerCounts:
    """Return a layer with runs of the same mean length as those of a sample."""

    def runs(rows: FloatArray, sample_runs: FloatArray, sample_rows: FloatArray) -> FloatArray:
        return np.asarray(rows * (sample_runs.sum() / max(1.0, float(sample_rows.sum()))))

    return layer._replace(
        sent_runs=runs(layer.sent, sample.sent_runs, sample.sent),
        arrived_runs=runs(layer.arrived, sample.arrived_runs, sample.arrived),
        kept_runs=runs(layer.kept, sample.kept_runs, sample.kept),
    )
