"""Maps of OpenAtom's arrays of objects onto ranks (Bhatele 2010, section 7.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from petacomm.base.errors import ConfigError, DataError
from petacomm.base.files import atomic_write
from petacomm.base.npz import read_arrays
from petacomm.base.typing import Int64Array
from petacomm.mapping.openatom.hops import HopTable
from petacomm.mapping.openatom.prisms import Prisms, cut_prisms
from petacomm.mapping.openatom.system import MolecularSystem
from petacomm.topology import TopologyManager


@dataclass(frozen=True, eq=False)
class ObjectMaps:
    """The rank of each object of OpenAtom's arrays.

    These are the maps of 14 of the 15 arrays: ParticlePlane lies with GSpace, the two instances of
    PairCalculator have one map, as do Ortho and the three of CLA_Matrix. The last one, StructureFactor, is
    not used where non-local terms are interpolated.

    Attributes
    ----------
    g_space : int64 (n_states, n_g)
    real_space : int64 (n_states, n_r)
    pair_calculators : int64 (n_pairs, n_g)
        For each of the `block_pairs` and each plane.
    ortho : int64 (n_tiles, n_tiles)
    rho_r : int64 (n_r, n_rho)
    rho_g : int64 (n_r,)
    rho_r_hart : int64 (n_types, n_hart, n_rho)
    rho_g_hart : int64 (n_types, n_r)
    real_particle : int64 (n_states, n_particle)
    """

    g_space: Int64Array
    real_space: Int64Array
    pair_calculators: Int64Array
    ortho: Int64Array
    rho_r: Int64Array
    rho_g: Int64Array
    rho_r_hart: Int64Array
    rho_g_hart: Int64Array
    real_particle: Int64Array

    def save(self, path: str | Path) -> None:
        """Write the maps to a file, to be reused by later runs."""
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **{item.name: getattr(self, item.name) for item in fields(self)})

    @classmethod
    def load(cls, path: str | Path, n_ranks: int) -> ObjectMaps:
        """Read maps from a file.

        Raises
        ------
        ConfigError
            If there is no such file, or its maps use ranks beyond `n_ranks`.
        DataError
            If it has no maps, or is damaged.
        """
        mend = "write it with ObjectMaps.save"
        arrays = read_arrays(path, "maps", mend)
        try:
            names = [item.name for item in fields(cls)]
            maps = cls(**{name: arrays[name].astype(np.int64, casting="safe") for name in names})
        except (KeyError, TypeError) as error:
            what = f"it lacks {error}" if isinstance(error, KeyError) else error
            raise DataError(f"no maps: {what}", where=str(path), mend=mend) from None
        ranks = np.concatenate([getattr(maps, item.name).ravel() for item in fields(cls)])
        if len(ranks) and (ranks.min() < 0 or ranks.max() >= n_ranks):
            raise ConfigError(f"maps objects to other than {n_ranks} ranks", where=str(path), mend="map anew")
        return maps


def block_pairs(system: MolecularSystem) -> Int64Array:
    """Return the pairs of blocks of states, each with a PairCalculator: int64 (n_blocks**2, 2)."""
    return np.indices((system.n_blocks, system.n_blocks)).reshape(2, -1).T.astype(np.int64)


def default_maps(manager: TopologyManager, system: MolecularSystem) -> ObjectMaps:
    """Return OpenAtom's default maps, which ignore the topology.

    Objects that communicate much have equal or consecutive ranks: GSpace and RealSpace are distributed evenly
    in blocks over consecutive ranks, planes slowest; PairCalculators likewise, plane by plane.
    """
    n = manager.n_ranks

    def block_map(n_rows: int, n_columns: int) -> Int64Array:
        row, column = np.indices((n_rows, n_columns))
        return np.asarray((column * n_rows + row) * n // (n_rows * n_columns), np.int64)

    def spread(*shape: int) -> Int64Array:
        return np.asarray(block_map(1, math.prod(shape))[0].reshape(shape), np.int64)

    return ObjectMaps(
        g_space=block_map(system.n_states, system.n_g),
        real_space=block_map(system.n_states, system.n_r),
        pair_calculators=block_map(len(block_pairs(system)), system.n_g),
        ortho=spread(system.n_tiles, system.n_tiles),
        rho_r=block_map(system.n_rho, system.n_r).T.copy(),
        rho_g=spread(system.n_r),
        rho_r_hart=spread(system.n_types, system.n_hart, system.n_rho),
        rho_g_hart=spread(system.n_types, system.n_r),
        real_particle=block_map(system.n_states, system.n_particle),
    )


def topology_maps(manager: TopologyManager, system: MolecularSystem, axis: int | None = None) -> ObjectMaps:
    """Return topology-aware maps, based on prisms of the torus.

    Parameters
    ----------
    manager : TopologyManager
        An allocation that fills a box, with all cores of each node in use.
    system : MolecularSystem
    axis : int, optional
        Dimension along which the prisms extend; by default that of `long_axis`.

    Raises
    ------
    ConfigError
        If the planes cannot have prisms of equal size.
    """
    prisms = cut_prisms(manager, system.n_g, long_axis(manager, system) if axis is None else axis)
    g_space = map_g_space(prisms, system)
    real_space = map_real_space(manager, system, g_space)
    pair_calculators = map_pair_calculators(manager, system, prisms, g_space)
    return ObjectMaps(
        g_space,
        real_space,
        pair_calculators,
        map_ortho(manager, system, pair_calculators),
        *map_densities(manager, system, real_space),
        map_real_particle(manager, system, g_space, real_space),
    )


def long_axis(manager: TopologyManager, system: MolecularSystem) -> int:
    """Return the shortest dimension that leaves a column of ranks for each plane, else the shortest."""
    dimensions = sorted(range(len(manager.shape)), key=lambda d: (manager.shape[d], -d))
    room = [d for d in dimensions if manager.n_ranks // manager.shape[d] >= system.n_g]
    return (room or dimensions)[0]


def map_g_space(prisms: Prisms, system: MolecularSystem) -> Int64Array:
    """Return the map of GSpace: one prism per plane, with the states in order along the long axis."""
    states = np.arange(system.n_states)
    prism_maps = [ranks[states * len(ranks) // system.n_states] for ranks in prisms.ranks]
    return np.stack([prism_maps[prism] for prism in prisms.prism_of_plane], -1)


def map_real_space(manager: TopologyManager, system: MolecularSystem, g_space: Int64Array) -> Int64Array:
    """Return the map of RealSpace by Algorithm 7.1.

    For each state, the ranks of its GSpace planes form a list. For each plane, full ranks are removed, the
    list is sorted by hops from its first rank (stably), and the object is assigned to the first. A rank is
    full if it has reached the smallest limit that, applied to the complete list, leaves room for all objects
    of the state.

    The first rank remains first until it is full, so that the list is sorted once per rank; the result is
    cached for states with the same list.
    """
    held = np.zeros(manager.n_ranks, np.int64)
    hops = HopTable(manager)
    cache: dict[bytes, Int64Array] = {}
    result = np.empty((system.n_states, system.n_r), np.int64)
    for state in range(system.n_states):
        ranks = _distinct(g_space[state])
        limit = _limit(held[ranks], system.n_r)
        ranks = ranks[held[ranks] < limit]
        key = ranks.tobytes()
        if key not in cache:
            cache[key] = _fill_order(hops, ranks)
        order = cache[key]
        result[state] = np.repeat(order, limit - held[order])[: system.n_r]
        held += np.bincount(result[state], minlength=len(held))
    return result


def _fill_order(hops: HopTable, ranks: Int64Array) -> Int64Array:
    """Return the order in which ranks become first, the others being sorted by hops from the first."""
    order = np.empty_like(ranks)
    for index in range(len(ranks)):
        order[index] = ranks[0]
        ranks = ranks[1:][np.argsort(hops.from_rank(ranks[0], ranks[1:]), kind="stable")]
    return order


def _limit(held: Int64Array, n_objects: int) -> int:
    """Return the smallest limit on each rank's objects that leaves room for `n_objects` more."""
    ordered = np.sort(held)
    # The level to which the k least loaded ranks are filled by all objects; the minimum over k is the limit.
    levels = -(-(np.cumsum(ordered) + n_objects) // np.arange(1, len(ordered) + 1))
    return int(levels.min())


def map_pair_calculators(
    manager: TopologyManager, system: MolecularSystem, prisms: Prisms, g_space: Int64Array
) -> Int64Array:
    """Return the map of PairCalculators: in the prism of their plane, near the centroid of their states.

    The objects of a plane are distributed evenly over its ranks such that the sum of hops to all ranks of
    both blocks of states is minimal.
    """
    from scipy.optimize import linear_sum_assignment

    pairs = block_pairs(system)
    result = np.empty((len(pairs), system.n_g), np.int64)
    hops = HopTable(manager)
    for plane, prism in enumerate(prisms.prism_of_plane):
        ranks = prisms.ranks[prism]
        sums = hops.group_sums(ranks, g_space[:, plane].reshape(system.n_blocks, -1))
        cost = sums[pairs[:, 0]] + sums[pairs[:, 1]]
        objects_per_rank = -(-len(pairs) // len(ranks))
        _, chosen = linear_sum_assignment(np.tile(cost, objects_per_rank))
        result[:, plane] = ranks[chosen % len(ranks)]
    return result


def map_ortho(manager: TopologyManager, system: MolecularSystem, pair_calculators: Int64Array) -> Int64Array:
    """Return the map of Ortho: evenly, each tile near the PairCalculators of its states in all planes."""
    everywhere = np.arange(manager.n_ranks)
    sums = HopTable(manager).group_sums(everywhere, pair_calculators)
    tile_block = np.arange(system.n_tiles) * system.tile // system.block
    limit = -(-(system.n_tiles**2) // manager.n_ranks)
    used = np.zeros(manager.n_ranks, np.int64)
    result = np.empty((system.n_tiles, system.n_tiles), np.int64)
    for i, j in np.ndindex(result.shape):
        near = sums[tile_block[i] * system.n_blocks + tile_block[j]]
        result[i, j] = np.where(used < limit, near, np.iinfo(np.int64).max).argmin()
        used[result[i, j]] += 1
    return result


def map_densities(
    manager: TopologyManager, system: MolecularSystem, real_space: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Return the maps of RhoR, RhoG, RhoRHart and RhoGHart.

    RhoR is near the centroid of each plane of RealSpace, RhoG near RhoR, and the other two near all of RhoG.
    No rank has two of these objects, if there are enough ranks.
    """
    hops = HopTable(manager)
    everywhere = np.arange(manager.n_ranks)
    sums = hops.group_sums(everywhere, real_space.T)
    rho_r = np.empty((system.n_r, system.n_rho), np.int64)
    used = np.zeros(manager.n_ranks, np.int64)
    for plane in range(system.n_r):
        order = np.lexsort((sums[plane], used))[: system.n_rho]
        rho_r[plane] = np.resize(order, system.n_rho)
        used[order] += 1
    rho_g = np.empty(system.n_r, np.int64)
    near = hops.group_sums(everywhere, rho_r)
    for plane in range(system.n_r):
        rho_g[plane] = np.lexsort((near[plane], used))[0]
        used[rho_g[plane]] += 1
    order = np.lexsort((hops.group_sums(everywhere, rho_g[None])[0], used))
    n_g_hart = system.n_types * system.n_r
    hart = np.resize(order, n_g_hart + system.n_types * system.n_hart * system.n_rho)
    rho_r_hart = hart[n_g_hart:].reshape(system.n_types, system.n_hart, system.n_rho)
    return rho_r, rho_g, rho_r_hart, hart[:n_g_hart].reshape(system.n_types, -1)


def map_real_particle(
    manager: TopologyManager, system: MolecularSystem, g_space: Int64Array, real_space: Int64Array
) -> Int64Array:
    """Return the map of RealParticlePlane: Algorithm 7.1, starting at RealSpace's object there."""
    held = np.zeros(manager.n_ranks, np.int64)
    hops = HopTable(manager)
    result = np.empty((system.n_states, system.n_particle), np.int64)
    real_plane = np.arange(system.n_particle) * system.n_r // system.n_particle
    for state in range(system.n_states):
        ranks = _distinct(g_space[state])
        starts, first = np.unique(real_space[state], return_inverse=True)
        distance = hops.between(starts, ranks).astype(float)
        room = _limit(held[ranks], system.n_particle) - held[ranks]
        distance[:, room <= 0] = np.inf
        for plane in range(system.n_particle):
            chosen = distance[first[real_plane[plane]]].argmin()
            result[state, plane] = ranks[chosen]
            room[chosen] -= 1
            if not room[chosen]:
                distance[:, chosen] = np.inf
        held += np.bincount(result[state], minlength=len(held))
    return result


def _distinct(ranks: Int64Array) -> Int64Array:
    """Return the distinct ranks in order of first occurrence."""
    unique, first = np.unique(ranks, return_index=True)
    return unique[np.argsort(first)]
