"""Cartesian grids of ranks, told by who sends to whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np

from petacomm.base.typing import FloatArray, Int32Array
from petacomm.topology import Torus

# Ranks form a grid if more than this part of all bytes goes one step along one dimension.
_NEAR = 0.8
# Distances between ranks that can be strides of a grid carry at least this part of the bytes.
_LEAST_SHARE = 0.01
_MOST_STRIDES = 5
# Of more edges, as many are looked at.
_MOST_EDGES = 200_000


def find_rank_grid(
    n_ranks: int, sources: Int32Array, targets: Int32Array, n_bytes: FloatArray
) -> tuple[int, ...] | None:
    """Return the periodic grid of ranks, the last dimension running fastest, whose neighbours exchange most.

    Parameters
    ----------
    n_ranks : int
    sources, targets : int (n_edges,)
    n_bytes : float64 (n_edges,)

    Returns
    -------
    tuple of int, or None
        Of several grids with as many bytes between neighbours the one of fewest dimensions, two or more. None
        if four fifths of the bytes or less are between neighbours.
    """
    if not len(n_bytes):
        return None
    apart = np.abs(targets - sources)
    sums = np.bincount(apart, n_bytes, n_ranks).astype(np.float64)
    step = -(-len(n_bytes) // _MOST_EDGES)
    edges = (sources[::step], targets[::step], n_bytes[::step])
    best, best_share = None, _NEAR
    for shape in _possible_grids(n_ranks, sums):
        share = _near_share(shape, *edges)
        if share > best_share * (1 + 1e-9):
            best, best_share = shape, share
    return best


def _possible_grids(n_ranks: int, sums: FloatArray) -> Iterator[tuple[int, ...]]:
    """Iterate over grids with strides of which ranks exchange much, those of fewest dimensions first."""
    frequent = np.flatnonzero(sums >= _LEAST_SHARE * sums.sum()).tolist()
    fits = [stride for stride in frequent if 1 < stride < n_ranks and n_ranks % stride == 0]
    strides = sorted(sorted(fits, key=lambda stride: -sums[stride])[:_MOST_STRIDES])
    for count in range(1, len(strides) + 1):
        for chosen in combinations(strides, count):
            chain = list(pairwise((1, *chosen, n_ranks)))
            if all(large % small == 0 for small, large in chain):
                yield tuple(large // small for small, large in reversed(chain))


def _near_share(shape: Sequence[int], sources: Int32Array, targets: Int32Array, n_bytes: FloatArray) -> float:
    """Return the part of the bytes between ranks that are one step apart along one dimension."""
    steps = np.abs(Torus(shape).displacement(sources, targets))
    return float(n_bytes[steps.sum(-1) == 1].sum() / n_bytes.sum())
