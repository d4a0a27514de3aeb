"""Recordings of programs whose messages are known, to the byte."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mpi import MPIEXEC
from recorded import COMPILER, byte_matrix, record_command, record_python, require_compiler

from petacomm.mapping.graph_sources import grid_graph, subgrid_alltoall_graph
from petacomm.mapping.recorded_graph import recording_graph
from petacomm.recording.recorded_job import launcher_kind
from petacomm.recording.recording import CALLS

RING = """\
#include <mpi.h>
#include <stdlib.h>
int main(int n_words, char **words) {
    MPI_Request requests[4];
    double data[1000], into[2][1000];
    int rank, size;
    MPI_Init(&n_words, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size, n = atoi(words[1]);
    for (int turn = 0; turn < 5; turn++) {
        MPI_Irecv(into[0], n, MPI_DOUBLE, last, 0, MPI_COMM_WORLD, requests);
        MPI_Irecv(into[1], n, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, requests + 1);
        MPI_Isend(data, n, MPI_DOUBLE, next, 0, MPI_COMM_WORLD, requests + 2);
        MPI_Isend(data, n, MPI_DOUBLE, last, 1, MPI_COMM_WORLD, requests + 3);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Send(data, n, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


def dense(graph):
    matrix = np.zeros((graph.n_ranks, graph.n_ranks), np.int64)
    matrix[graph.sources, graph.targets] = graph.n_bytes
    return matrix


def of_call(rows, *calls):
    return rows[np.isin(rows["call"], [CALLS.index(call) for call in calls])]


def test_a_compiled_program(tmp_path):
    require_compiler()
    (tmp_path / "ring.c").write_text(RING)
    subprocess.run([COMPILER, "-w", "ring.c", "-o", "ring"], cwd=tmp_path, check=True, timeout=60)
    recording = record_command(tmp_path, 4, "./ring", 1000)
    expected = grid_graph([4], n_bytes=5 * 8000)
    assert np.array_equal(dense(recording_graph(recording)), dense(expected))
    assert recording.n_ranks == 4 and recording.direct["messages"].sum() == 4 * 2 * 5
    assert set(recording.direct["size_class"]) == {13}  # 4096 to 8191 bytes


SPAWN = """\
import sys
import numpy as np
from mpi4py import MPI
comm, rank = MPI.COMM_WORLD, MPI.COMM_WORLD.rank
others = MPI.Comm.Get_parent()
if others == MPI.COMM_NULL:
    others = comm.Spawn(sys.executable, ["program.py"], 2)
    comm.Sendrecv(np.zeros(5), 1 - rank, recvbuf=np.zeros(5))
for _ in range(7):
    others.Sendrecv(np.zeros(100), rank, recvbuf=np.zeros(100))
others.Barrier()
others.Disconnect()
"""


def test_processes_that_a_job_spawns_are_told_of_and_not_taken_for_its_ranks(tmp_path):
    require_compiler()
    if launcher_kind(str(MPIEXEC)) != "open-mpi":
        pytest.skip("of MPICH 5.0.2, some of such jobs never end, recorded or not: make test-openmpi")
    (tmp_path / "program.py").write_text(SPAWN)
    recording, said = record_command(tmp_path, 2, sys.executable, "program.py", said=True)
    assert "2 processes that the job spawned are not recorded" in said
    assert recording.n_ranks == 2 and recording.outside == (14, 14 * 800)
    assert byte_matrix(recording.direct, 2).tolist() == [[0, 40], [40, 0]]


SPLITS = """\
grid = comm.Create_cart([2, 1], periods=[True, True])
other = comm.Create_cart([1, 2], periods=[False, False])
for one in (grid, other, grid):
    one.Neighbor_alltoall(np.zeros((4, 3)), np.zeros((4, 3)))
for turn in range(40):
    part = comm.Split(0, rank)
    part.Barrier()
    part.Free()
"""


def test_communicators_of_the_same_ranks_are_kept_once(tmp_path):
    recording = record_python(tmp_path, 2, SPLITS)
    assert recording.collectives["calls"].tolist() == [40]
    # In two calls, both neighbours along the axis of two are the other rank, and along that of one itself.
    inside = 2 * 2 * 24
    expected = [[inside, inside + 24], [inside + 24, inside]]
    assert byte_matrix(recording.direct, 2).tolist() == expected
    assert [group.ranks.tolist() for group in recording.groups] == [[0, 1]]


# On one rank, that waits for no other: thousands of splits of two take minutes of a busy machine.
FREED = """\
import re
used = []
for turn in range(6000):
    part = comm.Split(0, rank)
    part.Barrier()
    part.Free()
    if turn % 1000 == 999:
        used.append(int(re.search("Anonymous: *([0-9]+)", open("/proc/self/smaps_rollup").read())[1]))
assert used[-1] - used[0] < 40, used  # KiB: that many handles that are kept take 150, groups 1700
"""


def test_communicators_that_are_freed_take_no_memory(tmp_path):
    recording = record_python(tmp_path, 1, FREED)
    assert recording.collectives["calls"].tolist() == [6000]


HALO = """\
from petacomm.mpi import world
from petacomm.redistribution import Lattice, LatticeField
for number, method in enumerate(["packed", "datatypes", "neighbourhood"]):
    field = LatticeField(world(), Lattice((4, 4, 4, 6), (1, 2, 1, 2), rank), "vector", np.complex128, method)
    field.exchange(0)
    phase(number + 1)
    for _ in range(3):
        field.exchange(0), field.exchange(1)
    phase(0)
"""


def test_a_halo_exchange(tmp_path):
    recording = record_python(tmp_path, 4, HALO)
    # Blocks of 4 x 2 x 4 x 3 sites of 48 bytes; both neighbours along an axis are one rank.
    expected = 3 * 48 * dense(grid_graph([2, 2], n_bytes=[4 * 4 * 3, 4 * 2 * 4]))
    for phase, call in ((1, "send"), (2, "send"), (3, "neighbor_alltoall")):
        rows = recording.of_phase(phase).direct
        assert np.array_equal(byte_matrix(rows, 4), expected), phase
        assert np.array_equal(of_call(rows, call), rows)


FFT = """\
from petacomm.mpi import world
from petacomm.redistribution import ParallelFFT
for number, method in enumerate(["packed", "alltoallw"]):
    fft = ParallelFFT(world(), (8, 12, 6), np.complex128, (4,), method)
    mine = np.ones(fft.before.local_shape(rank), complex)
    fft.forward(mine)
    phase(number + 1)
    for _ in range(3):
        fft.forward(mine)
    phase(0)
blocks = np.zeros((size, 100))
phase(3)
comm.Alltoall(blocks, blocks.copy())
"""


def test_a_fourier_transform(tmp_path):
    recording = record_python(tmp_path, 4, FFT)
    # 8 / 4 rows of 12 / 4 columns of 6 numbers from each rank to each other.
    expected = dense(subgrid_alltoall_graph([4], [0], 3 * (2 * 3 * 6) * 16))
    for phase in (1, 2):
        assert np.array_equal(byte_matrix(recording.of_phase(phase).direct, 4), expected), phase
    blocks = recording.of_phase(3)
    for algorithm in ("pairwise", "all-post"):
        rows = of_call(blocks.messages({"alltoall": algorithm}), "alltoall")
        assert np.array_equal(byte_matrix(rows, 4), dense(subgrid_alltoall_graph([4], [0], 800)))


CALLED = """\
row, all_rows = np.zeros(5), np.zeros((size, 5))
comm.Alltoall(all_rows, all_rows.copy())
comm.Ibcast(row, root=2).Wait()
comm.Allreduce(MPI.IN_PLACE, row)
comm.Reduce(row, row.copy(), root=1)
comm.Gather(MPI.IN_PLACE if rank == 0 else row, all_rows if rank == 0 else None)
comm.Scatter(all_rows if rank == 3 else None, row, root=3)
comm.Allgather(MPI.IN_PLACE, all_rows)
comm.Reduce_scatter_block(all_rows, row)
comm.Scan(row, row.copy()), comm.Exscan(row, row.copy())
comm.Barrier()
half = comm.Split(rank % 2, -rank)
half.Set_name("half")
half.Allreduce(np.zeros(7), np.zeros(7))
half.Free()
"""


def test_collectives_are_counted_by_what_they_carry(tmp_path):
    recording = record_python(tmp_path, 4, CALLED)
    found = {
        (CALLS[row["call"]], recording.groups[row["group"]].name):
        (int(row["root"]), int(row["size"]), int(row["calls"]))
        for row in recording.collectives
    }  # fmt: skip
    world = {
        "alltoall": (0, 40, 1), "bcast": (2, 40, 1), "allreduce": (0, 40, 1), "reduce": (1, 40, 1),
        "gather": (0, 40, 1), "scatter": (3, 40, 1), "allgather": (0, 40, 1), "scan": (0, 40, 1),
        "reduce_scatter_block": (0, 40, 1), "exscan": (0, 40, 1), "barrier": (0, 0, 1),
    }  # fmt: skip
    expected = {(call, "MPI_COMM_WORLD"): row for call, row in world.items()}
    assert found == expected | {("allreduce", "half"): (0, 56, 1)}
    halves = [group.ranks.tolist() for group in recording.groups if group.name == "half"]
    assert sorted(halves) == [[2, 0], [3, 1]]
    assert not len(recording.direct)
    rows = of_call(recording.messages(), "allreduce")
    halved = rows[[recording.groups[group].name == "half" for group in rows["group"]]]
    assert byte_matrix(halved, 4).tolist() == [[0, 0, 56, 0], [0, 0, 0, 56], [56, 0, 0, 0], [0, 56, 0, 0]]


NAMED = """\
counts = np.arange(size)
comm.Alltoallv([np.zeros(6), counts], [np.zeros(4 * size), np.full(size, rank)])
phase(1)
comm.Gatherv(np.zeros(rank), [np.zeros(6), counts] if rank == 2 else None, root=2)
comm.Scatterv([np.zeros(6), counts] if rank == 1 else None, np.zeros(rank), root=1)
phase(2)
ring = comm.Create_cart([size], [True])
ring.Neighbor_alltoall(np.zeros((2, 7)), np.zeros((2, 7)))
ring.Sendrecv(np.zeros(2), ring.Shift(0, 1)[1], recvbuf=np.zeros(2))
phase(3)
send = comm.Send_init(np.zeros(11), (rank + 1) % size)
receive = comm.Recv_init(np.zeros(11), (rank - 1) % size)
for _ in range(3):
    MPI.Prequest.Startall([send, receive])
    MPI.Prequest.Waitall([send, receive])
send.Free(), receive.Free()
phase(4)
window = MPI.Win.Allocate(80, 1, comm=comm)
window.Fence()
if rank == 3:
    window.Put(np.zeros(2), 0), window.Accumulate(np.zeros(3), 1), window.Get(np.zeros(4), 2)
window.Fence()
window.Free()
phase(5)
comm.Allgatherv(np.zeros(rank), [np.zeros(6), counts])
"""


def test_calls_that_name_their_partners_are_counted_by_pair(tmp_path):
    recording = record_python(tmp_path, 4, NAMED)
    ring = np.roll(np.eye(4, dtype=np.int64), 1, axis=1)

    def phase(number):
        return (byte_matrix(recording.of_phase(number).direct, 4) // 8).tolist()

    assert phase(0) == (np.arange(4) * (1 - np.eye(4, dtype=np.int64))).tolist()
    assert phase(1) == [[0, 0, 0, 0], [0, 0, 2 + 1, 3], [0, 0, 0, 0], [0, 0, 3, 0]]
    assert phase(2) == (7 * (ring + ring.T) + 2 * ring).tolist()
    assert phase(3) == (3 * 11 * ring).tolist()
    assert phase(4) == [[0] * 4, [0] * 4, [0, 0, 0, 4], [2, 3, 0, 0]]
    assert phase(5) == ((6 - np.roll(np.arange(4), -1))[:, None] * ring).tolist()


THREADS = """\
import threading
parts = [comm.Dup() for _ in range(4)]
def send(part):
    for _ in range(200):
        part.Sendrecv(np.zeros(3), (rank + 1) % size, recvbuf=np.zeros(3))
threads = [threading.Thread(target=send, args=[part]) for part in parts]
[thread.start() for thread in threads], [thread.join() for thread in threads]
"""


def test_threads_lose_no_message(tmp_path):
    recording = record_python(tmp_path, 2, THREADS)
    assert byte_matrix(recording.direct, 2).tolist() == [[0, 4 * 200 * 24], [4 * 200 * 24, 0]]


@pytest.mark.parametrize("n_ranks", [1])
def test_a_single_rank_has_no_messages(tmp_path, n_ranks):
    recording = record_python(tmp_path, n_ranks, "comm.Allreduce(np.zeros(3), np.zeros(3)), comm.Barrier()")
    assert recording.collectives["calls"].sum() == 2 and not len(recording.messages())


REUSED = """\
data, into = np.zeros(8), np.zeros(8)
for turn in range(4):
    ordered = comm.Split(0, rank if turn % 2 else -rank)
    row = MPI.DOUBLE.Create_contiguous(turn + 1).Commit()
    phase(turn)
    for count in (1, 2, 1):
        ordered.Sendrecv([data, count, row], (ordered.rank + 1) % size, recvbuf=[into, count, row])
    row.Free(), ordered.Free()
"""


def test_handles_that_are_used_again_for_other_things(tmp_path):
    recording = record_python(tmp_path, 3, REUSED)
    ranks = np.arange(3)
    for turn in range(4):
        expected = np.zeros((3, 3), np.int64)
        expected[ranks, (ranks + (1 if turn % 2 else -1)) % 3] = (1 + 2 + 1) * 8 * (turn + 1)
        assert np.array_equal(byte_matrix(recording.of_phase(turn).direct, 3), expected), turn
    assert recording.direct["messages"].sum() == 3 * 4 * 3


@pytest.mark.parametrize(
    ("shape", "n_row"), [((4, 4), 4), *(pytest.param(*one, marks=pytest.mark.long) for one in
                                        (((8, 4), 4), ((8, 8), 8)))]
)  # fmt: skip
def test_many_ranks_on_few_cores(tmp_path, shape, n_row):
    require_compiler()
    source = Path(__file__).with_name("samples") / "halo.c"
    subprocess.run([COMPILER, "-w", source, "-o", "halo"], cwd=tmp_path, check=True, timeout=60)
    n_ranks = shape[0] * shape[1]
    recording = record_command(tmp_path, n_ranks, "./halo")
    expected = dense(grid_graph(shape, n_bytes=[10 * 4000, 10 * 2400]))
    expected[0, n_ranks - 1] += 56
    assert np.array_equal(byte_matrix(recording.direct, n_ranks), expected)
    rows = of_call(recording.messages({"alltoall": "pairwise"}), "alltoall")
    assert np.array_equal(byte_matrix(rows, n_ranks), dense(subgrid_alltoall_graph(shape, [1], 800)))
    assert recording.collectives["calls"].sum() == 10 + 1 + 1 + n_ranks // n_row
