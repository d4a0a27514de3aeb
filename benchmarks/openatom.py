"""OpenAtom's maps at the sizes of Bhatele 2010: time to make them, hop-bytes, and times of a step.

    python benchmarks/openatom.py [maps] [hops] [steps] [readings] [links]

prints the tables of docs/petacomm/partitions.md; ten minutes on one core. Printed times are the source's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tables import print_tables, row

from petacomm.mapping import Placement
from petacomm.mapping.job_time import predict_phases
from petacomm.mapping.openatom import (
    PHASES,
    WATER_256,
    ObjectMaps,
    cut_prisms,
    default_maps,
    map_pair_calculators,
    map_real_particle,
    map_real_space,
    step_hop_bytes,
    step_phases,
    topology_maps,
)
from petacomm.mapping.openatom.maps import long_axis, map_g_space
from petacomm.papers.bhatele2010.runs import PublishedRun, published_runs
from petacomm.papers.bhatele2010.steps import PredictedStep, predict_steps, step_seconds
from petacomm.topology import Machine, TopologyManager, load_machine

MAPS = (default_maps, topology_maps)
# Table 7.1: seconds on Blue Gene/P for RealSpace and RealParticlePlane.
PRINTED = {1024: (0.33, 1.48), 2048: (0.52, 3.19), 4096: (1.00, 4.90), 8192: (3.07, 17.89)}


def least(function: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """Return the least of three processor times, in seconds, and what was made."""
    times = []
    for _ in range(3):
        begin = time.process_time()
        made = function(*given)
        times.append(time.process_time() - begin)
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


def making() -> None:
    """Print the time that it takes to make maps."""
    row("cores", "RealSpace", "printed", "RealParticlePlane", "printed", "PairCalculators")
    row(*["---"] * 6)
    for run in published_runs():
        wanted = run.machine == ("Blue Gene/L, CO" if run.n_cores == 16384 else "Blue Gene/P, VN")
        if run.system.name == WATER_256.name and wanted:
            real, particle, pairs = mapping_times(run)
            printed = PRINTED.get(run.n_cores, ("-", "-"))
            row(run.n_cores, f"{real:.2g}", printed[0], f"{particle:.2g}", printed[1], f"{pairs:.2g}")


def hops() -> None:
    """Print the hop-bytes that the maps save."""
    row("machine", "system", "cores", "nodes", "hop-bytes saved", "printed time saved")
    row(*["---"] * 6)
    for run in published_runs():
        nodes = "x".join(map(str, run.allocation().shape))
        printed_saved = 1 - run.topology / run.default
        row(run.machine, run.system.name, run.n_cores, nodes, f"{saved(run):.0%}", f"{printed_saved:.0%}")


def steps() -> None:
    """Print the steps predicted for Tables 7.2 to 7.4, and by phase for the largest run on Blue Gene/P."""
    predicted, rates = predict_steps(list(published_runs()))
    print("; ".join(f"{machine}: {rate / 1e9:.2f} GFlop/s a core" for machine, rate in rates.items()), "\n")
    row(
        "machine",
        "system",
        "cores",
        "default",
        "printed",
        "topology",
        "printed",
        "idle",
        "of the printed times",
    )
    row(*["---"] * 9)
    for step in predicted:
        run, seconds = step.run, step.seconds
        mark = " (calibrated)" if step.calibrated else ""
        idle, published = (
            " / ".join(f"{part:.0%}" for part in parts) for parts in (step.idle, step.idle_published)
        )
        ours = [f"{value:.3g}" for value in seconds]
        row(
            run.machine,
            run.system.name,
            run.n_cores,
            ours[0],
            run.default,
            ours[1] + mark,
            run.topology,
            idle,
            published,
        )
    print()
    largest = next(s for s in predicted if (s.run.machine, s.run.n_cores) == ("Blue Gene/P, VN", 8192))
    row("phase", "", "computation", "messages", "links, default", "links, topology")
    row(*["---"] * 6)
    for default, topology in zip(*largest.phases, strict=True):
        cells = (topology.work, topology.sending, default.links, topology.links)
        row(topology.name, PHASES[topology.name], *(f"{1e3 * value:.0f}" for value in cells))
    print()
    summary(predicted)


def summary(predicted: list[PredictedStep]) -> None:
    """Print how predicted times compare with printed ones, by machine and system, without calibrated ones."""
    row("machine", "system", "default / printed", "topology / printed", "saved, predicted", "printed")
    row(*["---"] * 6)
    groups: dict[tuple[str, str], list[PredictedStep]] = {}
    for step in predicted:
        groups.setdefault((step.run.machine, step.run.system.name), []).append(step)
    for (machine, name), members in groups.items():
        ratios = [[s.seconds[0] / s.run.default for s in members]]
        ratios.append([s.seconds[1] / s.run.topology for s in members if not s.calibrated])
        spans = [f"{min(part):.2f} to {max(part):.2f}" for part in ratios]
        saved = (
            [1 - s.seconds[1] / s.seconds[0] for s in members],
            [1 - s.run.topology / s.run.default for s in members],
        )
        row(machine, name, *spans, *(f"{min(part):.0%} to {max(part):.0%}" for part in saved))


def readings() -> None:
    """Print what changes with what is not published: blocks of states, and which default maps there were."""
    row(
        "machine",
        "cores",
        "blocks",
        "default / printed",
        "states first",
        "nodes filled",
        "topology / printed",
    )
    row(*["---"] * 7)
    runs = [run for run in published_runs() if run.system.name == WATER_256.name and run.n_cores <= 4096]
    for machine in ("Blue Gene/L, CO", "Blue Gene/P, VN"):
        for factor in (1, 2, 4):
            predicted, rates = predict_steps([refined(run, factor) for run in runs if run.machine == machine])
            for step in predicted:
                run, seconds = step.run, step.seconds
                others = [other(run, rates[machine]) for other in (states_first, nodes_filled)]
                cells = [f"{each / run.default:.2f}" for each in (seconds[0], *others)]
                mark = " (calibrated)" if step.calibrated else ""
                row(
                    machine, run.n_cores, run.system.n_blocks, *cells,
                    f"{seconds[1] / run.topology:.2f}{mark}",
                )  # fmt: skip


def refined(run: PublishedRun, factor: int) -> PublishedRun:
    """Return a run with so many times the blocks of states."""
    block = run.system.block // factor
    return replace(run, system=replace(run.system, block=block, tile=min(block, run.system.tile)))


def states_first(run: PublishedRun, rate: float) -> float:
    """Return the seconds of a step with default maps that keep the planes of a state together."""
    manager, system = run.allocation(), run.system
    maps = default_maps(manager, system)
    turned = {
        name: np.arange(held.size).reshape(held.shape) * manager.n_ranks // held.size
        for name, held in (
            ("g_space", maps.g_space),
            ("real_space", maps.real_space),
            ("real_particle", maps.real_particle),
        )
    }
    return seconds_of(run, manager, replace(maps, **turned), rate)


def nodes_filled(run: PublishedRun, rate: float) -> float:
    """Return the seconds of a step with default maps where each node is filled before the next."""
    placed = run.allocation()
    manager = TopologyManager.from_network(placed.network, placed.ranks_per_node)
    return seconds_of(run, manager, default_maps(manager, run.system), rate)


def links() -> None:
    """Print what would be saved on the XT3 if its links were no quicker than the ports of its nodes."""
    row("machine", "cores", "blocks", "saved, links of 3.8 GB/s", "of 1.1 GB/s", "printed")
    row(*["---"] * 6)
    runs = [run for run in published_runs() if run.system.name == WATER_256.name and "XT3" in run.machine]
    _, rates = predict_steps(runs)
    machine = load_machine("xt3")
    slow = replace(machine, network={**machine.network, "link_bandwidth": "1.1 GB/s"})
    for run in (refined(run, factor) for run in runs[1::2] for factor in (1, 2, 4)):
        manager = run.allocation()
        made = [make(manager, run.system) for make in MAPS]
        cells = []
        for links_of in (machine, slow):
            default, topology = (
                seconds_of(run, manager, maps, rates[run.machine], links_of) for maps in made
            )
            cells.append(f"{1 - topology / default:.0%}")
        row(run.machine, run.n_cores, run.system.n_blocks, *cells, f"{1 - run.topology / run.default:.0%}")


def seconds_of(
    run: PublishedRun,
    manager: TopologyManager,
    maps: ObjectMaps,
    rate: float,
    machine: Machine | None = None,
) -> float:
    """Return the seconds of a step with these maps."""
    machine = machine or load_machine(run.machine_file)
    phases = step_phases(manager, maps, run.system, rate)
    placement = Placement.from_nodes(manager.nodes, manager.network, manager.ranks_per_node)
    return step_seconds(predict_phases(phases, placement, manager.network, machine))


PARTS = {"maps": making, "hops": hops, "steps": steps, "readings": readings, "links": links}


if __name__ == "__main__":
    print_tables(PARTS)
