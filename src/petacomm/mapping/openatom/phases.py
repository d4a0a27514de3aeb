"""The ten phases of a step of OpenAtom: what they send, and what they compute.

Phases are numbered as in Bhatele 2010, Figure 7.1, and described in OpenAtom's own documentation
(OpenAtomFlow). Neither says sizes of messages or numbers of operations; here they follow from the arrays, for
equal shares of lines, plane waves and points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from petacomm.base.typing import FloatArray, Int64Array
from petacomm.mapping.graph import CommunicationGraph
from petacomm.mapping.job_time import JobPhase
from petacomm.mapping.openatom.exchanges import GroupExchange, TreeExchange, group_exchange, plane_trees
from petacomm.mapping.openatom.hops import HopTable
from petacomm.mapping.openatom.maps import ObjectMaps, block_pairs
from petacomm.mapping.openatom.system import MolecularSystem
from petacomm.network import Traffic
from petacomm.topology import TopologyManager

PHASES = {
    "I": "states to real space",
    "II": "sum of the density",
    "III": "density to reciprocal space",
    "IV": "Hartree, external and exchange-correlation energies",
    "V": "potential to the states",
    "VI": "forces to reciprocal space",
    "VII": "forces made tangential (Lambda)",
    "VIII": "overlaps of states (Psi), their inverse square root",
    "IX": "states made orthonormal",
    "X": "non-local energy",
}
_COMPLEX, _REAL = 16, 8  # bytes
# Transforms of the density in phase IV, beside that of phase III: three of its gradient, three back of the
# functional's derivative to it, one of what these make of the potential, one of the Hartree potential.
_TO_REAL, _TO_RECIPROCAL = 5, 3
# Operations a point of a gradient-corrected functional: assumed.
_FUNCTIONAL = 200
# Iterations for the inverse square root, of three products each: assumed, 10 are the most.
ITERATIONS = 4


def step_exchanges(
    manager: TopologyManager, maps: ObjectMaps, system: MolecularSystem
) -> dict[str, list[GroupExchange | TreeExchange]]:
    """Return the exchanges of a step, by phase."""
    states = np.arange(system.n_states)[:, None]
    line = system.n_lines / system.n_g * _COMPLEX
    up, down = plane_trees(HopTable(manager), maps.real_space, maps.rho_r)
    plane = float(system.n_r**2 * _REAL)
    particle = group_exchange(maps.g_space, states, maps.real_particle, states, line, line)
    return {
        "I": [group_exchange(maps.g_space, states, maps.real_space, states, line)],
        "II": [TreeExchange(up, down, plane)],
        "III": _density_transforms(maps, system, 0, 1),
        "IV": [*_density_transforms(maps, system, _TO_REAL, _TO_RECIPROCAL), *_hartree(maps, system)],
        "V": [TreeExchange(down, up, plane)],
        "VI": [group_exchange(maps.real_space, states, maps.g_space, states, line)],
        **_pair_exchanges(maps, system),
        "X": [particle] * system.n_channels,
    }


def _density_transforms(
    maps: ObjectMaps, system: MolecularSystem, to_real: int, to_reciprocal: int
) -> list[GroupExchange | TreeExchange]:
    """Return the exchanges of transforms: between RhoG and RhoR, and of parts of a plane of RhoR."""
    share = system.n_r * _REAL / system.n_rho
    part = (system.n_r / system.n_rho) ** 2 * _REAL * (to_real + to_reciprocal)
    planes = np.arange(system.n_r)[:, None]
    return [
        group_exchange(maps.rho_g, 0, maps.rho_r, 0, to_real * share, to_reciprocal * share),
        group_exchange(maps.rho_r, planes, maps.rho_r, planes, part),
    ]


def _hartree(maps: ObjectMaps, system: MolecularSystem) -> list[GroupExchange | TreeExchange]:
    """Return the exchanges of RhoG with RhoGHart, and of this with RhoRHart: two transforms for each type."""
    types = np.arange(system.n_types)
    planes = np.arange(system.n_r)
    # The sphere of the density has twice the radius of that of a state.
    waves = 8 * system.n_waves / system.n_r * _COMPLEX
    share = system.n_hart**2 * _REAL / (system.n_rho * system.n_r)
    return [
        group_exchange(maps.rho_g, planes, maps.rho_g_hart, planes, waves, waves),
        group_exchange(maps.rho_g_hart, types[:, None], maps.rho_r_hart, types[:, None, None], share, share),
    ]


def _pair_exchanges(
    maps: ObjectMaps, system: MolecularSystem
) -> dict[str, list[GroupExchange | TreeExchange]]:
    """Return the exchanges of PairCalculators with GSpace and Ortho, and those of CLA_Matrix.

    States go to the calculators of their row, forces to those of their column, which return them; overlaps
    need half of the pairs, and states go to all of their column, which return them.
    """
    wave = system.n_waves / system.n_g * _COMPLEX
    tile = float(system.tile**2 * _REAL)
    pairs = block_pairs(system)
    planes = np.arange(system.n_g)
    of_state = (np.arange(system.n_states) // system.block)[:, None] * system.n_g + planes
    row, column = (pairs[:, i, None] * system.n_g + planes for i in range(2))
    above = pairs[:, 0] < pairs[:, 1]
    half = pairs[:, 0] <= pairs[:, 1]
    calculators = maps.pair_calculators
    tile_block = np.arange(system.n_tiles) * system.tile // system.block
    tile_pair = tile_block[:, None] * system.n_blocks + tile_block
    pair = np.arange(len(pairs))[:, None]
    in_half = tile_block[:, None] <= tile_block
    multiply = 3.0 * ITERATIONS * tile
    tiles = np.arange(system.n_tiles)
    return {
        "VII": [
            group_exchange(maps.g_space, of_state, calculators, row, wave),
            group_exchange(maps.g_space, of_state, calculators, column, wave, wave),
            group_exchange(calculators, pair, maps.ortho, tile_pair, tile, tile),
        ],
        "VIII": [
            group_exchange(maps.g_space, of_state, calculators[above], row[above], wave),
            group_exchange(maps.g_space, of_state, calculators, column, wave),
            group_exchange(calculators[half], pair[half], maps.ortho[in_half], tile_pair[in_half], tile),
            group_exchange(maps.ortho, tiles[:, None], maps.ortho, tiles[:, None], multiply),
            group_exchange(maps.ortho, tiles, maps.ortho, tiles, multiply),
        ],
        "IX": [
            group_exchange(maps.ortho, tile_pair, calculators, pair, tile),
            group_exchange(calculators, column, maps.g_space, of_state, wave),
        ],
    }


def step_operations(maps: ObjectMaps, system: MolecularSystem, n_ranks: int) -> dict[str, FloatArray]:
    """Return the floating-point operations of each rank, float64 (n_ranks,), by phase."""
    transform = 2.5 * system.n_r**3 * math.log2(system.n_r**3)
    hart = 2 * 2.5 * system.n_hart**3 * math.log2(system.n_hart**3) / system.n_hart
    lines = system.n_lines / system.n_g * 5
    waves = system.n_waves / system.n_g
    pairs = block_pairs(system)
    half = pairs[:, 0] <= pairs[:, 1]
    overlap = 4 * system.block**2 * waves
    multiply = ITERATIONS * 3 * 2 * system.tile**2 * system.n_states
    states = [
        (maps.g_space, lines * system.n_r * math.log2(system.n_r)),
        (maps.real_space, _plane_operations(system.n_r)),
    ]
    particles = [
        (maps.g_space, lines * system.n_particle * math.log2(system.n_particle)),
        (maps.real_particle, _plane_operations(system.n_particle)),
    ]
    n_density = _TO_REAL + _TO_RECIPROCAL
    work: dict[str, Sequence[tuple[Int64Array, float]]] = {
        "I": states,
        "II": [(maps.real_space, 3.0 * system.n_r**2)],
        "III": _density_operations(maps, transform),
        "IV": [
            *_density_operations(maps, n_density * transform),
            (maps.rho_r, _FUNCTIONAL * system.n_r**3 / maps.rho_r.size),
            (maps.rho_r_hart, 2 / 3 * hart / system.n_rho),
            (maps.rho_g_hart, 1 / 3 * hart * system.n_hart / system.n_r),
        ],
        "V": [(maps.real_space, float(system.n_r**2))],
        "VI": states,
        "VII": [(maps.pair_calculators, 2 * overlap)],
        "VIII": [(maps.pair_calculators[half], overlap), (maps.ortho, float(multiply))],
        "IX": [(maps.pair_calculators, overlap)],
        "X": [(objects, 2 * system.n_channels * each) for objects, each in particles],
    }
    return {phase: _sum_by_rank(parts, n_ranks) for phase, parts in work.items()}


def _sum_by_rank(parts: Sequence[tuple[Int64Array, float]], n_ranks: int) -> FloatArray:
    """Return the sum over objects of what each takes, by their ranks."""
    total = np.zeros(n_ranks)
    for objects, each in parts:
        total += each * np.bincount(objects.ravel(), minlength=n_ranks)
    return total


def _plane_operations(size: int) -> float:
    """Return the operations of the transform of a plane of real numbers."""
    return 2.5 * size**2 * math.log2(size**2)


def _density_operations(maps: ObjectMaps, operations: float) -> Sequence[tuple[Int64Array, float]]:
    """Return the operations in transforms of the density, of which RhoR has two dimensions."""
    return [
        (maps.rho_r, 2 / 3 * operations / maps.rho_r.size),
        (maps.rho_g, operations / 3 / maps.rho_g.size),
    ]


def step_traffic(manager: TopologyManager, maps: ObjectMaps, system: MolecularSystem) -> dict[str, Traffic]:
    """Return the traffic of a step between ranks, by phase."""
    return {
        phase: _together([exchange.traffic(manager.n_ranks)[0] for exchange in exchanges])
        for phase, exchanges in step_exchanges(manager, maps, system).items()
    }


def _together(parts: Sequence[Traffic]) -> Traffic:
    columns = (
        [np.asarray(getattr(part, name)) for part in parts] for name in ("source", "destination", "n_bytes")
    )
    return Traffic(*map(np.concatenate, columns))


def step_hop_bytes(manager: TopologyManager, maps: ObjectMaps, system: MolecularSystem) -> dict[str, float]:
    """Return the hop-bytes of a step, by phase."""
    hops = HopTable(manager)
    return {
        phase: sum(exchange.hop_bytes(hops) for exchange in exchanges)
        for phase, exchanges in step_exchanges(manager, maps, system).items()
    }


def step_phases(
    manager: TopologyManager, maps: ObjectMaps, system: MolecularSystem, rate: float
) -> list[JobPhase]:
    """Return the phases of a step as those of a job; ranks do `rate` operations a second."""
    n = manager.n_ranks
    operations = step_operations(maps, system, n)
    phases = []
    for name, exchanges in step_exchanges(manager, maps, system).items():
        sent = [exchange.traffic(n) for exchange in exchanges]
        traffic = _together([part for part, _ in sent])
        graph = CommunicationGraph.from_edges(n, traffic.source, traffic.destination, traffic.n_bytes)
        messages = np.sum([count for _, count in sent], axis=0)
        phases.append(JobPhase(name, graph, operations[name] / rate, messages))
    return phases
