"""Rules of MPICH and Open MPI: what they say, and that the library at hand follows them."""

import json
import os
import sys

import pytest
from commands import run_command
from mpi import MPIEXEC

from petacomm.base.errors import ResourceError
from petacomm.tuning import AlgorithmChoice, Tuning
from petacomm.tuning.cells import Cell
from petacomm.tuning.measurement import COLLECTIVES, library_kind
from petacomm.tuning.mpich_rules import RULES_VARIABLE, builtin_table, selection_table
from petacomm.tuning.openmpi_rules import RULES_VARIABLE as RULES_NAME
from petacomm.tuning.openmpi_rules import RULES_VARIABLES, dynamic_rules
from petacomm.tuning.tuning_job import write_rules

SIZES = [8, 65536]
COMBINED = [Cell("allreduce", size, ranks) for size in SIZES for ranks in (2, 4, 5, 8)]
LAST = 65536**2 // 724  # bytes of the last band: 724 is the geometric mean of the sizes
CELLS = [Cell(name, 0 if name == "barrier" else 512, 4) for name in COLLECTIVES]
OWN = {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}}
BASE = {
    "collective=allreduce": {"comm_type=intra": OWN, "comm_type=inter": {}},
    "collective=barrier": {"comm_type=intra": {"own": {}}},
}
# Prints the elements of each sum that rank 0 makes in an allreduce of 8 and of 65536 bytes: what an algorithm
# combines shows which it is.
SUMS = """\
import numpy as np
from mpi4py import MPI
from petacomm.tuning.tool_interface import loaded_mpi_library
made = []
def add(a, b, kind):
    a, b = np.frombuffer(a), np.frombuffer(b)
    made[-1].append(len(a))
    b += a
add = MPI.Op.Create(add, commute=True)
comm = MPI.COMM_WORLD
for n in (1, 8192):
    result = np.zeros(n)
    made.append([])
    comm.Allreduce([np.ones(n), MPI.DOUBLE], [result, MPI.DOUBLE], add)
    assert (result == comm.size).all()
if comm.rank == 0:
    print(MPI.Get_library_version().splitlines()[0])
    print(loaded_mpi_library())
    print(made)
"""


def sums_made(variables):
    """Return version and path of the MPI library, and the elements of each sum on rank 0 of 4, by call."""
    if not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    # Without MPICH's shared memory, which combines values after some calls.
    settings = {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "mpir"}
    job = [MPIEXEC, "-n", 4, sys.executable, "-c", SUMS]
    ended = run_command(job, check=True, env=os.environ | settings | variables)
    version, library, made = ended.stdout.splitlines()[-3:]
    return version, library, json.loads(made)


def test_mpich_follows_its_selection_file(tmp_path):
    version, library, before = sums_made({})
    if library_kind(version) != "mpich":
        pytest.skip("the MPI at hand is not MPICH")
    assert before == [[1, 1], [8192, 8192]]  # recursive doubling
    own = builtin_table(tmp_path / library)
    table = selection_table(own, COMBINED, {Cell("allreduce", 65536, 4): "ring"})
    (tmp_path / "rules.json").write_text(json.dumps(table))
    after = sums_made({RULES_VARIABLE: str(tmp_path / "rules.json")})[2]
    assert after == [[1, 1], [2048] * 3]
    tree = selection_table(own, COMBINED, {Cell("allreduce", 65536, 4): "tree k=4"})
    (tmp_path / "rules.json").write_text(json.dumps(tree))
    assert sums_made({RULES_VARIABLE: str(tmp_path / "rules.json")})[2] == [[1, 1], [8192] * 3]
    others = selection_table(own, COMBINED, {Cell("allreduce", 65536, 5): "ring"})
    (tmp_path / "rules.json").write_text(json.dumps(others))
    assert sums_made({RULES_VARIABLE: str(tmp_path / "rules.json")})[2] == before


def test_open_mpi_follows_its_rules(tmp_path):
    version, _, before = sums_made({})
    if library_kind(version) != "open-mpi":
        pytest.skip("the MPI at hand is not Open MPI: make test-openmpi")
    path = tmp_path / "rules.txt"
    variables = RULES_VARIABLES | {RULES_NAME: str(path)}
    path.write_text(dynamic_rules(COMBINED, {Cell("allreduce", 65536, 4): "4 ring"}))
    assert before[1] != [2048] * 3 and sums_made(variables)[2] == [before[0], [2048] * 3]
    path.write_text(dynamic_rules(COMBINED, {Cell("allreduce", 65536, 5): "4 ring"}))
    assert sums_made(variables)[2] == before


@pytest.mark.long
def test_rules_of_all_algorithms_are_accepted_and_results_are_right(tmp_path):
    """A job under rules for each algorithm that the library has, each of one size; it compares results."""
    first = run_cells(tmp_path, CELLS, True, {})
    if "Intel" in first["library"]:
        pytest.skip("the MPI at hand is Intel's, which tunes itself")
    chosen = {}
    for cell in first["cells"]:
        names = [name for name in cell["times"] if name != "default"]
        sizes = [0] if cell["collective"] == "barrier" else [512 << number for number in range(len(names))]
        chosen |= {Cell(cell["collective"], size, 4): name for size, name in zip(sizes, names, strict=False)}
    assert {cell.collective for cell in chosen} == set(COLLECTIVES)
    assert not any(cell["wrong"] for cell in first["cells"])
    head = {name: first[name] for name in ("ranks", "library", "kind", "library_path", "settings")}
    choices = {cell: AlgorithmChoice(name) for cell, name in chosen.items()}
    variables = write_rules(Tuning(**head, times=choices, choices=choices), tmp_path)
    again = run_cells(tmp_path, list(chosen), False, variables)
    assert not any(cell["wrong"] for cell in again["cells"])


def run_cells(folder, cells, forced, variables):
    """Return what 4 ranks measure of collectives."""
    if not MPIEXEC.exists():
        pytest.skip("no mpiexec beside this Python: pip install mpich")
    request = {"cells": cells, "forced": forced, "seconds": 0.0, "rounds": 1}
    (folder / "request.json").write_text(json.dumps(request))
    program = "import sys; from petacomm.tuning.measurement import run_measurement as run; run(*sys.argv[1:])"
    job = [MPIEXEC, "-n", 4, sys.executable, "-c", program, folder / "request.json", folder / "result.json"]
    run_command(job, check=True, env=os.environ | variables)
    return json.loads((folder / "result.json").read_text())


def test_the_selection_file_keeps_all_else():
    table = selection_table(
        BASE, COMBINED, {Cell("allreduce", 8, 8): "ring", Cell("barrier", 0, 8): "k_dissemination k=4"}
    )
    intra = table["collective=allreduce"]["comm_type=intra"]
    assert list(intra) == ["comm_size<8", "comm_size<=8", "comm_size=any"]
    assert (
        intra["comm_size=any"] == intra["comm_size<8"] == OWN
        and table["collective=allreduce"]["comm_type=inter"] == {}
    )
    rules = intra["comm_size<=8"]
    assert rules["is_commutative=no"] == OWN
    bands = rules["is_commutative=yes"]
    assert bands["avg_msg_size<725"] == {"algorithm=MPIR_Allreduce_intra_ring": {}}  # sqrt(8 * 65536)
    assert bands[f"avg_msg_size<{LAST + 1}"] == bands["avg_msg_size=any"] == OWN
    barrier = table["collective=barrier"]["comm_type=intra"]
    assert barrier["comm_size<=8"] == {"algorithm=MPIR_Barrier_intra_k_dissemination": {"k=4": {}}}
    assert BASE["collective=allreduce"]["comm_type=intra"] == OWN  # not changed


def test_rules_of_several_communicators_are_by_their_ranks():
    chosen = {Cell("allreduce", 8, 4): "ring", Cell("allreduce", 8, 5): "tree k=4"}
    intra = selection_table(BASE, COMBINED, chosen)["collective=allreduce"]["comm_type=intra"]
    sizes = ["comm_size<4", "comm_size<=4", "comm_size<5", "comm_size<=5", "comm_size=any"]
    assert list(intra) == sizes and [intra[size] == OWN for size in sizes] == [True, False] * 2 + [True]
    four, five = (intra[size]["is_commutative=yes"]["avg_msg_size<725"] for size in sizes[1::2])
    assert "algorithm=MPIR_Allreduce_intra_ring" in four and "algorithm=MPIR_Allreduce_intra_tree" in five
    text = dynamic_rules(COMBINED, dict.fromkeys(chosen, "4 ring"))
    lines = [line.partition(" #")[0] for line in text.splitlines()]
    assert lines[2] == "4"  # sizes of communicators: all, 4, 5 and 6
    assert [lines[number] for number in (3, 6, 12, 18)] == ["0", "4", "5", "6"]
    assert lines[9] == lines[15] == "1 4 0 0"


def test_algorithms_of_built_in_operations_are_for_these_alone():
    table = selection_table(BASE, COMBINED, {Cell("allreduce", 65536, 8): "reduce_scatter_allgather"})
    rules = table["collective=allreduce"]["comm_type=intra"]["comm_size<=8"]["is_commutative=yes"]
    leaf = rules[f"avg_msg_size<{LAST + 1}"]
    assert leaf["is_op_built_in=no"] == OWN and leaf["is_op_built_in=yes"]["count<pow2"] == OWN


def test_rules_of_open_mpi_are_by_the_bytes_of_all_blocks():
    measured = [Cell("alltoall", 64, 8), Cell("alltoall", 1024, 8), Cell("barrier", 0, 8)]
    text = dynamic_rules(measured, {measured[1]: "2 pairwise", measured[2]: "4 bruck"})
    lines = [line.partition(" #")[0] for line in text.splitlines()]
    assert lines[0] == "2" and lines[1:3] == ["3", "3"]
    one = lines.index("8")
    assert lines[one + 1 : one + 6] == ["4", "0 0 0 0", "8 0 0 0", "2056 2 0 0", "32776 0 0 0"]
    assert "0 4 0 0" in lines and lines[-3:] == ["9", "1", "0 0 0 0"]


def test_a_library_without_a_table_is_refused(tmp_path):
    path = tmp_path / "libmpi.so"
    path.write_bytes(b"no table")
    with pytest.raises(ResourceError, match=r"libmpi\.so: has no table"):
        builtin_table(path)
    with pytest.raises(ResourceError, match="cannot be read"):
        builtin_table(tmp_path / "none.so")


def test_libraries_are_known_by_what_they_say():
    assert library_kind("Open MPI v5.0.11, package: ...") == "open-mpi"
    assert library_kind("MPICH Version: 5.0.2") == "mpich"
    assert library_kind("MPI VERSION : CRAY MPICH version 8.1") == library_kind("Intel(R) MPI Library") == ""
