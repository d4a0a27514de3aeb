"""Where datatypes win and lose: transposes and transforms, beside mpi4py-fft, halos beside packing.

    python benchmarks/datatypes.py [transposes] [curves] [halos] [pixels]

starts itself under mpiexec. What it prints is milliseconds of the slowest rank, the least of several turns.
"""

import argparse
import functools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from patterns import full_year, litebird_like, neighbours

from petacomm.mpi import world
from petacomm.mpi.autotuner import time_interleaved
from petacomm.redistribution import (
    OBJECTS,
    Lattice,
    LatticeField,
    ParallelFFT,
    Redistribution,
    StaggeredOperator,
)
from petacomm.redistribution.bench import even_grid
from petacomm.reduction import ReductionPlan
from petacomm.sharing import IndexMap

MPIEXEC = Path(sys.executable).with_name("mpiexec")
SHAPES = [(512, 512), (2048, 2048), (128, 128, 128)]
CURVES = [(512, 512), (2048, 2048)]
TURNS = 9


def peer(comm, shape):
    """mpi4py-fft's transforms and first transposes of this shape, in slabs and in pencils, by name."""
    try:
        from mpi4py_fft import PFFT, newDistArray
    except ImportError:
        return {}, {}
    transforms, transposes = {}, {}
    for name, words in {"slab": {"slab": True}, "default": {}}.items():
        fft = PFFT(comm.mpi_comm, shape, dtype=complex, **words)
        array, out = newDistArray(fft, False), newDistArray(fft, True)
        array[...] = comm.rank
        transforms[f"mpi4py-fft, {name}"] = lambda fft=fft, a=array, o=out: fft.forward(a, o, normalize=False)
        for transfer in fft.transfer if name == "slab" else ():
            if transfer.comm.Get_size() > 1:
                a, b = (np.ones(part, complex) for part in (transfer.subshapeA, transfer.subshapeB))
                transposes["mpi4py-fft"] = lambda t=transfer, a=a, b=b: t.forward(a, b)
    return transforms, transposes


def show(comm, title, seconds):
    if comm.rank == 0:
        cells = "  ".join(
            f"{name} {1e3 * taken:.3f}" for name, taken in sorted(seconds.items(), key=lambda i: i[1])
        )
        print(f"{title}: {cells}", flush=True)


def transpose(comm, shape):
    fft = ParallelFFT(comm, shape, checks="first")
    plan = Redistribution(comm, fft.stages[0], fft.stages[1], complex, checks="first")
    source, target = plan.empty_source(), plan.empty_target()
    source[...] = 1
    plan.run(source, target)
    array, out = source.copy(), fft.after.empty(comm.rank, complex)
    fft.forward(array, out)
    theirs, their_transposes = peer(comm, shape)
    name = f"P = {comm.size}, {'x'.join(map(str, shape))}"
    ours = {f"petamap ({plan.chosen})": lambda: plan.run(source, target)}
    show(comm, f"{name}, transpose", time_interleaved(comm, ours | their_transposes, TURNS))
    ours = {f"petamap ({fft.chosen})": lambda: fft.forward(array, out)}
    show(comm, f"{name}, transform", time_interleaved(comm, ours | theirs, TURNS))


def transposes(comm):
    for shape in SHAPES:
        transpose(comm, shape)


def curves(comm):
    """The four curves of a transform in two dimensions: no types, receive, send, both; and the choice."""
    for shape in CURVES:
        whole = np.random.default_rng(1).standard_normal(shape)
        calls = {}
        for method in ("packed", "receive-type", "send-type", "both-types", "auto"):
            fft = ParallelFFT(comm, shape, method=method, checks="first")
            array, out = whole[fft.before.box(comm.rank)].astype(complex), fft.after.empty(comm.rank, complex)
            fft.forward(array, out)
            calls[method] = functools.partial(fft.forward, array, out)
        seconds = time_interleaved(comm, calls, TURNS)
        show(comm, f"P = {comm.size}, transform {'x'.join(map(str, shape))}", seconds)


def halos(comm):
    """Halos by all methods, and the solver on them."""
    for block in ((4, 4, 4, 4), (8, 8, 8, 8), (16, 16, 16, 8)):
        grid = even_grid(comm.size, 4)
        shape = tuple(n * p for n, p in zip(block, grid, strict=True))
        lattice = Lattice(shape, grid, comm.rank)
        name = f"P = {comm.size}, {'x'.join(map(str, block))} a rank"
        for kind in OBJECTS:
            calls = {}
            for method in ("packed", "datatypes", "neighbourhood", "shared", "auto"):
                field = LatticeField(comm, lattice, kind, method=method)
                field.exchange(0)
                calls[method if method != "auto" else f"auto ({field.chosen})"] = functools.partial(
                    field.exchange, 0
                )
            show(comm, f"{name}, {kind}", time_interleaved(comm, calls, 3 * TURNS))
        links = np.broadcast_to(np.eye(3, dtype=complex), (4, lattice.n_sites, 3, 3))
        vector = np.ones((lattice.n_even, 3), complex)
        out, calls = np.empty_like(vector), {}
        for method in ("packed", "auto"):
            operator = StaggeredOperator(comm, lattice, links, 0.1, method)
            calls[method] = functools.partial(operator.apply, vector, out)
        show(comm, f"{name}, operator", time_interleaved(comm, calls, TURNS))


def pixels(comm):
    """The exchange of a scan's pixels, packed and straight out of the map; three float64 a pixel."""
    for name, pattern in (("N", neighbours), ("P", full_year), ("L", litebird_like)):
        keys = pattern(comm.rank, comm.size, {"N": 512, "P": 256, "L": 128}[name])
        calls = {}
        for packing in ("packed", "indexed", "auto"):
            plan = ReductionPlan(IndexMap(comm, keys), algorithm="owner", packing=packing, checks="first")
            values = np.ones((len(keys), 3))
            plan.allreduce(values)
            calls[packing] = functools.partial(plan.allreduce, values)
        show(comm, f"P = {comm.size}, pixels {name}", time_interleaved(comm, calls, TURNS))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="*", help="one or more of " + ", ".join(PARTS) + " [all]")
    names = parser.parse_args().part
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"no part '{unknown[0]}': {', '.join(PARTS)}")
    if os.environ.get("PETAMAP_BENCHMARK"):
        comm = world()
        for name in names:
            PARTS[name][0](comm)
        return
    for name in names or PARTS:
        for n_ranks in PARTS[name][1]:
            command = [MPIEXEC, "-n", str(n_ranks), sys.executable, __file__, name]
            environ = os.environ | {"PETAMAP_BENCHMARK": "1", "OMP_NUM_THREADS": "1"}
            subprocess.run(list(map(str, command)), env=environ, check=True)
            time.sleep(0.2)


PARTS = {
    "transposes": (transposes, (2, 4)),
    "curves": (curves, range(1, 9)),
    "halos": (halos, (2, 4, 8)),
    "pixels": (pixels, (2, 4, 8)),
}

if __name__ == "__main__":
    main()
