/* Calls of which reports of IPM keep a rank's own block, on a communicator in another order, and to nobody. */
#include <mpi.h>
#include <stdlib.h>
int main(int n_words, char **words) {
    int rank, size, counts[64], places[64];
    double data[4096] = {0}, into[4096];
    MPI_Comm reversed;
    MPI_Init(&n_words, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < size; i++) counts[i] = i + 1, places[i] = i * (i + 1) / 2;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Sendrecv(data, 100 + rank, MPI_DOUBLE, (size - 1 - rank + 1) % size, 0, into, 4096, MPI_DOUBLE,
                 (size - 1 - rank + size - 1) % size, 0, reversed, MPI_STATUS_IGNORE);
    MPI_Send(data, 5, MPI_DOUBLE, MPI_PROC_NULL, 0, reversed);
    MPI_Pcontrol(1, "second");
    MPI_Gatherv(data, rank + 1, MPI_DOUBLE, into, counts, places, MPI_DOUBLE, 2, MPI_COMM_WORLD);
    MPI_Scatterv(into, counts, places, MPI_DOUBLE, data, rank + 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        MPI_Allgatherv(data, rank + 1, MPI_DOUBLE, into, counts, places, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Reduce(data, into, 7, MPI_DOUBLE, MPI_SUM, 3, MPI_COMM_WORLD);
    MPI_Pcontrol(-1, "second");
    MPI_Comm_free(&reversed);
    MPI_Finalize();
    return 0;
}
