"""What recording costs: a halo exchange of two ranks with and without `petacomm record`.

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
SIZES = [1, 128, 1024, 8192]  # numbers in a face
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int n_words, char **words) {
    int rank, size, n = atoi(words[1]), n_turns = atoi(words[2]);
    static double face[4][8192];
    MPI_Init(&n_words, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    double best = 1e30;
    for (int part = 0; part < 1000; part++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int turn = 0; turn < n_turns; turn++) {
            MPI_Request requests[4];
            MPI_Irecv(face[0], n, MPI_DOUBLE, next, 0, MPI_COMM_WORLD, requests);
            MPI_Irecv(face[1], n, MPI_DOUBLE, last, 1, MPI_COMM_WORLD, requests + 1);
            MPI_Isend(face[2], n, MPI_DOUBLE, last, 0, MPI_COMM_WORLD, requests + 2);
            MPI_Isend(face[3], n, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, requests + 3);
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
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
        print("bytes a face   alone    recorded   cost")
        for n in SIZES:
            words = [str(LAUNCHER), "-n", "2", program, str(n), str(max(10, 2_000 // (n + 20)))]
            plain, counted = (words, dict(os.environ)), with_interposer(words, library, folder)
            pairs = [(seconds(*plain), seconds(*counted)) for _ in range(n_runs)]
            alone, recorded = (min(pair[i] for pair in pairs) for i in (0, 1))
            cost = 100 * (recorded / alone - 1)
            print(f"{8 * n:12,} {1e6 * alone:7.3f} us {1e6 * recorded:7.3f} us {cost:+6.2f} %")


if __name__ == "__main__":
    main()
