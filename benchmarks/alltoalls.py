"""All-to-alls packet by packet: pF3D's placements, shapes of communicators, partitions of Blue Gene/P and /Q.

    python benchmarks/alltoalls.py [pf3d] [shapes] [partitions]

prints the tables of docs/petacomm/partitions.md; no MPI. The plots of LLNL-POST-563791 are pictures alone.
"""

import numpy as np
from tables import print_tables, row

from petacomm.mapping import CommunicationGraph, Placement
from petacomm.mapping.communicator_shapes import alltoall_links_per_node
from petacomm.mapping.graph_sources import subgrid_alltoall_graph
from petacomm.mapping.packet_time import simulate_placement
from petacomm.mapping.partition import box
from petacomm.network import PacketSimulator, make_hardware
from petacomm.topology import Torus, load_machine

MESSAGE = 4096
BLUE_GENE_P, BLUE_GENE_Q = load_machine("bluegene-p"), load_machine("bluegene-q")


def node_rate(graph, placement, torus, machine):
    """MB/s that a node which takes part sends to others, until the last packet has come."""
    traffic = graph.traffic(placement.nodes, torus.n_nodes)
    senders = len(np.unique(traffic.source))
    seconds = simulate_placement(graph, placement, torus, machine).seconds
    return np.asarray(traffic.n_bytes).sum() / senders / seconds / 1e6


def tilted(torus, axes):
    """The poster's placement of planes on tiles, tilted along Z with these axes."""
    planes = box([16, 8, 16])
    planes.tile([1, 8, 16])
    cores = box([8, 8, 32])
    cores.tile([8, 8, 2])
    cores.map(planes)
    for axis in axes:
        cores.tilt(2, axis, 1)
    return cores.placement(torus)


def nodes_first(torus, cores):
    """IBM's default (XYZT): x fastest, and all nodes have a rank before one has two."""
    node = np.arange(torus.n_nodes * cores) % torus.n_nodes
    x, y, z = node % torus.shape[0], node // torus.shape[0] % torus.shape[1], node // np.prod(torus.shape[:2])
    return Placement.from_nodes(torus.node_at(np.stack([x, y, z], -1)), torus, cores)


def part_of(graph, ranks):
    """The messages of a graph among some ranks."""
    kept = np.isin(graph.sources, ranks) & np.isin(graph.targets, ranks)
    ends = graph.sources[kept], graph.targets[kept]
    return CommunicationGraph.from_edges(graph.n_ranks, *ends, graph.n_bytes[kept])


def pf3d():
    """Print rates of all-to-alls along the lines of planes of 8 x 16 ranks, on 8 x 8 x 8 nodes of 4 cores."""
    torus, shape = Torus((8, 8, 8)), (16, 8, 16)
    placements = {
        "nodes first (XYZT)": nodes_first(torus, 4),
        "nodes filled (TXYZ)": Placement.identity(torus, 4),
        "planes on tiles": tilted(torus, []),
        "tilted once": tilted(torus, [0]),
        "tilted twice": tilted(torus, [0, 1]),
    }
    ranks = np.arange(np.prod(shape)).reshape(shape)
    row("placement", *(f"{n} ranks: {what}" for n in (8, 16) for what in ("a line", "a plane", "all")))
    row(*["---"] * 7)
    for name, placement in placements.items():
        cells = []
        for dimension, line in ((1, ranks[0, :, 0]), (2, ranks[0, 0])):
            graph = subgrid_alltoall_graph(shape, [dimension], MESSAGE)
            parts = (part_of(graph, line), part_of(graph, ranks[0]), graph)
            cells += [f"{node_rate(part, placement, torus, BLUE_GENE_P):.0f}" for part in parts]
        row(name, *cells)


def shapes():
    """Print rates of an all-to-all of 8 and of 64 nodes, alone, by their shape, on both machines."""
    row("machine", "nodes", "shape", "links a node, at most", "MB/s a node", "of the first")
    row(*["---"] * 6)
    i = np.arange(8)
    x, y = np.indices((8, 8)).reshape(2, -1)
    cube = np.indices((2, 2, 2)).reshape(3, -1).T
    three = {
        "line (x, 0, 0)": np.stack([i, 0 * i, 0 * i], -1),
        "tilted (x, 0, x)": np.stack([i, 0 * i, i], -1),
        "diagonal (x, x, x)": np.stack([i, i, i], -1),
        "cube 2x2x2": cube,
        "plane 8x8": np.stack([x, y, 0 * x], -1),
        "tilted (x, y, x + y)": np.stack([x, y, x + y], -1),
        "cube 4x4x4": np.indices((4, 4, 4)).reshape(3, -1).T,
    }
    four, pairs = np.arange(4), np.indices((4, 4)).reshape(2, -1)
    five = {
        "line of 4": np.stack([four, 0 * four, 0 * four, 0 * four, 0 * four], -1),
        "diagonal of 4": np.stack([four, four, four, four, 0 * four], -1),
        "square 2x2": np.pad(np.indices((2, 2)).reshape(2, -1).T, ((0, 0), (0, 3))),
        "plane 4x4": np.pad(pairs.T, ((0, 0), (0, 3))),
        "tilted plane": np.stack([*pairs, pairs.sum(0) % 4, (pairs[0] - pairs[1]) % 4, 0 * pairs[0]], -1),
        "2x2x2x2": np.pad(np.indices((2, 2, 2, 2)).reshape(4, -1).T, ((0, 0), (0, 1))),
    }
    for machine, torus, given in (
        (BLUE_GENE_P, Torus((8, 8, 8)), three), (BLUE_GENE_Q, Torus((4, 4, 4, 4, 2)), five),
    ):  # fmt: skip
        first: dict[int, float] = {}
        for name, places in given.items():
            nodes = torus.node_at(places % torus.shape)
            source, target = np.repeat(nodes, len(nodes)), np.tile(nodes, len(nodes))
            graph = CommunicationGraph.from_edges(torus.n_nodes, source, target, 16 * MESSAGE)
            rate = node_rate(graph, Placement.identity(torus), torus, machine)
            bound = alltoall_links_per_node(torus, [nodes], "all-orders")
            first.setdefault(len(nodes), rate)
            row(
                machine.name,
                len(nodes),
                name,
                f"{bound:.2f}",
                f"{rate:.0f}",
                f"{rate / first[len(nodes)]:.2f}",
            )


def partitions():
    """Print the part of the peak that all-to-alls reach on partitions as in Almasi et al. 2005, Table 1."""
    row("nodes", "Blue Gene/P", "of the peak", "Blue Gene/Q", "of the peak")
    row(*["---"] * 5)
    for p, q in (
        ((4, 4, 2), (2, 2, 2, 2, 2)), ((8, 4, 2), (4, 2, 2, 2, 2)), ((8, 4, 4), (4, 4, 2, 2, 2)),
        ((8, 8, 4), (4, 4, 4, 2, 2)), ((8, 8, 8), (4, 4, 4, 4, 2)),
    ):  # fmt: skip
        cells = []
        for machine, shape in ((BLUE_GENE_P, p), (BLUE_GENE_Q, q)):
            # Below a midplane partitions are meshes, but for the dimension of two of Blue Gene/Q.
            midplane = np.prod(shape) >= 512
            torus = Torus(shape, [midplane or (len(shape) == 5 and d == 4) for d in range(len(shape))])
            hardware = make_hardware(machine)
            run = PacketSimulator(torus, hardware, "throttled").simulate_all_to_all(hardware.payload * 4)
            n = torus.n_nodes
            peak = alltoall_links_per_node(torus, [np.arange(n)], "all-orders") * LINKS[machine.name]
            rate = (n - 1) * hardware.payload * 4 / run.seconds
            cells += ["x".join(map(str, shape)) + (" (T)" if midplane else ""), f"{rate / peak:.0%}"]
        row(n, *cells)


# Payload of a link in bytes per second, as in the machines' files.
LINKS = {"bluegene-p": 374e6, "bluegene-q": 1.8e9}
PARTS = {"pf3d": pf3d, "shapes": shapes, "partitions": partitions}


if __name__ == "__main__":
    print_tables(PARTS)
