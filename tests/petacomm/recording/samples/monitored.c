/* A ring each way of 4 ranks, a message of another size, an all-reduce, a put and a get. */
#include <mpi.h>
int main(int n_words, char** words) {
    double sent[100] = {0}, taken[100], shared[8] = {0};
    int rank, size;
    MPI_Win window;
    MPI_Init(&n_words, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int turn = 0; turn < 3; turn++)
        MPI_Sendrecv(sent, 100, MPI_DOUBLE, next, 0, taken, 100, MPI_DOUBLE, last, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Send(sent, 2, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(taken, 2, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(sent, taken, 10, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_create(shared, sizeof shared, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    if (rank == 2) MPI_Put(sent, 3, MPI_DOUBLE, 0, 0, 3, MPI_DOUBLE, window);
    if (rank == 3) MPI_Get(taken, 5, MPI_DOUBLE, 1, 0, 5, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
