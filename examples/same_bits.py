"""The same map to the last bit with one thread and two, both reductions, kept and recomputed pointing.

    python examples/same_bits.py

Under ``mpiexec -n 3`` it prints the same hash once more.
"""

import sys
import tempfile
from pathlib import Path

from first_map import CONFIGURATION

from petacomm.mpi import collective_errors, world
from petamap.data.config import parse_config
from petamap.mapmaking.run import run

VARIANTS = (
    ("resources.threads=1",),
    ("resources.threads=2",),
    ("comm.reduction=dense", "resources.threads=1"),
    ("resources.pointing=recompute", "resources.threads=1"),
)


def main(folder: Path) -> None:
    """Run the variants and compare the SHA-256 of their maps."""
    comm = world()
    hashes = set()
    with collective_errors(comm):
        shared = Path(comm.bcast(str(folder)))
        for number, changes in enumerate(VARIANTS):
            settings = [*changes, "map.n_side=8", "source.0.duration=4 h", "noise.n_lag=64"]
            config = parse_config(CONFIGURATION, Path("first.toml"), settings)
            summary = run(config, out=shared / str(number), comm=comm)
            found = [product.sha256 for product in summary.products if product.kind == "map"]
            hashes.add(*comm.bcast(found))  # rank 0 writes the files
    if comm.rank == 0:
        print(f"{comm.size} ranks, {len(VARIANTS)} variants, {len(hashes)} map: {min(hashes)[:16]}")
        sys.exit(len(hashes) != 1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
