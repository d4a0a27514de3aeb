"""Complete pixels of the ranks of some nodes, to estimate numbers of partners.

A sample of the sky has only a part of the pixels of each rank, and of many ranks does not determine which
share pixels.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.progress import Progress
from petacomm.base.threads import map_threads
from petacomm.base.typing import BoolArray, Int32Array, Int64Array
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.partner_estimates import RankSample
from petacomm.sharing.sharing_graph import hash_runs, offsets_from_counts
from petamap.data.parts import NO_PART
from petamap.planning.detectors_alike import first_alike
from petamap.planning.rank_samples import SampleDistribution
from petamap.planning.scanned_run import ScannedRun
from petamap.planning.sky_regions import SkySample

# Time samples expanded at a time, and by all ranks of the sampled nodes.
_CHUNK = 1 << 17
_MAX_SAMPLES = 6e8
FEWEST_NODES = 3
# Total number of pixels that are kept.
_MAX_PIXELS = 2e7
# Ranks whose pairs are looked at, of a sample of the sky.
_MOST_RANKS = 1024


def sample_nodes(
    run: ScannedRun,
    distribution: SampleDistribution,
    ranks_per_node: int,
    n_keys: float,
    seed: int,
    n_threads: int,
    progress: Progress,
) -> RankSample:
    """Return all pixels of the ranks of some nodes, drawn by stratified sampling.

    At least three nodes are drawn, if there are as many. Of very many pixels, a subset selected by hash is
    kept.

    Parameters
    ----------
    run : ScannedRun
    distribution : SampleDistribution
        Time samples of each rank.
    ranks_per_node : int
    n_keys : float
        Approximate number of pixels of a rank.
    seed : int
        Seed of the random nodes.
    n_threads : int
    progress : Progress
    """
    held = distribution.n_held
    n_nodes = -(-distribution.size // ranks_per_node)
    affordable = int(_MAX_SAMPLES / max(held.mean() * ranks_per_node, 1))
    n_sampled = min(n_nodes, max(FEWEST_NODES, affordable))
    if n_sampled < n_nodes:
        n_full = distribution.size // ranks_per_node
        edges = np.arange(n_sampled + 1) * n_full // n_sampled
        nodes = np.random.default_rng(seed).integers(edges[:-1], edges[1:])
    else:
        nodes = np.arange(n_nodes)
    ranks = (nodes[:, None] * ranks_per_node + np.arange(ranks_per_node)).ravel()
    ranks = ranks[ranks < distribution.size]
    stride = max(1, math.ceil(len(ranks) * n_keys / _MAX_PIXELS))
    progress.begin("sampled nodes", float(held[ranks].sum()), "samples")

    def sampled_pixels(rank: int) -> Int64Array:
        keys = rank_pixels(run, distribution, rank)
        progress.advance(float(held[rank]))
        return keys[hash_runs(keys) % np.uint64(stride) == 0] if stride > 1 else keys

    keys = map_threads(sampled_pixels, ranks.tolist(), n_threads)
    progress.end()
    occupancy = Occupancy.from_rank_keys(keys)
    weights = np.full(len(occupancy.keys), float(stride))
    return RankSample(occupancy, n_sampled, ranks_per_node, distribution.size, weights)


def nodes_of_sky_sample(occupancy: Occupancy, sample: SkySample, ranks_per_node: int) -> RankSample:
    """Return the pixels of ranks in a sample of the sky, where ranks are so few that it tells who shares.

    Of more than 1024 ranks they are those of some nodes, evenly chosen: pairs of all would be matrices of
    gigabytes.

    Parameters
    ----------
    occupancy : Occupancy
        Occupancy of the pixels of the sample.
    sample : SkySample
    ranks_per_node : int
    """
    size, n_nodes = occupancy.size, -(-occupancy.size // ranks_per_node)
    if size > _MOST_RANKS:
        n_full, number = size // ranks_per_node, max(FEWEST_NODES, _MOST_RANKS // ranks_per_node)
        if number < n_full:
            nodes = ((np.arange(number) + 0.5) * n_full / number).astype(np.int64)
            ranks = (nodes[:, None] * ranks_per_node + np.arange(ranks_per_node)).ravel()
            occupancy, n_nodes = select_ranks(occupancy, ranks), number
    weights = sample.weights[sample.region_of(occupancy.keys)]
    return RankSample(occupancy, n_nodes, ranks_per_node, size, weights)


def rank_pixels(run: ScannedRun, distribution: SampleDistribution, rank: int) -> Int64Array:
    """Return the keys of the pixels that a rank holds, increasing: int64 (n_keys,)."""
    index = _mapmaking.PixelIndex(run.n_maps * run.pixelization.n_pix)
    for (number, detector, part), found in _stretches(run, distribution, rank).items():
        for start, stop in _joined(found):
            _mark(run, number, detector, start, stop, part, index)
    index.number()
    keys = np.empty(index.n_local, np.int64)
    index.keys(keys)
    return keys


def _stretches(
    run: ScannedRun, distribution: SampleDistribution, rank: int
) -> dict[tuple[int, int, int], list[tuple[int, int]]]:
    """Return the samples [start, stop) of a rank by observation, detector and part.

    Of detectors that look alike, as the two of a pair, the first stands for all.
    """
    found: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    first, last = np.searchsorted(distribution.ranks, [rank, rank + 1])
    alike = lru_cache(2)(lambda number: first_alike(run.observations[number]))
    for row in range(int(first), int(last)):
        number = int(distribution.streams[row])
        stream = run.layout.streams[number]
        base = stream.start - run.layout.streams.key(number)
        start, stop = stream.recorded_range(
            int(distribution.begin[row]) + base, int(distribution.end[row]) + base
        )
        detector = int(alike(stream.observation)[stream.detector])
        runs = None if run.parts is None else run.parts.of(stream.observation, stream.detector)
        for begin, end, part in [(start, stop, 0)] if runs is None else runs.within(start, stop):
            if part != NO_PART:
                found.setdefault((stream.observation, detector, part), []).append((begin, end))
    return found


def _joined(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return stretches of samples, those that overlap or touch as one."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], stop)
        else:
            joined.append((start, stop))
    return joined


def _mark(
    run: ScannedRun, number: int, detector: int, start: int, stop: int, part: int,
    index: _mapmaking.PixelIndex,
) -> None:  # fmt: skip
    """Mark the pixels of samples [start, stop) of a detector, of one part."""
    observation = run.observations[number]
    pointing = observation.pointing
    assert pointing is not None
    pixels, gains = np.empty(_CHUNK, np.int32), np.empty(_CHUNK, np.float32)
    for first in range(start, stop, _CHUNK):
        n = min(_CHUNK, stop - first)
        weights = gains[:n] if pointing.has_gains else None
        seen = pixels[:n]
        pointing.expand(run.pixelization, detector, first, first + n, seen, None, weights)
        flags = np.zeros(n if observation.flags else 0, np.uint8)
        for source in observation.flags:
            source.or_flags(detector, first, first + n, flags)
        if part:
            seen[seen >= 0] += np.int32(part * run.pixelization.n_pix)
        index.mark(seen[flags == 0] if observation.flags else seen)


def select_ranks(occupancy: Occupancy, ranks: Int64Array) -> Occupancy:
    """Return the occupancy of keys that some ranks (n,), increasing, hold, by these alone."""
    number = np.full(occupancy.size, -1, np.int32)
    number[ranks] = np.arange(len(ranks))
    holders = number[occupancy.holders]
    kept = holders >= 0
    return select_pairs(occupancy, kept, holders[kept], len(ranks))


def select_pairs(occupancy: Occupancy, kept: BoolArray, holders: Int32Array, size: int) -> Occupancy:
    """Return the occupancy of the pairs of a key and a holder that are kept, with new numbers of holders."""
    counts = np.add.reduceat(kept, occupancy.offsets[:-1], dtype=np.int64)
    held = counts > 0
    return Occupancy(occupancy.keys[held], offsets_from_counts(counts[held]), holders, size)
