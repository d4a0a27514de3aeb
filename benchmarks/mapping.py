"""Placements of nlpkkt240 and of halos beside Scotch, and how long mapping takes.

    python benchmarks/mapping.py                    # everything, some two minutes
    python benchmarks/mapping.py --only quality     # or halos, speed, command

Halos are of periodic grids of ranks, as a recording has them, without the grid; beside the defaults of
launchers: block fills one node after the other, cyclic deals ranks to nodes in turn. Elsewhere the graph is
that of products with a vector, rows in equal runs. Loads are bytes of the busiest link; "random" is the best
of ten. Scotch is used where libscotch is installed (Debian: apt install libscotch-dev).
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from petacomm.base.host import cpu_model
from petacomm.mapping import STRATEGIES, CommunicationGraph, Placement, Resources, nlpkkt_graph
from petacomm.mapping.comparison import IDENTITY, MappingTask, map_ranks
from petacomm.mapping.graph_sources import grid_graph
from petacomm.network.routing import job_capacities
from petacomm.topology import Allocation, FatTree, Network, Torus, dragonfly, load_machine, percs

TORI = {256: (8, 8, 4), 512: (8, 8, 8), 1024: (8, 8, 16)}
HALO_NETWORKS: dict[str, Network] = {
    "torus": Torus((4, 4, 4)),
    "fat tree": FatTree((8, 8), (1, 4)),  # half of the bandwidth between switches
    "dragonfly": dragonfly(8, 4, 2),
}
SLINGSHOT = load_machine("frontier")
NAMES = ("greedy", "recursive", "hierarchical", "scotch")


def network(kind: str, n_nodes: int) -> Network:
    """Return a torus, or a PERCS machine of as many nodes."""
    return Torus(TORI[n_nodes]) if kind == "torus" else percs(n_nodes // 32)


def quality() -> None:
    """Print the busiest link of each strategy, as it is and refined."""
    usable = [name for name in NAMES if not STRATEGIES[name].missing()]
    print(f"{'busiest link, MB':24} {'identity':>9} {'random':>9}", end="")
    print("".join(f"{name:>14} {'refined':>9}" for name in usable) + "   best against random")
    for kind in ("torus", "PERCS"):
        for n_nodes in TORI:
            for width in (1, 16):
                row(kind, n_nodes, width, usable)


def halos() -> None:
    """Print how far map takes the busiest link and hop-bytes from the defaults of launchers, and Scotch."""
    print(
        "halos: % of the busiest link's time, % of hop-bytes".ljust(52),
        "against block  against cyclic  Scotch:block",
    )
    for name, nodes in (("64 nodes", None), ("32 of 64 nodes, drawn", 32)):
        for kind, full in HALO_NETWORKS.items():
            for grid in ((32, 32), (8, 8, 16)):
                drawn = np.sort(np.random.default_rng(1).permutation(64)[:nodes])
                where: Network = full if nodes is None else Allocation(full, drawn)
                cells = halo_row(kind, where, grid)
                title = f"{kind}, {name}, {'x'.join(map(str, grid))} ranks"
                print(title.ljust(52), "  ".join(f"{a:+5.0f} {b:+5.0f}  " for a, b in cells), flush=True)


def halo_row(kind: str, where: Network, grid: tuple[int, ...]) -> list[tuple[float, float]]:
    """Return percents of busiest link and hop-bytes: map against block and cyclic, Scotch against block."""
    n_ranks = math.prod(grid)
    width = n_ranks // where.n_nodes
    capacity = job_capacities(SLINGSHOT, where) if kind == "dragonfly" else None
    routing = "ugal" if kind == "dragonfly" else "minimal"
    graph = replace(grid_graph(grid, True, 1e5), grid=None)
    task = MappingTask(graph, Resources(where, width), capacity, routing=routing)
    cyclic = Placement.from_nodes(np.arange(n_ranks) % where.n_nodes, where, width)
    block, chosen = task.place(IDENTITY), map_ranks(task).chosen
    pairs = [(chosen, block), (chosen, task.measure("cyclic", cyclic, 0.0))]
    if not STRATEGIES["scotch"].missing():
        pairs.append((task.place("scotch"), block))
    return [
        (100 * (a.load / b.load - 1), 100 * (a.metrics.hop_bytes / b.metrics.hop_bytes - 1)) for a, b in pairs
    ]


def row(kind: str, n_nodes: int, width: int, names: list[str]) -> None:
    """Print one line of the table."""
    task = MappingTask(nlpkkt_graph(240, n_nodes * width), Resources(network(kind, n_nodes), width))
    identity, random = task.baselines()
    print(f"{kind}, {n_nodes} nodes x {width:2}".ljust(24), end=" ")
    print(f"{identity.load / 1e6:9.3f} {random.load / 1e6:9.3f}", end="")
    best = random.load
    for name in names:
        plain = task.place(name)
        refined = task.refine(plain)
        best = min(best, refined.load if name != "scotch" else best)
        print(f"{plain.load / 1e6:14.3f} {refined.load / 1e6:9.3f}", end="")
    print(f"   {100 * (best / random.load - 1):+.0f} %", flush=True)


def speed() -> None:
    """Print the seconds of placing and refining, graph ready."""
    print(f"{'seconds':42} {'greedy':>9} {'+ refined':>9} {'recursive':>9} {'+ refined':>9}")
    cases: list[tuple[str, Network, int]] = [
        ("1,024 ranks on a torus of 8x8x16", Torus((8, 8, 16)), 1),
        ("1,024 ranks on PERCS", percs(32), 1),
        ("16,384 ranks on 8x8x16, 16 a node", Torus((8, 8, 16)), 16),
        ("65,536 ranks on 16x16x16, 16 a node", Torus((16, 16, 16)), 16),
        ("65,536 ranks on 32x32x64, 1 a node", Torus((32, 32, 64)), 1),
    ]
    for title, where, width in cases:
        graph = nlpkkt_graph(240, where.n_nodes * width)
        _ = graph.partner_lists
        print(f"{title:42}", end="", flush=True)
        for name in ("greedy", "recursive"):
            seconds = timed(graph, Resources(where, width), name)
            print("".join(f" {value:9.3f}" for value in seconds), end="", flush=True)
        print()


def timed(graph: CommunicationGraph, resources: Resources, name: str) -> tuple[float, float]:
    """Return the seconds of a strategy, the least of three turns, and with refinement."""
    task = MappingTask(graph, resources)
    placed = min((task.place(name) for _ in range(3)), key=lambda found: found.seconds)
    return placed.seconds, task.refine(placed).seconds


def command() -> None:
    """Print what `petacomm map` takes for 16,384 ranks, from a file of edges to a launcher's file."""
    graph = nlpkkt_graph(240, 16384)
    with tempfile.TemporaryDirectory() as folder:
        edges = zip(graph.sources.tolist(), graph.targets.tolist(), graph.n_bytes.tolist(), strict=True)
        lines = [f"{a},{b},{size:.0f}" for a, b, size in edges]
        Path(folder, "halo.csv").write_text("\n".join(lines) + "\n")
        Path(folder, "job.toml").write_text(
            'ranks = 16384\nranks_per_node = 16\n[graph]\nfile = "halo.csv"\n'
            '[machine]\nname = "jaguar"\nshape = "8x8x16"\n[out]\nformat = "bluegene"\n'
        )
        begin = time.perf_counter()
        words = ["map", "job.toml", "--out", "map.txt"]
        subprocess.run([sys.executable, "-m", "petamap.cli.main", *words], cwd=folder, check=True)
        seconds = time.perf_counter() - begin
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    print(f"\n16,384 ranks, file to file: {seconds:.1f} s, {peak:,.0f} MB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["quality", "halos", "speed", "command"])
    only = parser.parse_args().only
    print(f"{cpu_model()}\n")
    for part in (quality, halos, speed, command):
        if only in (None, part.__name__):
            part()
            print()


if __name__ == "__main__":
    main()
