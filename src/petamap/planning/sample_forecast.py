"""Forecast of the communication of ranks from a sample of the sky."""

from __future__ import annotations

import math

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array
from petacomm.costs.forecast import Forecast, SampleParts, forecast, forecast_from_counts
from petacomm.costs.nested_group_counts import LayerCounts, count_sampled_layers
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.options import ReductionOptions
from petacomm.costs.partner_estimates import (
    RankSample,
    estimate_imbalance,
    estimate_partners,
    owner_probability,
)
from petacomm.costs.rank_counts import RankCounts, assumed_partners, count_ranks, node_of_ranks
from petamap.planning.sky_regions import SkySample

# Pairs of a key and a holder from which loads are estimated: of more, a part of the regions is taken.
_MOST_HELD = 1 << 24


def forecast_from_sample(
    occupancy: Occupancy,
    rank_sample: RankSample | None,
    sample: SkySample,
    ranks_per_node: int,
    options: ReductionOptions,
) -> Forecast:
    """Return the communication forecast for ranks, estimated from a sample of the sky.

    Parameters
    ----------
    occupancy : Occupancy
        Occupancy of the pixels of the sample.
    rank_sample : RankSample or None
        Some ranks with all their pixels, to estimate partners; None to count them, which requires the full
        sky.
    sample : SkySample
    ranks_per_node : int
    options : ReductionOptions
        Options of the algorithms.
    """
    if rank_sample is None:
        return forecast(occupancy, ranks_per_node, options)
    occupancy, sample = _thinned(occupancy, sample)
    counts, layers, jackknife = count_sample(occupancy, sample, ranks_per_node, options)
    stratum = sample.stratum_of(rank_sample.occupancy.keys)
    probability = _owner_probability(occupancy, sample)[stratum]
    pairs, owners, partners = estimate_partners(rank_sample, probability)
    node_probability = _owner_probability(occupancy.merge_ranks(ranks_per_node), sample)[stratum]
    _, nodes, _ = estimate_partners(rank_sample.merge_ranks(ranks_per_node), node_probability)
    messages = assumed_partners(counts, pairs, owners, math.ceil(nodes / ranks_per_node))
    others, ghosts = _expected_holders(occupancy, sample.region_of(occupancy.keys), len(sample.regions))
    scatter = _ghost_scatter(counts, sample.weights)
    imbalance = estimate_imbalance(rank_sample, others[stratum], ghosts[stratum], scatter)
    return forecast_from_counts(
        counts, layers, jackknife, messages, partners, imbalance, ranks_per_node, options
    )


def _thinned(occupancy: Occupancy, sample: SkySample) -> tuple[Occupancy, SkySample]:
    """Return the occupancy and the sample of a part of the regions, if the keys have too many holders."""
    every = math.ceil(len(occupancy.holders) / _MOST_HELD)
    if every < 2:
        return occupancy, sample
    fewer = sample.thinned(every)
    region = (occupancy.keys % sample.pixelization.n_pix) >> sample.shift
    positions = np.flatnonzero(fewer.sample_index[region] >= 0).astype(np.int32)
    return occupancy.select(positions), fewer


def _owner_probability(occupancy: Occupancy, sample: SkySample) -> FloatArray:
    """Return `owner_probability` of each region, the largest of all maps."""
    n_maps = 1 + int(occupancy.keys[-1:].sum()) // sample.pixelization.n_pix
    of_maps = sample.pixelization.n_pix * np.arange(n_maps, dtype=np.int64)
    first_keys = of_maps[:, None] + (sample.regions << sample.shift)
    found = owner_probability(occupancy, first_keys.ravel()).reshape(first_keys.shape)
    return np.asarray(found.max(axis=0), np.float64)


def count_sample(
    occupancy: Occupancy, sample: SkySample, ranks_per_node: int, options: ReductionOptions
) -> tuple[RankCounts, list[LayerCounts], SampleParts]:
    """Return what ranks, and layers of nested groups, hold and send, and the parts of the sample."""
    region, node_of = sample.region_of(occupancy.keys), node_of_ranks(occupancy.size, ranks_per_node)
    parts, weights = sample.jackknife_part[region], sample.weights[region]
    counts = count_ranks(occupancy, node_of, parts, weights, options)
    layers = count_sampled_layers(occupancy, node_of, options.radix, parts, weights)
    fractions = np.bincount(sample.jackknife_part, sample.weights) / int(sample.stratum_edges[-1])
    return counts, layers, SampleParts(fractions, sample.fraction)


def _expected_holders(occupancy: Occupancy, region: Int64Array, n: int) -> tuple[FloatArray, FloatArray]:
    """Return, by region, the mean number of other holders of a held key, and the ghost fraction of keys."""
    multiplicity = occupancy.multiplicity.astype(np.float64)
    held = np.bincount(region, multiplicity, n)
    others = np.bincount(region, multiplicity * (multiplicity - 1), n)
    ghosts = np.bincount(region, multiplicity - 1, n)
    seen = held > 0
    return (
        np.where(seen, others / np.maximum(held, 1.0), others.sum() / held.sum()),
        np.where(seen, ghosts / np.maximum(held, 1.0), ghosts.sum() / held.sum()),
    )


def _ghost_scatter(counts: RankCounts, weights: FloatArray) -> float:
    """Return the relative random difference between the owner rows and the ghost rows of a rank.

    The variance of the weighted sum over the sample is reduced to that of the sum over all regions.
    """
    difference = (counts.to_ghost_rows - counts.to_owner_rows).sum(axis=0)
    mean = 2 * float(counts.to_ghost_rows.sum(axis=0).mean())
    variance = float(difference.var()) * weights.sum() / np.square(weights).sum()
    return math.sqrt(variance) / mean if mean else 0.0
