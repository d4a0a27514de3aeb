"""What recording costs: exchanges of halos, alone and between sweeps of a solver, with and without.

    python benchmarks/recording.py [TURNS]

Runs with and without take turns, so that a machine that is busy with other things is so for both; the
fastest of each counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from petacomm.recording.interposer import compile_interposer, find_compiler
from petacomm.recording.recorded_job import with_interposer

LAUNCHER = Path(sys.executable).with_name("mpiexec")
# Ranks, numbers in a face, and the side of a cube that is swept between exchanges.
CASES = [(1, 1, 0), (2, 1, 0), (2, 128, 0), (2, 1024, 0), (2, 8192, 0), (2, 1024, 32), (2, 4096, 64)]
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
/* A sweep of Jacobi's method over a cube, the work between two exchanges. */
double old[66][66][66], new_[66][66][66];
static void sweep(int side) {
    for (int i = 1; i <= side; i++)
        for (int j = 1; j <= side; j++)
            for (int k = 1; k <= side; k++)
                new_[i][j][k] = (old[i - 1][j][k] + old[i + 1][j][k] + old[i][j - 1][k] + old[i][j + 1][k] +
                                 old[i][j][k - 1] + old[i][j][k + 1]) / 6;
}
int main(int n_words, char **words) {
    int rank, size, n = atoi(words[1]), n_turns = atoi(words[2]), side = atoi(words[3]);
    static double face[4][8192];
    MPI_Init(&n_words, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    double best = 1e30;
    for (int part = 0; part < (side ? 100 : 1000); part++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int turn = 0; turn < n_turns; turn++) {
            MPI_Request requests[4];
            MPI_Irecv(face[0], n, MPI_DOUBLE, next, 0, MPI_COMM_WORLD, requests);
            MPI_Irecv(face[1], n, MPI_DOUBLE, last, 1, MPI_COMM_WORLD, requests + 1);
            MPI_Isend(face[2], n, MPI_DOUBLE, last, 0, MPI_COMM_WORLD, requests + 2);
            MPI_Isend(face[3], n, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, requests + 3);
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
            if (side) sweep(side);
        }
        double seconds = (MPI_Wtime() - begin) / n_turns;
        if (seconds < best) best = seconds;
    }
    if (!rank) printf("%.17g\n", best);
    MPI_Finalize();
    return 0;
}
"""


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """Return the seconds of an exchange."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    return float(done.stdout)


def main() -> None:
    """Print a table of times, in microseconds."""
    n_runs = int(sys.argv[1]) if sys.argv[1:] else 10
    compiler = find_compiler(str(LAUNCHER))
    library = compile_interposer(compiler)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "halo.c").write_text(PROGRAM)
        program = str(folder / "halo")
        subprocess.run([compiler, "-O2", "-w", folder / "halo.c", "-o", program], check=True)
        print("ranks bytes a face  cube       alone     recorded     cost")
        for n_ranks, n, side in CASES:
            n_turns = 10 if side else max(10, 2_000 // (n + 20))
            words = [str(LAUNCHER), "-n", str(n_ranks), program, str(n), str(n_turns), str(side)]
            plain, counted = (words, dict(os.environ)), with_interposer(words, library, folder)
            pairs = [(seconds(*plain), seconds(*counted)) for _ in range(n_runs)]
            alone, recorded = (min(pair[i] for pair in pairs) for i in (0, 1))
            cost = 100 * (recorded / alone - 1)
            times = f"{1e6 * alone:8.3f} us {1e6 * recorded:8.3f} us"
            print(f"{n_ranks:5} {8 * n:12,} {side:5} {times} {cost:+6.2f} %")


if __name__ == "__main__":
    main()
