"""MILC's conjugate gradients as models predict them: weak scaling, and what packing takes on machines.

    python benchmarks/milc.py [scaling] [packing]

prints the tables of docs/petacomm/redistribution.md; no MPI. Hoefler's talk (Optimizing Communication on Blue
Waters, 2011) has the curves as pictures alone: what stands beside ours is what their axes and captions say.
"""

import math

import numpy as np
from tables import print_tables, row

from petacomm.mapping import Placement
from petacomm.mapping.cliques import place_blocks
from petacomm.mapping.graph_sources import grid_graph
from petacomm.mapping.job_time import JobPhase, predict_phases
from petacomm.redistribution.bench import even_grid
from petacomm.redistribution.exchange_cost import ExchangeCosts, ExchangeWork
from petacomm.topology import FatTree, Machine, Torus, load_machine

# An iteration as MILC counts it for improved staggered fermions: operations a site, and two operators, each
# of which sends vectors of one parity to the next site and to the third in eight directions.
OPERATIONS = 1187
VECTOR = 48
OPERATORS, DEPTH, OFFSETS = 2, 1 + 3, 2
# Odin's numbers are those of its time: single data rate InfiniBand, two Opterons of two cores.
ODIN = Machine(
    "odin", "Odin: Opteron 1354, SDR InfiniBand, Indiana", 128, 2, 2, latency=5e-6, bandwidth=0.9e9,
    memory_bandwidth=12.8e9, network={"link_bandwidth": "0.9 GB/s"},
)  # fmt: skip
# Ranks of a node, MFlop/s a rank where the curve begins (near the top of its axis), and processes.
RUNS = {
    "jaguar": (load_machine("jaguar"), 8, 850, (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)),
    "odin": (ODIN, 4, 550, (8, 16, 32, 64, 128, 256, 512)),
}


def packed_work(side):
    """Copies of a rank with side^4 sites in an iteration: each site of a face is found and copied."""
    sites = OPERATORS * 8 * DEPTH * side**3 // 2
    return ExchangeWork(copied_blocks=sites, copied_bytes=sites * VECTOR)


def network_of(machine, n_nodes):
    """A torus of about equal sides, or one switch."""
    if machine.network.get("kind") == "torus":
        return Torus(even_grid(n_nodes, 3))
    return FatTree([n_nodes], [1])


def communication(machine, n_ranks, per_node, side, blocks):
    """Seconds of the halos and of the two all-reduces of an iteration."""
    grid = even_grid(n_ranks, 4)
    network = network_of(machine, n_ranks // per_node)
    nodes = place_blocks(Torus(grid), [per_node]).nodes if blocks else np.arange(n_ranks) // per_node
    graph = grid_graph(grid, n_bytes=OPERATORS * DEPTH * VECTOR * side**3 // 2)
    apart = nodes[graph.sources] != nodes[graph.targets]
    messages = OPERATORS * OFFSETS * np.bincount(graph.sources[apart], minlength=n_ranks).astype(float)
    phase = JobPhase("halos", graph, np.zeros(n_ranks), messages)
    (halos,) = predict_phases([phase], Placement.from_nodes(nodes, network, per_node), network, machine)
    steps = math.log2(per_node) * machine.local_latency + math.log2(n_ranks / per_node) * machine.latency
    return halos.communication + 2 * steps


def scaling():
    """Print MFlop/s of a process with 4^4 sites, with and without packing."""
    side = 4
    row(
        "machine",
        "processes",
        "packed",
        "datatypes",
        "gain",
        "packed, blocks on nodes",
        "halos and sums, us",
    )
    row(*["---"] * 7)
    for machine, per_node, begins, sizes in RUNS.values():
        costs = ExchangeCosts.from_machine(machine)
        packing = costs.predict(packed_work(side))
        typed = packing / 2
        operations = OPERATIONS * side**4
        alone = (
            operations / (begins * 1e6) - packing - communication(machine, sizes[0], per_node, side, False)
        )
        for n_ranks in sizes:
            sent = [communication(machine, n_ranks, per_node, side, blocks) for blocks in (False, True)]
            times = [alone + packing + sent[0], alone + typed + sent[0], alone + packing + sent[1]]
            packed, types, blocked = (operations / time / 1e6 for time in times)
            name = f"{machine.name} (calibrated)" if n_ranks == sizes[0] else machine.name
            cells = (f"{packed:.0f}", f"{types:.0f}", f"{types / packed - 1:.1%}", f"{blocked:.0f}")
            row(name, n_ranks, *cells, f"{1e6 * sent[0]:.0f}")


def packing():
    """Print the share of packing in an iteration, by sites of a process."""
    machines = [load_machine(name) for name in ("jaguar", "percs", "bluegene-p", "frontier")]
    row("sites a process", *(machine.name for machine in machines))
    row("---", *["---"] * len(machines))
    for side in (4, 6, 8, 10):
        shares = []
        for machine in machines:
            computing = OPERATIONS * side**4 / RATES[machine.name]
            copies = ExchangeCosts.from_machine(machine).predict(packed_work(side))
            shares.append(f"{copies / (computing + copies):.1%}")
        row(f"{side}^4 = {side**4}", *shares)


# Operations a second of a core, a tenth of its peak: assumed.
RATES = {"jaguar": 1.04e9, "percs": 3.1e9, "bluegene-p": 0.34e9, "frontier": 3.2e9}
PARTS = {"scaling": scaling, "packing": packing}


if __name__ == "__main__":
    print_tables(PARTS)
