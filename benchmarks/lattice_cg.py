"""What the all-reduce of conjugate gradients on a lattice takes alone, and behind halos and stencil.

    python benchmarks/lattice_cg.py [measured] [simulated]

``measured`` starts itself under mpiexec on two ranks and prints milliseconds of the slowest one, the least of
several turns. ``simulated`` sends the packets of an iteration on 512 nodes of Blue Gene/P, a rank a node,
without arithmetic.
"""

import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from petacomm.base.exact import zero_limbs
from petacomm.collectives.persistent import PersistentCollective
from petacomm.mpi import world
from petacomm.mpi.autotuner import call_seconds, time_interleaved
from petacomm.network import PacketMessages, PacketSimulator, make_hardware
from petacomm.network.schedule_packets import packet_messages
from petacomm.redistribution import CG_VARIANTS, Lattice, StaggeredOperator, solve_cg
from petacomm.schedule import CollectiveCall, make_schedule
from petacomm.topology import Torus, load_machine

TURNS = 25
SITE = 48  # bytes of a vector
SUM = zero_limbs().nbytes


def links(lattice):
    """Random links, the same in each run."""
    rng = np.random.default_rng([1, lattice.rank])
    size = (4, lattice.n_sites, 3, 3)
    made = np.linalg.qr(rng.standard_normal(size) + 1j * rng.standard_normal(size))[0]
    return made / np.linalg.det(made)[..., None, None] ** (1 / 3)


def measured(comm):
    """Times of operator and all-reduce, one after the other and together, and of iterations."""
    for block in ((4, 4, 4, 4), (8, 8, 8, 8), (16, 16, 16, 8)):
        lattice = Lattice((block[0] * comm.size, *block[1:]), (comm.size, 1, 1, 1), comm.rank)
        operator = StaggeredOperator(comm, lattice, links(lattice), 0.5)
        vector = np.ones((lattice.n_even, 3), complex)
        out, sums = np.empty_like(vector), zero_limbs(2)
        total = PersistentCollective(comm, "allreduce", sums)

        def reduce(total=total, sums=sums):
            total.start(sums)
            total.wait()

        def beside(total=total, sums=sums, operator=operator, vector=vector, out=out):
            total.start(sums)
            operator.apply(vector, out, total.test)
            total.wait()

        apply = functools.partial(operator.apply, vector, out)
        one = time_interleaved(comm, {"operator": apply, "all-reduce": reduce, "together": beside}, TURNS)
        for name in CG_VARIANTS:
            n = len(solve_cg(operator, vector, 1e-8, variant=name).residuals) - 1
            solve = functools.partial(solve_cg, operator, vector, 1e-8, variant=name)
            one[f"{name}, {n} iterations"] = min(call_seconds(comm, solve) for _ in range(5)) / n
        if comm.rank == 0:
            cells = "  ".join(f"{name} {1e3 * seconds:.3f}" for name, seconds in one.items())
            print(f"P = {comm.size}, {'x'.join(map(str, block))} a rank: {cells}", flush=True)


def halo_messages(torus, n_bytes):
    """Two halos, one after the other: a rank sends its second when it has received its first."""
    ranks = np.arange(torus.n_nodes)
    at = torus.coordinates(ranks)
    steps = [(axis, step) for axis in range(3) for step in (1, -1)]
    to = [torus.node_at((at + step * np.eye(3, dtype=int)[axis]) % torus.shape) for axis, step in steps]
    source, destination = np.tile(ranks, 6), np.concatenate(to)
    received = np.argsort(destination, kind="stable").reshape(-1, 6)  # messages to each rank
    after = received[source]
    waits = np.concatenate([np.zeros(len(source), int), np.full(len(source), 6)])
    first = np.concatenate([[0], np.cumsum(waits)])
    return (
        np.tile(source, 2),
        np.tile(destination, 2),
        np.full(2 * len(source), n_bytes),
        first,
        after.ravel(),
    )


def reduce_messages(torus, n_bytes):
    """One all-reduce by recursive doubling, as `PersistentCollective` makes it of so few bytes."""
    schedule = make_schedule(CollectiveCall("allreduce", torus.n_nodes, n_bytes // 8), "recursive-doubling")
    made = packet_messages(schedule, 8, torus)
    return made.source, made.destination, made.n_bytes, made.after_first, made.after


def seconds(simulator, *sets):
    """Seconds until all of these messages have arrived, which begin together."""
    source, destination, n_bytes = (np.concatenate([one[i] for one in sets]) for i in range(3))
    begins = np.cumsum([0, *(len(one[0]) for one in sets)])
    waits = np.concatenate([np.diff(one[3]) for one in sets])
    after = np.concatenate([one[4] + begin for one, begin in zip(sets, begins[:-1], strict=True)])
    first = np.concatenate([[0], np.cumsum(waits)])
    return simulator.simulate(PacketMessages(source, destination, n_bytes, first, after)).seconds


def simulated():
    """Seconds of the communication of an iteration."""
    torus = Torus((8, 8, 8))
    simulator = PacketSimulator(torus, make_hardware(load_machine("bluegene-p")))
    for block in ((2, 2, 2, 16), (4, 4, 4, 16), (8, 8, 8, 16)):
        halos = halo_messages(torus, SITE * int(np.prod(block[1:])) // 2)
        name = f"{'x'.join(map(str, block))} a node"
        for kind, n_bytes in (("exact sums", SUM), ("sums of doubles", 8)):
            one, two = (reduce_messages(torus, n * n_bytes) for n in (1, 2))
            alone, reduce, wide, both = (
                1e6 * seconds(simulator, *sets) for sets in ([halos], [one], [two], [halos, two])
            )
            print(
                f"{name}, {kind}: halos {alone:.1f} us, all-reduce of one {reduce:.1f}, of two {wide:.1f}; "
                f"an iteration {alone + 2 * reduce:.1f} plain, {both:.1f} pipelined"
            )


def main():
    names = sys.argv[1:] or ["measured", "simulated"]
    if unknown := [name for name in names if name not in ("measured", "simulated")]:
        sys.exit(f"no part '{unknown[0]}': measured, simulated")
    if os.environ.get("PETAMAP_BENCHMARK"):
        measured(world())
        return
    if "simulated" in names:
        simulated()
    if "measured" in names:
        mpiexec = Path(sys.executable).with_name("mpiexec")
        environ = os.environ | {"PETAMAP_BENCHMARK": "1", "OMP_NUM_THREADS": "1"}
        subprocess.run([mpiexec, "-n", "2", sys.executable, __file__, "measured"], env=environ, check=True)


if __name__ == "__main__":
    main()
