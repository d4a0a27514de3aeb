"""Maps of OpenAtom's arrays of objects onto processors (Bhatele 2010, section 7.1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from petacomm.base.errors import ConfigError
from petacomm.base.files import replacing
from petacomm.base.typing import Int64Array
from petacomm.mapping.openatom.hops import Hops
from petacomm.mapping.openatom.prisms import Prisms, cut_prisms
from petacomm.mapping.openatom.system import System
from petacomm.topology import TopologyManager


@dataclass(frozen=True, eq=False)
class Maps:
    """The rank of each object.

    Attributes
    ----------
    g_space : int64 (n_states, n_g)
    real_space : int64 (n_states, n_r)
    pair_calculators : int64 (n_pairs, n_g)
        Of `block_pairs`, plane by plane.
    rho_r : int64 (n_r, n_rho)
    rho_g : int64 (n_r,)
    real_particle : int64 (n_states, n_r)
    """

    g_space: Int64Array
    real_space: Int64Array
    pair_calculators: Int64Array
    rho_r: Int64Array
    rho_g: Int64Array
    real_particle: Int64Array

    def save(self, path: str | Path) -> None:
        """Write the maps, for the next start of a run."""
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **{item.name: getattr(self, item.name) for item in fields(self)})

    @classmethod
    def load(cls, path: str | Path, n_ranks: int) -> Maps:
        """Read maps back.

        Raises
        ------
        ConfigError
            If the file is not one of maps, or they need more ranks than there are.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                names = [item.name for item in fields(cls)]
                made = cls(**{name: file[name].astype(np.int64, casting="safe") for name in names})
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror or 'not maps'}", where=str(path)) from None
        except (KeyError, ValueError, TypeError, EOFError, BadZipFile):
            raise ConfigError("holds no maps", where=str(path), mend="write it with Maps.save") from None
        ranks = np.concatenate([getattr(made, item.name).ravel() for item in fields(cls)])
        if len(ranks) and (ranks.min() < 0 or ranks.max() >= n_ranks):
            raise ConfigError(f"maps objects to other than {n_ranks} ranks", where=str(path), mend="map anew")
        return made


def block_pairs(system: System) -> Int64Array:
    """Return the pairs of blocks of states that have a PairCalculator: int64 (n_pairs, 2), in order."""
    return np.stack(np.triu_indices(system.n_blocks), -1).astype(np.int64)


def default_maps(manager: TopologyManager, system: System) -> Maps:
    """Return OpenAtom's maps for networks without a topology.

    Objects that talk much are on one processor or near in rank: GSpace and RealSpace in blocks of states and
    planes, planes slowest, dealt evenly to consecutive ranks; PairCalculators, plane by plane, likewise.
    """
    n = manager.n_ranks

    def dealt(n_rows: int, n_columns: int) -> Int64Array:
        row, column = np.indices((n_rows, n_columns))
        return np.asarray((column * n_rows + row) * n // (n_rows * n_columns), np.int64)

    return Maps(
        dealt(system.n_states, system.n_g),
        dealt(system.n_states, system.n_r),
        dealt(len(block_pairs(system)), system.n_g),
        dealt(system.n_rho, system.n_r).T.copy(),
        dealt(1, system.n_r)[0],
        dealt(system.n_states, system.n_r),
    )


def topology_maps(manager: TopologyManager, system: System, axis: int | None = None) -> Maps:
    """Return the maps that follow the torus.

    Parameters
    ----------
    manager : TopologyManager
        Of an allocation that fills a box, all cores of each node used.
    system : System
    axis : int, optional
        The dimension along which prisms lie; by default the shortest that leaves room for all planes.

    Raises
    ------
    ConfigError
        If planes cannot have prisms of one size.
    """
    prisms = cut_prisms(manager, system.n_g, long_axis(manager, system) if axis is None else axis)
    g_space = map_g_space(prisms, system)
    real_space = map_real_space(manager, system, g_space)
    rho_r, rho_g = map_densities(manager, system, real_space)
    return Maps(
        g_space,
        real_space,
        map_pair_calculators(manager, system, prisms, g_space),
        rho_r,
        rho_g,
        map_real_particle(manager, system, g_space, real_space),
    )


def long_axis(manager: TopologyManager, system: System) -> int:
    """Return the shortest dimension that leaves a column for each plane, else the shortest of all."""
    dimensions = sorted(range(len(manager.shape)), key=lambda d: (manager.shape[d], -d))
    room = [d for d in dimensions if manager.n_ranks // manager.shape[d] >= system.n_g]
    return (room or dimensions)[0]


def map_g_space(prisms: Prisms, system: System) -> Int64Array:
    """Return the map of GSpace: a prism a plane, its states in increasing order along the long axis."""
    states = np.arange(system.n_states)
    of_prism = [ranks[states * len(ranks) // system.n_states] for ranks in prisms.processors]
    return np.stack([of_prism[prism] for prism in prisms.of_plane], -1)


def map_real_space(manager: TopologyManager, system: System, g_space: Int64Array) -> Int64Array:
    """Return the map of RealSpace by Algorithm 7.1.

    For each state, the processors of its GSpace planes are a list. For each plane, full ones leave it, it is
    sorted by hops from its first processor, equals in their order, and the object goes to the first. Full
    is a processor with the fewest objects that, as a limit for all of the list, leave room for the state.

    The first processor stays first until it is full, so the list is sorted once for each; and alike for all
    states that have it.
    """
    held = np.zeros(manager.n_ranks, np.int64)
    hops = Hops(manager)
    known: dict[bytes, Int64Array] = {}
    result = np.empty((system.n_states, system.n_r), np.int64)
    for state in range(system.n_states):
        ranks = _distinct(g_space[state])
        most = _limit(held[ranks], system.n_r)
        ranks = ranks[held[ranks] < most]
        key = ranks.tobytes()
        if key not in known:
            known[key] = _chain(hops, ranks)
        chain = known[key]
        result[state] = np.repeat(chain, most - held[chain])[: system.n_r]
        held += np.bincount(result[state], minlength=len(held))
    return result


def _chain(hops: Hops, ranks: Int64Array) -> Int64Array:
    """Return a list in the order in which its processors come first, each leaving when it has been."""
    order = np.empty_like(ranks)
    for place in range(len(ranks)):
        order[place] = ranks[0]
        ranks = ranks[1:][np.argsort(hops.from_one(ranks[0], ranks[1:]), kind="stable")]
    return order


def _limit(held: Int64Array, n_objects: int) -> int:
    """Return the smallest limit on each processor's objects that leaves room for so many more."""
    ordered = np.sort(held)
    # With the first k filled to one level, these hold all there is room for.
    levels = -(-(np.cumsum(ordered) + n_objects) // np.arange(1, len(ordered) + 1))
    return int(levels.min())


def map_pair_calculators(
    manager: TopologyManager, system: System, prisms: Prisms, g_space: Int64Array
) -> Int64Array:
    """Return the map of PairCalculators: in the prism of their plane, around the centroid of their states.

    The centroid is where hops to all processors of both blocks of states are fewest. Objects of a plane are
    dealt evenly to its processors, so that the sum of these hops is the least.
    """
    from scipy.optimize import linear_sum_assignment

    pairs = block_pairs(system)
    result = np.empty((len(pairs), system.n_g), np.int64)
    hops = Hops(manager)
    for plane, prism in enumerate(prisms.of_plane):
        ranks = prisms.processors[prism]
        sums = hops.sums(ranks, g_space[:, plane].reshape(system.n_blocks, -1))
        away = sums[pairs[:, 0]] + sums[pairs[:, 1]]
        most = -(-len(pairs) // len(ranks))
        _, chosen = linear_sum_assignment(np.tile(away, most))
        result[:, plane] = ranks[chosen % len(ranks)]
    return result


def map_densities(
    manager: TopologyManager, system: System, real_space: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return the maps of RhoR and RhoG: around the centroid of each plane of RealSpace, RhoG beside RhoR.

    No processor has two of RhoR, or of RhoR and RhoG, as long as there are enough.
    """
    hops = Hops(manager)
    sums = hops.sums(np.arange(manager.n_ranks), real_space.T)
    rho_r = np.empty((system.n_r, system.n_rho), np.int64)
    used = np.zeros(manager.n_ranks, np.int64)
    for plane in range(system.n_r):
        order = np.lexsort((sums[plane], used))[: system.n_rho]
        rho_r[plane] = np.resize(order, system.n_rho)
        used[order] += 1
    rho_g = np.empty(system.n_r, np.int64)
    near = hops.sums(np.arange(manager.n_ranks), rho_r)
    for plane in range(system.n_r):
        rho_g[plane] = np.lexsort((near[plane], used))[0]
        used[rho_g[plane]] += 1
    return rho_r, rho_g


def map_real_particle(
    manager: TopologyManager, system: System, g_space: Int64Array, real_space: Int64Array
) -> Int64Array:
    """Return the map of RealParticlePlane: as Algorithm 7.1, from the RealSpace object of each plane."""
    held = np.zeros(manager.n_ranks, np.int64)
    hops = Hops(manager)
    result = np.empty((system.n_states, system.n_r), np.int64)
    for state in range(system.n_states):
        ranks = _distinct(g_space[state])
        starts, first = np.unique(real_space[state], return_inverse=True)
        away = hops.between(starts, ranks).astype(float)
        room = _limit(held[ranks], system.n_r) - held[ranks]
        away[:, room <= 0] = np.inf
        for plane in range(system.n_r):
            chosen = away[first[plane]].argmin()
            result[state, plane] = ranks[chosen]
            room[chosen] -= 1
            if not room[chosen]:
                away[:, chosen] = np.inf
        held += np.bincount(result[state], minlength=len(held))
    return result


def _distinct(ranks: Int64Array) -> Int64Array:
    """Return distinct ranks in the order in which they come first."""
    found, first = np.unique(ranks, return_index=True)
    return found[np.argsort(first)]
