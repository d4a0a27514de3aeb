"""All pixels of the ranks of some nodes: what a sample of the sky cannot tell, who meets whom."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import petamap.mapmaking._mapmaking as _mapmaking
from petacomm.base.progress import Progress
from petacomm.base.threads import over_threads
from petacomm.base.typing import Int64Array
from petacomm.costs.occupancy import Occupancy
from petacomm.costs.partner_estimates import Company
from petacomm.sharing.sharing_graph import hash_runs
from petamap.data.observation import Observation
from petamap.mapmaking.time_layout import Layout
from petamap.planning.rank_samples import Dealing
from petamap.sky.pixelization import Pixelization

# Samples expanded at once, and by all ranks in company.
_PIECE = 1 << 17
_MOST_SAMPLES = 6e8
# Pixels of all of them that are kept.
_MOST_PIXELS = 2e7


def keep_company(
    observations: Sequence[Observation],
    layout: Layout,
    pixelization: Pixelization,
    dealing: Dealing,
    ranks_per_node: int,
    n_keys: float,
    seed: int,
    n_threads: int,
    progress: Progress,
) -> Company:
    """Find all pixels of the ranks of some nodes, drawn evenly: at least three, if there are as many.

    Parameters
    ----------
    observations, layout
        The time domain.
    pixelization : Pixelization
    dealing : Dealing
        Who holds what.
    ranks_per_node : int
    n_keys : float
        About as many pixels as a rank holds.
    seed : int
        Of the draw.
    n_threads : int
    progress : Progress
    """
    held = dealing.n_held
    n_nodes = -(-dealing.size // ranks_per_node)
    wanted = int(_MOST_SAMPLES / max(held.mean() * ranks_per_node, 1))
    chosen = min(n_nodes, max(3, wanted))
    if chosen < n_nodes:
        whole = dealing.size // ranks_per_node
        edges = np.arange(chosen + 1) * whole // chosen
        nodes = np.random.default_rng(seed).integers(edges[:-1], edges[1:])
    else:
        nodes = np.arange(n_nodes)
    ranks = (nodes[:, None] * ranks_per_node + np.arange(ranks_per_node)).ravel()
    ranks = ranks[ranks < dealing.size]
    every = max(1, math.ceil(len(ranks) * n_keys / _MOST_PIXELS))
    progress.begin("company", float(held[ranks].sum()), "samples")

    def run(rank: int) -> Int64Array:
        keys = keys_of_rank(observations, layout, pixelization, dealing, rank)
        progress.advance(float(held[rank]))
        return keys[hash_runs(keys) % np.uint64(every) == 0] if every > 1 else keys

    keys = over_threads(run, ranks.tolist(), n_threads)
    progress.end()
    return Company(Occupancy.of(keys), chosen, ranks_per_node, dealing.size, 1 / every)


def keys_of_rank(
    observations: Sequence[Observation],
    layout: Layout,
    pixelization: Pixelization,
    dealing: Dealing,
    rank: int,
) -> Int64Array:
    """Return the pixels that a rank holds, int64, increasing."""
    index = _mapmaking.PixelIndex(pixelization.n_pix)
    pixels = np.empty(_PIECE, np.int32)
    gains = np.empty(_PIECE, np.float32)
    for row in np.flatnonzero(dealing.ranks == rank).tolist():
        number = int(dealing.streams[row])
        stream = layout.streams[number]
        base = stream.start - int(layout.sample_keys[number])
        start, stop = stream.taken(int(dealing.begin[row]) + base, int(dealing.end[row]) + base)
        observation = observations[stream.observation]
        pointing = observation.pointing
        assert pointing is not None
        for first in range(start, stop, _PIECE):
            n = min(_PIECE, stop - first)
            weights = gains[:n] if pointing.has_gains else None
            pointing.expand(pixelization, stream.detector, first, first + n, pixels[:n], None, weights)
            flags = np.zeros(n if observation.flags else 0, np.uint8)
            for source in observation.flags:
                source.or_flags(stream.detector, first, first + n, flags)
            index.mark(pixels[:n][flags == 0] if observation.flags else pixels[:n])
    index.number()
    keys = np.empty(index.n_local, np.int64)
    index.keys(keys)
    return keys
