"""The wire side alone: sum values on keys that several processes share.

mpiexec -n 4 python examples/sum_over_ranks.py
"""

import numpy as np

from petamap.comm.mpi import collective_errors, world
from petamap.comm.reduction import IndexMap, ReductionPlan


def main() -> None:
    """Each rank holds 1000 keys, half of them shared with the next rank; add one on each."""
    comm = world()
    with collective_errors(comm):
        keys = np.arange(1000, dtype=np.int64) + 500 * comm.rank
        plan = ReductionPlan(IndexMap(comm, keys), algorithm="pairwise")
        values = plan.allreduce(np.ones(1000, np.int64))
        same = bool((values == plan.multiplicity).all())
        sent = comm.allgather(plan.bytes_per_call(1, 8))
    if comm.rank == 0:
        print(f"{plan.n_global} keys on {comm.size} ranks, each sum is right: {same}")
        print(f"bytes sent a call, by rank: {sent}")


if __name__ == "__main__":
    main()
