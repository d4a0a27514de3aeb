"""Rules and operations that do not commute: what is combined in the order of ranks stays so."""

import os
import sys

import pytest
from commands import run_command
from mpi import MPIEXEC

from petacomm.tuning import AlgorithmChoice, Tuning
from petacomm.tuning.cells import Cell
from petacomm.tuning.measurement import library_kind
from petacomm.tuning.openmpi_rules import openmpi_candidates
from petacomm.tuning.tuning_job import write_rules

# As Open MPI 5 names them.
NAMES = {
    "allreduce": "ignore basic_linear nonoverlapping recursive_doubling ring segmented_ring rabenseifner",
    "reduce": "ignore linear chain pipeline binary binomial in-order_binary rabenseifner",
    "reduce_scatter_block": "ignore basic_linear recursive_doubling recursive_halving butterfly",
    "bcast": "ignore basic_linear chain pipeline",
}
# Chains the affine maps x -> p x + q of all ranks, many at once, by each algorithm that is offered for the
# library or, where rules are read, by these; prints the algorithms that were tried, and those that are wrong.
CHAINS = """\
import numpy as np, sys
from mpi4py import MPI
from petacomm.tuning.measurement import candidate_settings, library_kind
from petacomm.tuning.tool_interface import ToolInterface, loaded_mpi_library
comm, prime = MPI.COMM_WORLD, 10007
pair = MPI.INT64_T.Create_contiguous(2).Commit()
def chained(first, second):
    p, q = first.T
    return np.stack([p * second[:, 0], p * second[:, 1] + q], 1) % prime
def combine(a, b, kind):
    a, b = (np.frombuffer(one, np.int64).reshape(-1, 2) for one in (a, b))
    b[:] = chained(a, b)
operation = MPI.Op.Create(combine, commute=False)
def maps(rank, n):
    return (np.arange(2 * n).reshape(n, 2) * 7 + rank * 11 + 2) % prime
def is_right(call, comm, n):
    size = comm.size * n if call == "reduce_scatter_block" else n
    total = maps(0, size)
    for rank in range(1, comm.size):
        total = chained(total, maps(rank, size))
    mine, result = maps(comm.rank, size), np.zeros((n, 2), np.int64)
    if call == "reduce":
        for root in range(comm.size):
            comm.Reduce([mine, pair], [result, pair], operation, root)
        return (result == total).all()
    if call == "allreduce":
        comm.Allreduce([mine, pair], [result, pair], operation)
        return (result == total).all()
    comm.Reduce_scatter_block([mine, pair], [result, pair], operation)
    return (result == total[comm.rank * n : (comm.rank + 1) * n]).all()
kind, tools = library_kind(MPI.Get_library_version()), ToolInterface(MPI)
tried, wrong = [], []
for call in ("allreduce", "reduce", "reduce_scatter_block"):
    found = {"default": {}}
    if sys.argv[1] != "rules":
        found = candidate_settings(kind, tools, call, comm.size, sys.argv[1] == "commutative")
    for name, setting in found.items():
        tools.write(setting)
        other = comm.Dup()
        right = all([is_right(call, other, n) for n in (1, 7, 600)])
        tools.write(found["default"])
        tried.append(f"{call} {name}")
        if not comm.allreduce(int(right), MPI.MIN):
            wrong.append(tried[-1])
if comm.rank == 0:
    print(MPI.Get_library_version().splitlines()[0])
    print(loaded_mpi_library())
    print(",".join(tried))
    print(",".join(wrong))
"""


def chains(n_ranks, what, variables=None):
    """Return version and path of the MPI library, algorithms that were tried, and those that are wrong."""
    if not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    # Without MPICH's shared memory, which combines values before its rules are asked.
    parts = ("ALLREDUCE_POSIX", "REDUCE_POSIX")
    settings = {f"MPIR_CVAR_{part}_INTRA_ALGORITHM": "mpir" for part in parts}
    job = [MPIEXEC, "-n", n_ranks, sys.executable, "-c", CHAINS, what]
    ended = run_command(job, check=True, env=os.environ | settings | (variables or {}))
    version, library, tried, wrong = ended.stdout.split("\n")[-5:-1]
    return version, library, tried.split(","), [name for name in wrong.split(",") if name]


@pytest.mark.parametrize("n_ranks", [3, 4])
def test_what_is_offered_of_open_mpi_keeps_the_order_of_ranks(n_ranks):
    version, _, tried, wrong = chains(n_ranks, "offered")
    if library_kind(version) != "open-mpi":
        pytest.skip("the MPI at hand is not Open MPI: make test-openmpi")
    assert not wrong
    assert {"allreduce 3 recursive_doubling", "reduce 6 in_order_binary"} < set(tried)
    wrong = chains(n_ranks, "commutative")[3]
    assert {"allreduce 4 ring", "reduce 5 binomial"} < set(wrong)  # the check tells


def test_rules_of_mpich_leave_such_operations_to_the_library(tmp_path):
    version, library, _, wrong = chains(4, "rules")
    if library_kind(version) != "mpich":
        pytest.skip("the MPI at hand is not MPICH")
    assert not wrong
    names = {"allreduce": "ring", "reduce": "reduce_scatter_gather", "reduce_scatter_block": "pairwise"}
    choices = {Cell(call, 4096, 4): AlgorithmChoice(name) for call, name in names.items()}
    tuning = Tuning(4, version, "mpich", library, {}, choices, choices)
    assert not chains(4, "rules", write_rules(tuning, tmp_path))[3]


class NamedAlgorithms:
    """The tool interface of an Open MPI."""

    def values(self, variable):
        names = NAMES[variable.removeprefix("coll_tuned_").removesuffix("_algorithm")].split()
        return {name: number for number, name in enumerate(names)}


def test_algorithms_out_of_the_order_of_ranks_are_offered_if_all_operations_commute():
    usual, commutative = (
        {
            call: [name.split()[1] for name in openmpi_candidates(NamedAlgorithms(), call, 8, promised)]
            for call in NAMES
        }
        for promised in (False, True)
    )
    assert usual["reduce"] == ["linear", "in_order_binary", "rabenseifner"]
    assert set(commutative["allreduce"]) - set(usual["allreduce"]) == {"ring", "segmented_ring"}
    assert set(commutative["reduce"]) - set(usual["reduce"]) == {"chain", "pipeline", "binary", "binomial"}
    assert usual["bcast"] == commutative["bcast"] == ["basic_linear", "chain", "pipeline"]
