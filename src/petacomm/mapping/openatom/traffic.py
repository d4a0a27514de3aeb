"""Traffic of a step of OpenAtom, and its hop-bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from petacomm.base.typing import Int64Array
from petacomm.mapping.openatom.hops import HopTable
from petacomm.mapping.openatom.maps import ObjectMaps, block_pairs
from petacomm.mapping.openatom.system import MolecularSystem
from petacomm.network import Traffic
from petacomm.topology import TopologyManager

_COMPLEX, _REAL = 16, 8  # bytes


@dataclass(frozen=True, eq=False)
class GroupExchange:
    """Exchange between all objects of two kinds that are in the same group, in both directions.

    Attributes
    ----------
    kinds : two of (int64 (n,), int64 (n,))
        Rank and group of each object, for the two kinds.
    n_groups : int
    n_bytes : float
        Bytes of one message.
    """

    kinds: Sequence[tuple[Int64Array, Int64Array]]
    n_groups: int
    n_bytes: float

    def traffic(self, n_ranks: int) -> Traffic:
        """Return the traffic between ranks, without messages within a rank."""
        from scipy.sparse import coo_array

        held = [
            coo_array((np.ones(len(ranks)), (ranks, groups)), shape=(n_ranks, self.n_groups)).tocsr()
            for ranks, groups in self.kinds
        ]
        messages = (held[0] @ held[1].T).tocoo()
        remote = messages.row != messages.col
        source, target = messages.row[remote].astype(np.int64), messages.col[remote].astype(np.int64)
        sent = messages.data[remote] * self.n_bytes
        return Traffic(np.append(source, target), np.append(target, source), np.append(sent, sent))

    def hop_bytes(self, hops: HopTable) -> float:
        """Return the sum of bytes times hops, from counts of objects by group and coordinate."""
        total = 0
        for dimension, table in enumerate(hops.tables):
            counts = [
                np.bincount(
                    groups * len(table) + hops.coordinates[ranks, dimension],
                    minlength=self.n_groups * len(table),
                )
                for ranks, groups in self.kinds
            ]
            left, right = (count.reshape(self.n_groups, len(table)) for count in counts)
            total += int(np.sum((left @ table) * right))
        return 2 * total * self.n_bytes


def group_exchanges(maps: ObjectMaps, system: MolecularSystem) -> dict[str, GroupExchange]:
    """Return the exchanges of a step, by phase.

    ``transpose``: all planes of a state of GSpace with all of its RealSpace; ``particles``: the same with its
    RealParticlePlane; ``pairs``: GSpace with the PairCalculators of its plane that have its state, for states
    and for forces; ``rho``: RhoR with RhoG. The bytes assume equal shares of lines, plane waves and points;
    they are not published.
    """
    states, planes = np.arange(system.n_states)[:, None], np.arange(system.n_g)
    line = system.n_lines / system.n_g * _COMPLEX
    wave = system.n_waves / system.n_g * _COMPLEX
    pairs = block_pairs(system)
    off_diagonal = pairs[:, 0] != pairs[:, 1]
    calculators = maps.pair_calculators
    calculator_groups = np.append(pairs[:, 0], pairs[off_diagonal, 1])[:, None] * system.n_g + planes
    return {
        "transpose": _exchange(maps.g_space, states, maps.real_space, states, line),
        "particles": _exchange(maps.g_space, states, maps.real_particle, states, line),
        "pairs": _exchange(
            maps.g_space, states // system.block * system.n_g + planes,
            np.concatenate([calculators, calculators[off_diagonal]]), calculator_groups, 2 * wave,
        ),
        "rho": _exchange(maps.rho_r, np.array(0), maps.rho_g, np.array(0), system.n_r * _REAL / system.n_rho),
    }  # fmt: skip


def _exchange(
    left: Int64Array, left_group: Int64Array, right: Int64Array, right_group: Int64Array, n_bytes: float
) -> GroupExchange:
    kinds = [
        (ranks.ravel(), np.broadcast_to(group, ranks.shape).ravel())
        for ranks, group in ((left, left_group), (right, right_group))
    ]
    return GroupExchange(kinds, int(max(groups.max() for _, groups in kinds)) + 1, n_bytes)


def density_traffic(manager: TopologyManager, maps: ObjectMaps, system: MolecularSystem) -> Traffic:
    """Return the traffic of the sums of RealSpace to RhoR and back, along a tree per plane."""
    hops = HopTable(manager)
    ends = []
    for held, rho in zip(maps.real_space.T, maps.rho_r, strict=True):
        ends.append(reduction_tree(hops, np.unique(np.append(held, rho)), int(rho[0])))
    source, target = np.concatenate(ends, axis=1)
    sent = np.full(2 * len(source), float(system.n_r**2 * _REAL))
    return Traffic(np.append(source, target), np.append(target, source), sent)


def reduction_tree(hops: HopTable, ranks: Int64Array, root: int) -> Int64Array:
    """Return the edges of a tree, int64 (2, n - 1): each rank and the nearest rank closer to the root."""
    order = ranks[np.lexsort((ranks, ranks != root, hops.from_rank(root, ranks)))]
    before = np.tri(len(order), k=-1, dtype=bool)
    distance = np.where(before, hops.between(order, order), np.iinfo(np.int16).max)
    return np.stack([order[1:], order[distance[1:].argmin(1)]])


def step_traffic(manager: TopologyManager, maps: ObjectMaps, system: MolecularSystem) -> dict[str, Traffic]:
    """Return the traffic of a step by phase: those of `group_exchanges`, and ``density``."""
    phases = {name: phase.traffic(manager.n_ranks) for name, phase in group_exchanges(maps, system).items()}
    return {**phases, "density": density_traffic(manager, maps, system)}


def step_hop_bytes(manager: TopologyManager, maps: ObjectMaps, system: MolecularSystem) -> dict[str, float]:
    """Return the hop-bytes of a step by phase."""
    hops = HopTable(manager)
    phases = {name: phase.hop_bytes(hops) for name, phase in group_exchanges(maps, system).items()}
    trees = density_traffic(manager, maps, system)
    tree_hops = manager.hops_between_ranks(trees.source, trees.destination)
    return {**phases, "density": float(np.dot(tree_hops, np.asarray(trees.n_bytes)))}
