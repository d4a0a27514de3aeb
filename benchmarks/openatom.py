"""OpenAtom's maps at the sizes of Bhatele 2010: time to make them, hop-bytes beside the default maps.

    python benchmarks/openatom.py

prints the tables of docs/petacomm/partitions.md; half a minute on one core. Printed times are the source's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from petacomm.mapping.openatom import (
    WATER_256,
    cut_prisms,
    default_maps,
    map_pair_calculators,
    map_real_particle,
    map_real_space,
    step_hop_bytes,
    topology_maps,
)
from petacomm.mapping.openatom.maps import long_axis, map_g_space
from petacomm.papers.bhatele2010.runs import PublishedRun, published_runs

MAPS = (default_maps, topology_maps)
# Table 7.1: seconds on Blue Gene/P for RealSpace and RealParticlePlane.
PRINTED = {1024: (0.33, 1.48), 2048: (0.52, 3.19), 4096: (1.00, 4.90), 8192: (3.07, 17.89)}


def least(function: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """Return the least of three times, in seconds, and what was made."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        made = function(*given)
        times.append(time.perf_counter() - begin)
    return min(times), made


def mapping_times(run: PublishedRun) -> list[float]:
    """Return the seconds for RealSpace, RealParticlePlane and PairCalculators."""
    manager, system = run.allocation(), run.system
    prisms = cut_prisms(manager, system.n_g, long_axis(manager, system))
    g_space = map_g_space(prisms, system)
    real, real_space = least(map_real_space, manager, system, g_space)
    particle, _ = least(map_real_particle, manager, system, g_space, real_space)
    pairs, _ = least(map_pair_calculators, manager, system, prisms, g_space)
    return [real, particle, pairs]


def saved(run: PublishedRun) -> float:
    """Return by how much hop-bytes are below those of the default maps."""
    manager, system = run.allocation(), run.system
    totals = [sum(step_hop_bytes(manager, make(manager, system), system).values()) for make in MAPS]
    return 1 - totals[1] / totals[0]


def row(*cells: Any) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(map(str, cells)) + " |")


def main() -> None:
    """Print both tables."""
    row("cores", "RealSpace", "printed", "RealParticlePlane", "printed", "PairCalculators")
    row(*["---"] * 6)
    for run in published_runs():
        wanted = run.machine == ("Blue Gene/L, CO" if run.n_cores == 16384 else "Blue Gene/P, VN")
        if run.system.name == WATER_256.name and wanted:
            real, particle, pairs = mapping_times(run)
            printed = PRINTED.get(run.n_cores, ("-", "-"))
            row(run.n_cores, f"{real:.2f}", printed[0], f"{particle:.2f}", printed[1], f"{pairs:.2f}")
    print()
    row("machine", "system", "cores", "nodes", "hop-bytes saved", "printed time saved")
    row(*["---"] * 6)
    for run in published_runs():
        nodes = "x".join(map(str, run.allocation().shape))
        printed_saved = 1 - run.topology / run.default
        row(run.machine, run.system.name, run.n_cores, nodes, f"{saved(run):.0%}", f"{printed_saved:.0%}")


if __name__ == "__main__":
    main()
