/* Halo exchange on a periodic grid of 2 x 2 ranks, an all-reduce, and an all-to-all within rows of the grid. */
#include <mpi.h>
#include <stdlib.h>
enum { NX = 300, NY = 500, STEPS = 10 };
int main(int n_words, char **words) {
    int dims[2] = {0, 0}, periodic[2] = {1, 1}, along[2] = {0, 1}, rank, size, n_row;
    MPI_Comm grid, row;
    MPI_Init(&n_words, &words);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periodic, 0, &grid);
    double *out = calloc(4 * NY, sizeof *out), *in = calloc(4 * NY, sizeof *in), sum = 1, total;
    for (int step = 0; step < STEPS; step++) {
        MPI_Request requests[8];
        int count[2] = {NY, NX}, r = 0;
        for (int d = 0; d < 2; d++) {
            int last, next;
            MPI_Cart_shift(grid, d, 1, &last, &next);
            MPI_Irecv(in + (2 * d) * NY, count[d], MPI_DOUBLE, last, 2 * d, grid, &requests[r++]);
            MPI_Irecv(in + (2 * d + 1) * NY, count[d], MPI_DOUBLE, next, 2 * d + 1, grid, &requests[r++]);
            MPI_Isend(out + (2 * d) * NY, count[d], MPI_DOUBLE, next, 2 * d, grid, &requests[r++]);
            MPI_Isend(out + (2 * d + 1) * NY, count[d], MPI_DOUBLE, last, 2 * d + 1, grid, &requests[r++]);
        }
        MPI_Waitall(r, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Cart_sub(grid, along, &row);
    MPI_Comm_size(row, &n_row);
    MPI_Alltoall(out, 100, MPI_DOUBLE, in, 100, MPI_DOUBLE, row);
    if (!rank) MPI_Send(out, 7, MPI_DOUBLE, size - 1, 9, MPI_COMM_WORLD);
    if (rank == size - 1) MPI_Recv(in, 7, MPI_DOUBLE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Bcast(out, 50, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
