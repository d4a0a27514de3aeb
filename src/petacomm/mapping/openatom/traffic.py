"""Who sends how much in a step of OpenAtom, and how far it goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.mapping.openatom.hops import Hops
from petacomm.mapping.openatom.maps import Maps, block_pairs
from petacomm.mapping.openatom.system import System
from petacomm.network import Traffic
from petacomm.topology import TopologyManager

_COMPLEX, _REAL = 16, 8  # bytes


@dataclass(frozen=True, eq=False)
class Exchange:
    """Objects in groups: each of one kind sends to each of the other kind in its group, and back.

    Attributes
    ----------
    left, right : int64 (n,), (m,)
        The rank of each object of either kind.
    left_group, right_group : int64 (n,), (m,)
    n_groups : int
    n_bytes : float
        Of one message.
    """

    left: Int64Array
    left_group: Int64Array
    right: Int64Array
    right_group: Int64Array
    n_groups: int
    n_bytes: float

    def traffic(self, n_ranks: int) -> Traffic:
        """Return the bytes between ranks; what stays on a rank is left out."""
        from scipy.sparse import coo_array

        held = [
            coo_array((np.ones(len(ranks)), (ranks, groups)), shape=(n_ranks, self.n_groups)).tocsr()
            for ranks, groups in ((self.left, self.left_group), (self.right, self.right_group))
        ]
        there = (held[0] @ held[1].T).tocoo()
        apart = there.row != there.col
        source, target = there.row[apart].astype(np.int64), there.col[apart].astype(np.int64)
        sent = there.data[apart] * self.n_bytes
        return Traffic(np.append(source, target), np.append(target, source), np.append(sent, sent))

    def hop_bytes(self, hops: Hops) -> float:
        """Return bytes times links, from where the objects of each group are in each dimension."""
        total = 0
        for dimension, table in enumerate(hops.tables):
            counts = [
                np.bincount(
                    groups * len(table) + hops.places[ranks, dimension], minlength=self.n_groups * len(table)
                )
                for ranks, groups in ((self.left, self.left_group), (self.right, self.right_group))
            ]
            left, right = (count.reshape(self.n_groups, len(table)) for count in counts)
            total += int(np.sum((left @ table) * right))
        return 2 * total * self.n_bytes


def exchanges(maps: Maps, system: System) -> dict[str, Exchange]:
    """Return the phases in which groups of objects talk to each other.

    ``transpose``: all planes of a state of GSpace with all of its RealSpace; ``particles``: the same with its
    RealParticlePlane; ``pairs``: GSpace with the PairCalculators of its plane that have its state, for states
    and for forces; ``rho``: RhoR with RhoG. Bytes are those of even shares of lines, plane waves and points;
    no published source says them.
    """
    states, planes = np.arange(system.n_states)[:, None], np.arange(system.n_g)
    line = system.n_lines / system.n_g * _COMPLEX
    wave = system.n_waves / system.n_g * _COMPLEX
    pairs = block_pairs(system)
    apart = pairs[:, 0] != pairs[:, 1]
    calculators = maps.pair_calculators
    ends = np.append(pairs[:, 0], pairs[apart, 1])[:, None] * system.n_g + planes
    return {
        "transpose": _exchange(maps.g_space, states, maps.real_space, states, line),
        "particles": _exchange(maps.g_space, states, maps.real_particle, states, line),
        "pairs": _exchange(
            maps.g_space, states // system.block * system.n_g + planes,
            np.concatenate([calculators, calculators[apart]]), ends, 2 * wave,
        ),
        "rho": _exchange(maps.rho_r, np.array(0), maps.rho_g, np.array(0), system.n_r * _REAL / system.n_rho),
    }  # fmt: skip


def _exchange(
    left: Int64Array, left_group: Int64Array, right: Int64Array, right_group: Int64Array, n_bytes: float
) -> Exchange:
    groups = [
        np.broadcast_to(group, ranks.shape).ravel()
        for ranks, group in ((left, left_group), (right, right_group))
    ]
    n_groups = int(max(group.max() for group in groups)) + 1
    return Exchange(left.ravel(), groups[0], right.ravel(), groups[1], n_groups, n_bytes)


def density(manager: TopologyManager, maps: Maps, system: System) -> Traffic:
    """Return the sums over RealSpace for RhoR and the potential back: along a tree for each plane."""
    hops = Hops(manager)
    ends = []
    for held, rho in zip(maps.real_space.T, maps.rho_r, strict=True):
        ends.append(reduction_tree(hops, np.unique(np.append(held, rho)), int(rho[0])))
    source, target = np.concatenate(ends, axis=1)
    sent = np.full(2 * len(source), float(system.n_r**2 * _REAL))
    return Traffic(np.append(source, target), np.append(target, source), sent)


def reduction_tree(hops: Hops, ranks: Int64Array, root: int) -> Int64Array:
    """Return the edges of a tree, int64 (2, n - 1): each rank and the nearest nearer to the root."""
    order = ranks[np.lexsort((ranks, ranks != root, hops.from_one(root, ranks)))]
    before = np.tri(len(order), k=-1, dtype=bool)
    away = np.where(before, hops.between(order, order), np.iinfo(np.int16).max)
    return np.stack([order[1:], order[away[1:].argmin(1)]])


def traffic(manager: TopologyManager, maps: Maps, system: System) -> dict[str, Traffic]:
    """Return the bytes between ranks in a step, by phase: those of `exchanges`, and ``density``."""
    found = {name: phase.traffic(manager.n_ranks) for name, phase in exchanges(maps, system).items()}
    return {**found, "density": density(manager, maps, system)}


def hop_bytes(manager: TopologyManager, maps: Maps, system: System) -> dict[str, float]:
    """Return bytes times the links they cross in a step, by phase."""
    hops = Hops(manager)
    found = {name: phase.hop_bytes(hops) for name, phase in exchanges(maps, system).items()}
    trees = density(manager, maps, system)
    crossed = manager.hops_between_ranks(trees.source, trees.destination)
    return {**found, "density": float(np.dot(crossed, np.asarray(trees.n_bytes)))}
